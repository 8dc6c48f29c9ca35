"""Asks the controller to move leaderships away before this broker stops (ControlledShutdown, 7).

Clients then find the new leaders before the old one is gone, and do not wait until its session has
expired. The request is best effort within a time limit: when the controller or the store cannot be
reached, the broker stops anyway (hazard C-14).
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
)
from ottla.wire.api import declare
from ottla.wire.errors import TransportError, UnsupportedByBroker

if TYPE_CHECKING:
    from ottla.broker.administration.partition_admin import PartitionAdmin
    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.broker")

# Kafka would wait 5 s between tries; who stops a broker does not want to wait for so long.
BACKOFF_MS_MAX = 500.0
REQUEST_TIMEOUT_MS = 5_000.0
TOTAL_MS = 10_000.0

_CONTROLLED_SHUTDOWN = declare(
    ApiKey.CONTROLLED_SHUTDOWN, ControlledShutdownRequest, ControlledShutdownResponse, 3, 3
)


class ControlledShutdown:
    """Made when the broker stops, used once."""

    def __init__(
        self,
        config: BrokerConfig,
        peers: Peers,
        metadata: MetadataCache,
        admin: PartitionAdmin,
        clock: Clock,
    ) -> None:
        self._config = config
        self._peers = peers
        self._metadata = metadata
        self._admin = admin
        self._clock = clock

    async def say(self, broker_epoch: int) -> bool:
        """Whether nothing is led here any more that another broker could lead. Never raises."""
        image = self._metadata.image
        others = image.brokers.keys() - {self._peers.node_id}
        if not self._config.controlled_shutdown_enable or not others:
            return True
        deadline_ms = self._clock.now_ms() + TOTAL_MS
        backoff_ms = min(self._config.controlled_shutdown_retry_backoff_ms, BACKOFF_MS_MAX)
        for attempt in range(1 + self._config.controlled_shutdown_max_retries):
            if attempt:
                await self._clock.sleep(backoff_ms)
            left_ms = deadline_ms - self._clock.now_ms()
            if left_ms <= 0:
                break
            try:
                left = await self._ask(broker_epoch, min(left_ms, REQUEST_TIMEOUT_MS))
            except (KafkaError, TransportError, UnsupportedByBroker, OSError) as error:
                logger.info("the controller has not relieved this broker: %s", error)
                continue
            if left == 0:
                return True
            logger.info("%d partitions have no other replica that could lead", left)
            return False
        return False

    async def _ask(self, broker_epoch: int, timeout_ms: float) -> int:
        """How many partitions are still led here. Raises KafkaError or TransportError."""
        node_id, controller_id = self._peers.node_id, self._metadata.controller_id
        if controller_id == node_id:
            result = await self._admin.relieve(node_id, broker_epoch, timeout_ms)
            _check(result.error_code)
            return len(result.remaining)
        connection = await self._peers.connect(
            controller_id, purpose="shutdown", request_timeout_ms=timeout_ms
        )
        try:
            request = ControlledShutdownRequest(node_id, broker_epoch)
            response = await connection.send(_CONTROLLED_SHUTDOWN, request)
        finally:
            connection.close()
        _check(response.error_code)
        return len(response.remaining_partitions)


def _check(code: int) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(error_code(code))
