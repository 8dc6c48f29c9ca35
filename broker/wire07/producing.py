"""Appends what PRODUCE and MULTIPRODUCE of 0.7 bring. They have no answer.

A message set becomes one record batch with the set's codec; its records have neither key nor
time, so the broker's rules for that hold. Of a set that is too large the producer learns nothing,
and each other refusal ends its connection, both as in 0.7.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.replica.record_checks import output_limit_bytes
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
)
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.records.batch import NO_TIMESTAMP
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.wire07.messages import decode_payloads

if TYPE_CHECKING:
    from ottla.broker.engine.context import ClientPeer
    from ottla.broker.handlers.services import Services
    from ottla.broker.wire07.asking import Asking
    from ottla.broker.wire07.partitions import Places07
    from ottla.protocol.ports import Buffer
    from ottla.protocol.wire07.requests import Produce07

logger = logging.getLogger("ottla.wire07")

_PRODUCE = ApiKey.PRODUCE, 3
_METADATA = ApiKey.METADATA, 4
_WRITTEN_BY_LEADER = 1
_TIMEOUT_MS = 10_000
# A topic that is created at its first message has a leader after so long.
_CREATION_MS = 5_000.0
_LOOK_MS = 20.0
# Sets that are made into batches at the same time.
_AT_ONCE_MAX = 4
# Of a set: as many messages as a batch without compression can hold, and not fewer than these.
_COUNT_MAX_MIN = 65_536
_RECORD_BYTES_MIN = 7
_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)


class Producing07:
    """Appends for the clients of one listener."""

    def __init__(self, services: Services, asking: Asking, places: Places07) -> None:
        self._services = services
        self._asking = asking
        self._places = places
        self._turns = asyncio.Semaphore(_AT_ONCE_MAX)

    async def append_all(self, peer: ClientPeer, parts: list[Produce07]) -> None:
        """Append one part after the other. Raises KafkaError: the connection ends."""
        for wanted in parts:
            try:
                await self._append(peer, wanted)
            except KafkaError as error:
                if error.code not in _TOO_LARGE:
                    raise
                logger.info("messages of 0.7 for %r are too large: %s", wanted.topic, error)

    async def _append(self, peer: ClientPeer, wanted: Produce07) -> None:
        services, topic = self._services, wanted.topic
        # Asked before anything is done; the request that follows is authorized as any other.
        if not services.authorizer.is_allowed(peer, Operation.WRITE, AclResourceType.TOPIC, topic):
            raise KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, f"it may not write to {topic!r}")
        if not self._places.exists(topic):
            await self._create(peer, topic)
        partition = self._places.led(topic, wanted.partition)
        rules = partition.settings.append_rules
        limit_bytes = output_limit_bytes(rules, len(wanted.messages))
        async with self._turns:
            batch = await services.ports.offload.run(
                batch_of, wanted.messages, limit_bytes, rules.max_message_bytes
            )
        if not batch:
            return
        place = partition.log.partition
        data = PartitionProduceData(index=place.partition, records=batch)
        request = ProduceRequest(
            acks=_WRITTEN_BY_LEADER,
            timeout_ms=_TIMEOUT_MS,
            topic_data=[TopicProduceData(name=place.topic, partition_data=[data])],
        )
        response = await self._asking.ask(peer, _PRODUCE, request, ProduceResponse)
        code = ErrorCode(response.responses[0].partition_responses[0].error_code)
        if code is not ErrorCode.NONE:
            raise KafkaError(code, f"messages for {place} are refused")

    async def _create(self, peer: ClientPeer, topic: str) -> None:
        """Create the topic as for any client that asks for it, and wait until it is led.

        Raises KafkaError."""
        clock, config = self._services.ports.clock, self._services.config
        awaited = {ErrorCode.NONE, ErrorCode.LEADER_NOT_AVAILABLE}
        if config.auto_create_topics_enable:
            # The creation has begun.
            awaited.add(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
        end_ms = clock.now_ms() + _CREATION_MS
        while not self._places.is_led(topic) and clock.now_ms() < end_ms:
            response = await self._asking.ask(peer, _METADATA, request, MetadataResponse)
            code = ErrorCode(response.topics[0].error_code)
            if code not in awaited:
                raise KafkaError(code, f"there is no topic {topic!r}")
            await clock.sleep(_LOOK_MS)


def batch_of(messages: Buffer, output_limit_bytes: int, batch_bytes_max: int) -> bytes:
    """A message set as one record batch; empty if there is no message. Pure.

    Raises KafkaError as ``decode_payloads``, also for more messages than a batch of so many bytes
    can hold: a few kilobytes can unpack to millions of them."""
    count_max = max(_COUNT_MAX_MIN, batch_bytes_max // _RECORD_BYTES_MIN)
    payloads, codec = decode_payloads(messages, output_limit_bytes, count_max)
    if not payloads:
        return b""
    if codec is Codec.NONE and sum(map(len, payloads)) > batch_bytes_max:
        raise KafkaError(
            ErrorCode.MESSAGE_TOO_LARGE, f"they have more than {batch_bytes_max} bytes"
        )
    entries = [(NO_TIMESTAMP, None, payload, ()) for payload in payloads]
    return encode_batch(entries, BatchOptions(codec=codec))
