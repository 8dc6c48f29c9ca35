"""Fetch requests of consumers that name many partitions and have no session.

The steps of ``fetch.handle``, taken for what does not rest; the answers of partitions at rest are
kept as bytes (partitions/readers_at_rest.py). What is out of the ordinary (an error, an aborted
transaction, records that are not in memory) is left to ``fetch.handle``; once a request waits, it
is answered without that partition's news, and the client's next request gets them there. HOT.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.partitions.readers_at_rest import ReadersAtRest
from ottla.broker.partitions.reading import has_enough, read_ordinary
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.fetch_of_many import FetchCodec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from ottla.broker.engine.context import ClientPeer, ReplyPart
    from ottla.broker.engine.purgatory import DelayedOperation
    from ottla.broker.handlers.services import Services, Straight, StraightAnswer
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.readers_at_rest import ReaderMemory, RestingTopic
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import FileRegion
    from ottla.protocol.records.fetch_of_many import FetchOfMany

_READ_COMMITTED = 1
_NO_EPOCH = -1
_READ = Operation.READ
_TOPIC = AclResourceType.TOPIC


def straight(version: int) -> Straight:
    """What serves such requests of that version; what it cannot serve it leaves by None."""
    codec = FetchCodec(version)

    def fetch(
        services: Services, peer: ClientPeer, frame: memoryview, body: int, correlation_id: int
    ) -> StraightAnswer:
        asked = codec.read(frame, body)
        if asked is None or services.reads.sends_to_racks:
            return None
        if not 0 <= asked.isolation_level <= _READ_COMMITTED or asked.max_bytes < 0:
            return None
        topics = []
        reads = services.reads
        readers = reads.readers = reads.readers or ReadersAtRest(services.waiting)
        memory = readers.of(peer)
        for named, name, topic_id, pieces in asked.topics:
            topic = name or services.metadata.topic_name(topic_id)
            if not topic or not services.authorizer.is_allowed(peer, _READ, _TOPIC, topic):
                return None
            resting = memory.topic((version, asked.isolation_level, named))
            topics.append(_Topic(topic, topic_id, pieces, resting))
        many = _ManyReads(services, codec, asked, topics, correlation_id)
        if not many.look():
            return None
        if not many.must_wait:
            return many.answered()
        return many.wait(peer, memory)

    return fetch


class _Topic:
    """``told``: what was last found of each partition, without its records."""

    __slots__ = ("name", "pieces", "resting", "told", "topic_id")

    def __init__(
        self, name: str, topic_id: Uuid, pieces: list[bytes], resting: RestingTopic
    ) -> None:
        self.name = name
        self.topic_id = topic_id
        self.pieces = pieces
        self.resting = resting
        self.told: list[bytes | None] = [None] * len(pieces)


class _Found(NamedTuple):
    """What one partition has: its answer without records, and the answer's pieces if there are
    any."""

    empty: bytes
    parts: tuple[bytes, FileRegion, bytes] | None
    partition: PartitionRuntime
    rests: bool


class _ManyReads:
    """One request, until it is answered."""

    def __init__(
        self,
        services: Services,
        codec: FetchCodec,
        asked: FetchOfMany,
        topics: list[_Topic],
        correlation_id: int,
    ) -> None:
        self._services = services
        self._codec = codec
        self._asked = asked
        self._topics = topics
        self._correlation_id = correlation_id
        self._rules = services.authorizer.version
        self._is_committed = asked.isolation_level == _READ_COMMITTED
        self._max_bytes = min(asked.max_bytes, services.reads.fetch_max_bytes)
        self._parts: list[ReplyPart] = []
        self._sizes: list[tuple[PartitionRuntime, int]] = []
        self._read_bytes = 0
        # Neither at rest nor with enough to answer.
        self.restless: list[PartitionRuntime] = []

    @property
    def must_wait(self) -> bool:
        """Whether there are too few bytes to answer."""
        asked = self._asked
        least = min(asked.min_bytes, asked.max_bytes)
        return not has_enough(self._read_bytes, asked.max_wait_ms, least)

    def look(self) -> bool:
        """Read what does not rest; False if any of it is out of the ordinary."""
        is_ordinary = True
        codec = self._codec
        self._parts, self._sizes, self._read_bytes, self.restless = [], [], 0, []
        out = [codec.head(self._correlation_id, len(self._topics))]
        for topic, asked in zip(self._topics, self._asked.topics, strict=True):
            out.append(codec.topic(asked))
            told = list(map(topic.resting.answers.get, topic.pieces))
            done = 0
            for at, found in self._missing(topic, told):
                out += told[done:at]  # type: ignore[arg-type]  # the next None is at ``at``
                done = at + 1
                told[at] = topic.told[at] if found is None else found.empty
                is_ordinary = is_ordinary and found is not None
                if found is None or found.parts is None:
                    out.append(told[at] or b"")
                    continue
                begin, region, end = found.parts
                out.append(begin)
                self._parts += [b"".join(out), region]
                out = [end]
            out += told[done:]  # type: ignore[arg-type]  # none is missing there
            out.append(codec.end)
            topic.told = told
        out.append(codec.end)
        self._parts.append(b"".join(out))
        return is_ordinary

    def _missing(
        self, topic: _Topic, told: list[bytes | None]
    ) -> Iterator[tuple[int, _Found | None]]:
        """What does not rest, with its place; None if it is out of the ordinary."""
        seen: set[int] = set()
        at = -1
        while True:
            try:
                at = told.index(None, at + 1)
            except ValueError:
                return
            piece = topic.pieces[at]
            found = self._read(topic, piece)
            if found is not None:
                index = found.partition.partition.partition
                if index in seen:
                    # Named twice.
                    found = None
                elif not found.rests or not topic.resting.rest(found.partition, piece, found.empty):
                    self.restless.append(found.partition)
                seen.add(index)
            yield at, found

    def _read(self, topic: _Topic, piece: bytes) -> _Found | None:
        index, epoch, offset, last_epoch, most, has_tags = self._codec.fields(piece)
        partition = self._services.partitions.find(topic.name, index)
        if partition is None or has_tags or last_epoch != _NO_EPOCH or most < 0:
            return None
        if topic.topic_id != ZERO_UUID and partition.log.topic_id != topic.topic_id:
            return None
        known = topic.resting.resting.get(index)
        if known is not None and known.piece in topic.pieces:
            # The partition is named twice.
            return None
        limits = min(most, max(0, self._max_bytes - self._read_bytes)), self._read_bytes == 0
        codec, committed = self._codec, self._is_committed
        records = read_ordinary(partition, offset, epoch, committed, limits)
        if records is None:
            return None
        _, watermark, stable, start, region, _, _ = records
        offsets = watermark, stable, start
        empty = codec.part(index, offsets, 0, read_committed=committed) + codec.end
        parts = None
        if region is not None:
            size_bytes = region.size_bytes
            self._read_bytes += size_bytes
            self._sizes.append((partition, size_bytes))
            begin = codec.part(index, offsets, size_bytes, read_committed=committed)
            parts = begin, region, codec.end
        rests = region is None and offset == watermark == stable
        return _Found(empty, parts, partition, rests)

    def answered(self) -> Sequence[ReplyPart]:
        """The answer; what it has of records counts as sent."""
        for partition, size_bytes in self._sizes:
            partition.traffic.fetched_bytes += size_bytes
        return self._parts

    # ---- waiting ----

    def wait(self, peer: ClientPeer, memory: ReaderMemory) -> DeferredAnswer[Sequence[ReplyPart]]:
        """Answer once there are enough bytes, or the time is over."""
        services = self._services
        later: DeferredAnswer[Sequence[ReplyPart]] = DeferredAnswer()

        def try_complete() -> bool:
            if self.look() and self.must_wait and not self._is_withdrawn:
                self._watch(operation)
                return False
            later.complete(self._last_answer())
            return True

        def expire() -> None:
            self.look()
            later.complete(self._last_answer())

        operation = services.waiting.park(
            (memory.key, *(one.watermark_key for one in self.restless)),
            services.ports.clock.now_ms() + self._asked.max_wait_ms,
            try_complete,
            expire,
            owner=peer,
            just_asked=True,
        )
        return later

    @property
    def _is_withdrawn(self) -> bool:
        """Whether the access rules have changed while the request waited."""
        return self._services.authorizer.version != self._rules

    def _last_answer(self) -> Sequence[ReplyPart]:
        if not self._is_withdrawn:
            return self.answered()
        # No records: the next request is judged by the rules of now.
        codec = self._codec
        out = bytearray(codec.head(self._correlation_id, len(self._topics)))
        for topic, asked in zip(self._topics, self._asked.topics, strict=True):
            out += codec.topic(asked)
            for told in topic.told:
                assert told is not None, (
                    "the first look has found all, or the request does not wait"
                )
                out += told
            out += codec.end
        return [bytes(out + codec.end)]

    def _watch(self, operation: DelayedOperation) -> None:
        self._services.waiting.watch_also(operation, [one.watermark_key for one in self.restless])
