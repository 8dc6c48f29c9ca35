"""ControlledShutdown (7), version 3: a broker asks the controller to be relieved before it stops.

For brokers only (CLUSTER_ACTION), by their own listener, and fenced by broker epoch: a request from
before a restart must not take anything from the broker that has come back (C-09, C-14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.shared import is_from_broker
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.controlled_shutdown import (
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    RemainingPartition,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

# The request has no time limit of its own; the broker that asks gives up after this anyway.
TIMEOUT_MS = 30_000


async def handle(
    services: Services, context: RequestContext, request: ControlledShutdownRequest
) -> ControlledShutdownResponse:
    """Answer with what the broker still leads, though others hold replicas of it."""
    if not is_from_broker(services, context, request.broker_id):
        return ControlledShutdownResponse(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        result = await services.admin.partitions.relieve(
            request.broker_id, request.broker_epoch, TIMEOUT_MS
        )
    except KafkaError as error:
        return ControlledShutdownResponse(error.code)
    return ControlledShutdownResponse(
        result.error_code, [RemainingPartition(*item) for item in result.remaining]
    )
