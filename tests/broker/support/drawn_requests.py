"""Produce and fetch requests drawn by a seed: ordinary ones, and ones that ask for every exception.

Most name one partition, because those are the requests that two decoders can read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
    ReplicaState,
)
from ottla.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from ottla.protocol.records.batch import CRC_END, CRC_START, HEADER, HEADER_BYTES
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from random import Random

Drawn = tuple[int, Any]
"""Version and request."""

PRODUCE_VERSIONS = range(3, 14)
FETCH_VERSIONS = range(4, 19)
PRODUCERS = (71, 72)
# Indices of the batch header's fields.
BASE_OFFSET, LENGTH, MAGIC, ATTRIBUTES = 0, 1, 3, 5
LAST_DELTA, BASE_TIME, MAX_TIME, PRODUCER, EPOCH, SEQUENCE, COUNT = 6, 7, 8, 9, 10, 11, 12
HOUR_MS = 3_600_000
HEADER_LIES: tuple[tuple[int, int], ...] = (
    (BASE_OFFSET, 5),
    (LENGTH, 7),
    (LENGTH, 1 << 20),
    (MAGIC, 1),
    (MAGIC, 3),
    (ATTRIBUTES, 7),
    (ATTRIBUTES, 8),
    (ATTRIBUTES, 0x10),
    (ATTRIBUTES, 0x20),
    (ATTRIBUTES, 0x40),
    (LAST_DELTA, 9),
    (MAX_TIME, -1),
    (MAX_TIME, -2),
    (BASE_TIME, -1),
    (PRODUCER, -2),
    (PRODUCER, 99),
    (EPOCH, 3),
    (SEQUENCE, 0),
    (COUNT, 0),
    (COUNT, -1),
)


class Draws:
    """Draws requests. ``topics`` has the ids by name; some name no topic."""

    def __init__(self, random: Random, topics: Mapping[str, bytes], wall_ms: int) -> None:
        self._random = random
        self._topics = topics
        self._wall_ms = wall_ms
        self._sequences = dict.fromkeys(PRODUCERS, 0)

    def request(self) -> Drawn:
        """Draws a produce or a fetch request."""
        return self.produce() if self._one_in(2) else self.fetch()

    def produce(self) -> Drawn:
        """Zero, one or two topics; nearly always one with one partition."""
        random = self._random
        request = ProduceRequest(
            transactional_id="some-id" if self._one_in(20) else None,
            acks=random.choice((-1, -1, -1, 1, 1, 0)) if not self._one_in(20) else 2,
            timeout_ms=random.choice((0, 50, 5_000, -1)),
            topic_data=self._in_topics(TopicProduceData, self._data),
        )
        return random.choice(PRODUCE_VERSIONS), request

    def fetch(self) -> Drawn:
        """With or without a session, from consumers, followers and debug replicas."""
        random = self._random
        version = random.choice(FETCH_VERSIONS)
        replica = -1 if not self._one_in(10) else random.choice((-2, 1, 7))
        request = FetchRequest(
            replica_id=replica if version < 15 else -1,
            replica_state=ReplicaState(*((replica, 3) if version >= 15 and replica != -1 else ())),
            max_wait_ms=random.choice((0, 0, 30, -1)),
            min_bytes=random.choice((0, 1, 1, 100_000)),
            max_bytes=random.choice((1 << 20,) * 8 + (100, 0, -1)),
            isolation_level=random.choice((0, 0, 1, 1)) if not self._one_in(20) else 2,
            session_epoch=random.choice((-1, -1, 0)) if not self._one_in(15) else 1,
            topics=self._in_topics(FetchTopic, self._wanted),
            rack_id=random.choice(("", "", "r1", "x" * 130)),
        )
        if version >= 7 and self._one_in(15):
            request.session_id = random.choice((1, 12345))
        for topic in request.topics:
            for wanted in topic.partitions:
                if version >= 12 and self._one_in(10):
                    wanted.last_fetched_epoch = random.choice((0, 1, 9))
        if version >= 7 and self._one_in(20):
            name = next(iter(self._topics))
            request.forgotten_topics_data = [ForgottenTopic(name, self._topics[name], [0])]
        return version, request

    def _one_in(self, count: int) -> bool:
        return self._random.randrange(count) == 0

    def _in_topics(self, make: Callable[..., Any], one: Callable[[int], Any]) -> list[Any]:
        random = self._random
        names = [random.choice([*self._topics]) for _ in range(random.choice((1,) * 12 + (0, 2)))]
        found = []
        for name in names:
            count = random.choice((1,) * 12 + (0, 2))
            indices = [random.choice((0,) * 10 + (1,) * 8 + (9, -1)) for _ in range(count)]
            found.append(make(name, self._topics[name], [one(index) for index in indices]))
        return found

    def _wanted(self, index: int) -> FetchPartition:
        random = self._random
        return FetchPartition(
            partition=index,
            current_leader_epoch=random.choice((-1, -1, -1, 0, 0, 1, -7)),
            fetch_offset=random.choice((0, 0, 1, 2, 3, 5, 8, 13, -1, 1 << 40)),
            log_start_offset=random.choice((-1, 0)),
            partition_max_bytes=random.choice((1 << 20,) * 8 + (200, 1, 0, -1)),
        )

    def _data(self, index: int) -> PartitionProduceData:
        return PartitionProduceData(index=index, records=self._records())

    def _records(self) -> bytes | None:
        random = self._random
        good = self._batch()
        kind = random.randrange(24)
        if kind == 0:
            return None
        if kind == 1:
            return b""
        if kind == 2:
            return good + good
        if kind == 3:
            return good + b"\0" * random.choice((1, 30))
        if kind == 4:
            return good[: random.randrange(len(good))]
        if kind == 5:
            return _with(good, -1, good[-1] ^ 1)
        if kind == 6:
            # The checksum is right, and the records are not.
            return _signed(_with(good, random.randrange(HEADER_BYTES, len(good)), 0xFF))
        if kind in {7, 8, 9}:
            return _lying(good, *random.choice(HEADER_LIES), keeps_crc=self._one_in(4))
        return good

    def _batch(self) -> bytes:
        random = self._random
        base_ms = self._wall_ms
        if self._one_in(10):
            base_ms += random.choice((-2 * HOUR_MS, 2 * HOUR_MS))
        size = random.choice((3, 30, 30, 300, 3_000))
        entries = [
            (base_ms + number, b"k" if random.randrange(3) else None, b"v" * size, ())
            for number in range(random.choice((1, 1, 2, 5)))
        ]
        options = BatchOptions(codec=random.choice((Codec.NONE,) * 6 + tuple(Codec)))
        if self._one_in(3):
            options = self._from_producer(options, len(entries))
        return encode_batch(entries, options)

    def _from_producer(self, options: BatchOptions, count: int) -> BatchOptions:
        """Mostly the producer's next sequence; else one again, or one too far."""
        random = self._random
        producer = random.choice(PRODUCERS)
        sequence = self._sequences[producer]
        if self._one_in(4):
            sequence = max(0, sequence + random.choice((-1, 4)))
        else:
            self._sequences[producer] += count
        return options._replace(
            producer_id=producer,
            producer_epoch=0 if not self._one_in(10) else 1,
            base_sequence=sequence,
            is_transactional=self._one_in(8),
        )


def _with(batch: bytes, position: int, byte: int) -> bytes:
    changed = bytearray(batch)
    changed[position] = byte
    return bytes(changed)


def _signed(batch: bytes) -> bytes:
    crc = crc32c(batch[CRC_END:])
    return batch[:CRC_START] + crc.to_bytes(CRC_END - CRC_START) + batch[CRC_END:]


def _lying(batch: bytes, field: int, value: int, *, keeps_crc: bool) -> bytes:
    fields = list(HEADER.unpack_from(batch))
    fields[field] = value
    changed = HEADER.pack(*fields) + batch[HEADER_BYTES:]
    return changed if keeps_crc else _signed(changed)
