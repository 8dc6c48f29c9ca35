"""Produce requests that the lean codec reads: one batch for one partition, in no transaction.

They take the steps of ``produce.handle``: the same refusals, judge, append and wait. What is lean
is the request, read without objects, and the answer to a batch that was appended, written without
objects. What the lean codec cannot say is left to ``produce.handle`` before anything has changed:
topics that are refused, and records that a worker must read. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.context import RequestContext
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.handlers.appends import Appends, new_answer, refusal_of
from ottla.broker.partitions.produces import (
    ACKS_ALL,
    TOPIC_ID_VERSION,
    append_at_once,
    pending_produce,
)
from ottla.broker.partitions.request_outcome import await_one
from ottla.coordinator.metadata.image import INTERNAL_TOPICS
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encoder
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import response_header
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.produce import ProduceRequest, ProduceResponse
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.straight import PRODUCE_VERSIONS, produce_answer, produce_reader

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.broker.engine.context import ClientPeer, ReplyPart
    from ottla.broker.handlers.services import Services, Straight
    from ottla.broker.partitions.append_outcome import AppendOutcome
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.produces import PendingProduce, ProducePart
    from ottla.protocol.messages.produce import PartitionProduceResponse

    Parts = Sequence[ReplyPart]

_NONE = ErrorCode.NONE
# Where a frame's client id begins.
_CLIENT_ID = 10
# The client id of an answer that waits: it is only for the log of refusals.
_NOT_NEEDED = memoryview(b"")
_new_tuple = tuple.__new__


def straight(version: int) -> Straight | None:
    """What serves the requests of that version that the lean codec reads; None if it reads none."""
    if version not in PRODUCE_VERSIONS:
        return None
    read, answer = produce_reader(version), produce_answer(version)
    by_id = version >= TOPIC_ID_VERSION

    def produce(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> Parts | DeferredAnswer[Parts] | None:
        asked = read(frame, body)
        if asked is None:
            return None
        acks, wanted, index, records, named, timeout_ms = asked
        topic: str | None = services.metadata.topic_name(wanted) if by_id else wanted
        if topic is None or topic in INTERNAL_TOPICS:
            return None
        partition = services.partitions.find(topic, index)
        if partition is None or (by_id and partition.log.topic_id != wanted):
            return None
        if refusal_of(services, peer, acks, topic) is not _NONE:
            return None
        written = append_at_once(partition, records, version, acks, services.ports.clock)
        if written is None:
            return None
        if isinstance(written, tuple):
            one = _SingleProduce(services, peer, frame[_CLIENT_ID:body], version, correlation_id)
            return one.conclude(*written, acks, timeout_ms)
        log = partition.log
        next_offset = log.log_end_offset
        parts = (answer(correlation_id, named, index, written.base_offset, log.log_start_offset),)
        if (
            (acks == ACKS_ALL and partition.replica.high_watermark < next_offset)
            or log.settings.asks_for_flushes
            or not partition.is_open
        ):
            # Nearly every append is spared the call.
            epoch = written.leader_epoch
            waits = pending_produce(services.flushes, partition, acks, next_offset, epoch)
            if waits is not None and acks != 0:
                # Made directly: the constructor of a named tuple is a Python function.
                one = _new_tuple(
                    _SingleProduce, (services, peer, _NOT_NEEDED, version, correlation_id)
                )
                return one.wait(waits, parts, timeout_ms)
        return parts if acks != 0 else ()

    return produce


class _SingleProduce(NamedTuple):
    """A request of the lean codec whose answer it cannot write, or not yet."""

    services: Services
    peer: ClientPeer
    client_id: memoryview
    version: int
    correlation_id: int

    def conclude(
        self, part: ProducePart, outcome: AppendOutcome, acks: int, timeout_ms: int
    ) -> Parts | DeferredAnswer[Parts]:
        """The answer for an outcome that is more than an offset: a refusal, a duplicate, a time."""
        part.answer = new_answer(part.partition.partition[1])
        appends = self._appends(part.partition, part.answer, acks, timeout_ms)
        appends.take(part, outcome)
        answer = appends.finish()
        if answer is None:
            return ()
        if isinstance(answer, ProduceResponse):
            return self._encoded(answer)
        later: DeferredAnswer[Parts] = DeferredAnswer()
        answer.then(lambda response: later.complete(self._encoded(response)))
        return later

    def wait(self, waits: PendingProduce, parts: Parts, timeout_ms: int) -> DeferredAnswer[Parts]:
        """The answer once it is known: the one that is written already, or an error that leaves the
        outcome open (hazard R-20)."""
        services = self.services
        later: DeferredAnswer[Parts] = DeferredAnswer()

        def finish() -> None:
            if waits.error is _NONE:
                later.complete(parts)
                return
            answer = new_answer(waits.partition.partition[1])
            answer.log_start_offset = waits.partition.log_start_offset
            appends = self._appends(waits.partition, answer, ACKS_ALL, timeout_ms)
            appends.pending.append((waits, answer))
            later.complete(self._encoded(appends.told()))

        deadline_ms = services.ports.clock.now_ms() + max(0, timeout_ms)
        await_one(services.waiting, waits, deadline_ms, finish, self.peer)
        return later

    def _appends(
        self,
        partition: PartitionRuntime,
        answer: PartitionProduceResponse,
        acks: int,
        timeout_ms: int,
    ) -> Appends:
        context = RequestContext(
            self.peer,
            ApiKey.PRODUCE,
            self.version,
            self.correlation_id,
            str(self.client_id, "utf-8", "replace"),
            self.services.ports.clock.now_ms(),
        )
        request = ProduceRequest(acks=acks, timeout_ms=timeout_ms)
        appends = Appends(self.services, context, request)
        topic_id = partition.log.topic_id or ZERO_UUID
        appends.answers_for(partition.partition.topic, topic_id).append(answer)
        return appends

    def _encoded(self, response: ProduceResponse) -> tuple[bytearray]:
        out = bytearray(response_header(ApiKey.PRODUCE, self.version)(self.correlation_id))
        encoder(ProduceResponse, self.version)(response, out, [])
        return (out,)
