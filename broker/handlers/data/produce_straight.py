"""The shorter way of nearly every produce request: one batch, for a partition that is led here.

It answers at once, or when the in-sync replicas have the batch. What it cannot do it leaves to
``produce.handle`` and changes nothing then: a new check there belongs here, too, or must make this
decline. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.partitions.produces import (
    ACKS_ALL,
    LEADER_VERSION,
    TOPIC_ID_VERSION,
    VALID_ACKS,
    add_leaders,
)
from ottla.coordinator.metadata.image import INTERNAL_TOPICS
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import response_header
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.straight import PRODUCE_VERSIONS, produce_answer, produce_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import ClientPeer, ReplyPart
    from ottla.broker.handlers.services import Services, Straight
    from ottla.broker.partitions.partition import PartitionRuntime

_NONE = ErrorCode.NONE
_WRITE = Operation.WRITE
_TOPIC = AclResourceType.TOPIC


def straight(version: int) -> Straight | None:
    """The shorter way for requests of that version."""
    if version not in PRODUCE_VERSIONS:
        return None
    read, answer = produce_reader(version), produce_answer(version)
    by_id = version >= TOPIC_ID_VERSION

    def append(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> Sequence[ReplyPart] | DeferredAnswer[Sequence[ReplyPart]] | None:
        asked = read(frame, body)
        if asked is None:
            return None
        acks, wanted, index, records, named, timeout_ms = asked
        topic: str | None = services.metadata.topic_name(wanted) if by_id else wanted
        if topic is None:
            return None
        partition = services.partitions.find(topic, index)
        if partition is None or acks not in VALID_ACKS or topic in INTERNAL_TOPICS:
            return None
        if not services.authorizer.is_allowed(peer, _WRITE, _TOPIC, topic):
            return None
        if by_id and partition.log.topic_id != wanted:
            return None
        base_offset = partition.write_plain(records, version, acks)
        if base_offset < 0:
            return None
        if acks == 0:
            return ()
        log = partition.log
        parts = (answer(correlation_id, named, index, base_offset, log.log_start_offset),)
        next_offset = log.log_end_offset
        if acks != ACKS_ALL or partition.replica.high_watermark >= next_offset:
            return parts
        pending = _Pending(services, peer, partition, version, correlation_id)
        return pending.park(next_offset, timeout_ms, parts)

    return append


class _Pending(NamedTuple):
    """An append that the in-sync replicas do not have yet."""

    services: Services
    peer: ClientPeer
    partition: PartitionRuntime
    version: int
    correlation_id: int

    def park(
        self, required_offset: int, timeout_ms: int, parts: tuple[bytes]
    ) -> DeferredAnswer[Sequence[ReplyPart]]:
        """The answer once it is known: the one that is made already, or an error that leaves the
        outcome open (hazard R-20)."""
        partition, services = self.partition, self.services
        leader_epoch = partition.leader_epoch
        later: DeferredAnswer[Sequence[ReplyPart]] = DeferredAnswer()

        def try_complete() -> bool:
            error = partition.replication_state(required_offset, leader_epoch)
            if error is None:
                return False
            later.complete(parts if error is _NONE else self._refusal(error))
            return True

        services.waiting.park(
            (partition.watermark_key,),
            services.ports.clock.now_ms() + max(0, timeout_ms),
            try_complete,
            lambda: later.complete(self._refusal(ErrorCode.REQUEST_TIMED_OUT)),
            owner=self.peer,
            just_asked=True,
        )
        return later

    def _refusal(self, error: ErrorCode) -> tuple[bytearray]:
        topic, index = self.partition.partition
        part = PartitionProduceResponse(
            index=index,
            error_code=error,
            base_offset=-1,
            log_start_offset=self.partition.log_start_offset,
        )
        response = ProduceResponse(
            responses=[
                TopicProduceResponse(
                    name=topic,
                    topic_id=self.partition.log.topic_id or ZERO_UUID,
                    partition_responses=[part],
                )
            ]
        )
        if self.version >= LEADER_VERSION:
            add_leaders(self.services.metadata, self.peer.listener, response)
        out = bytearray(response_header(ApiKey.PRODUCE, self.version)(self.correlation_id))
        encoder(ProduceResponse, self.version)(response, out, [])
        return (out,)
