"""Produce requests of every version: faults of batches, of records, of acks and of topics.

What a Kafka stores and Ottla refuses goes to a partition of its own, so that the offsets of all
other cases are the same on every broker. Versions that a broker does not serve are asked as well:
it closes the connection, which is its recorded answer.
"""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING, Any

from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.batch import HEADER_BYTES, refresh_crc
from ottla.protocol.records.compression import CODECS, Codec
from tests.answers.cases import Case
from tests.protocol.records.broken import BROKEN, NOW, SPOILED, batch_around, record, spoiled

if TYPE_CHECKING:
    from collections.abc import Iterator

VERSIONS = range(3, 14)
LAST_OF_3_9 = 11
# Most cases are asked in a version that every broker here serves.
USUAL = 9
# Asked of all faults as well: without sentences, with zstd, with sentences, the last ones.
OTHERS = (3, 7, 11, 12, 13)

GOOD = batch_around(record())
TWO = batch_around(record(0) + record(1), 2)
KEYLESS = batch_around(b"\x0e\x00\x00\x00\x01\x02v\x00")
LARGE = batch_around(record(0, b"\x02\x02h\xd0\x0f" + b"x" * 1000))

# Where the fields of a batch header are, and their sizes in bytes.
FIELDS = {
    "base offset": (0, 8),
    "length": (8, 4),
    "leader epoch": (12, 4),
    "format": (16, 1),
    "checksum": (17, 4),
    "attributes": (21, 2),
    "last offset delta": (23, 4),
    "base timestamp": (27, 8),
    "max timestamp": (35, 8),
    "producer id": (43, 8),
    "producer epoch": (51, 2),
    "base sequence": (53, 4),
    "record count": (57, 4),
}
_CHECKED_FROM = 21


def changed(data: bytes, **fields: int) -> bytes:
    """The batch with other fields in its header, and the checksum that they need."""
    made = bytearray(data)
    for name, value in fields.items():
        start, size = FIELDS[name.replace("_", " ")]
        made[start : start + size] = value.to_bytes(size, signed=True)
    if any(FIELDS[name.replace("_", " ")][0] >= _CHECKED_FROM for name in fields):
        refresh_crc(made, 0)
    return bytes(made)


HEADERS = {
    "base offset 5": changed(GOOD, base_offset=5),
    "base offset -1": changed(GOOD, base_offset=-1),
    "length 0": changed(GOOD, length=0),
    "length -1": changed(GOOD, length=-1),
    "length too short": changed(GOOD, length=50),
    "length too long": changed(GOOD, length=500),
    "leader epoch 99": changed(GOOD, leader_epoch=99),
    "format 0": changed(GOOD, format=0),
    "format 1": changed(GOOD, format=1),
    "format 3": changed(GOOD, format=3),
    "format -1": changed(GOOD, format=-1),
    "wrong checksum": changed(GOOD, checksum=1),
    "control": changed(GOOD, attributes=0x20),
    "append time": changed(GOOD, attributes=0x08),
    "delete horizon": changed(GOOD, attributes=0x40),
    "unused bits": changed(GOOD, attributes=0x7F00),
    "codec 5": changed(GOOD, attributes=5),
    "codec 7": changed(GOOD, attributes=7),
    "last offset delta 1": changed(GOOD, last_offset_delta=1),
    "last offset delta -1": changed(GOOD, last_offset_delta=-1),
    "count 0": changed(GOOD, record_count=0),
    "count -1": changed(GOOD, record_count=-1),
    "count 0 and delta -1": changed(GOOD, record_count=0, last_offset_delta=-1),
    "timestamp -1": changed(GOOD, base_timestamp=-1, max_timestamp=-1),
    "timestamp 0": changed(GOOD, base_timestamp=0, max_timestamp=0),
    "max timestamp too low": changed(GOOD, max_timestamp=NOW - 1000),
    "max timestamp too high": changed(GOOD, max_timestamp=NOW + 1000),
    "sequence without a producer": changed(GOOD, base_sequence=5),
}
FRAMES = {
    "nothing": b"",
    "one byte": b"\x00",
    "zeros": bytes(61),
    "ones": b"\xff" * 80,
    "half a header": GOOD[:30],
    "a batch cut short": GOOD[:-3],
    "bytes behind the batch": GOOD + b"abc",
    "two batches": GOOD + GOOD,
}
_TRAILING = "garbage behind it"
# What Kafka stores, or answers in another way than Ottla: docs/differences.md tells why.
STORED = {
    "producer id -2": changed(GOOD, producer_id=-2),
    "a producer without an epoch": changed(GOOD, producer_id=900_002, base_sequence=0),
    **{f"a batch with {name}": batch_around(data, count) for name, (count, data) in BROKEN.items()},
    **{f"{codec.name} {_TRAILING}": spoiled(codec, _TRAILING) for codec in CODECS if codec},
}
TOPICS: dict[str, tuple[int, dict[str, str]]] = {
    "writes": (2, {}),
    "newest": (2, {}),
    "stored": (len(STORED), {}),
    "keyed": (1, {"cleanup.policy": "compact"}),
    "timed": (1, {"message.timestamp.type": "LogAppendTime"}),
    "gzipped": (1, {"compression.type": "gzip"}),
    "small": (1, {"max.message.bytes": "200"}),
    "few": (1, {"min.insync.replicas": "2"}),
}


def produce_cases() -> Iterator[Case]:
    """Every produce request, in the order in which they are asked."""
    yield from _versions()
    yield from _batches()
    yield from _acks()
    yield from _topics()
    yield from _rules()
    yield from _producers()


def _topic_of(version: int) -> str:
    """3.9 stores nothing that comes in the last two versions."""
    return "newest" if version > LAST_OF_3_9 else "writes"


def _request(records: bytes | None, topic: str, index: int = 0, **more: Any) -> Any:
    data = TopicProduceData(
        name=topic, partition_data=[PartitionProduceData(index=index, records=records)]
    )
    return ProduceRequest(**{"acks": -1, "timeout_ms": 5_000, "topic_data": [data], **more})


def _case(name: str, records: bytes | None, version: int = USUAL, **more: Any) -> Case:
    request = _request(records, **{"topic": _topic_of(version), **more})
    return Case(f"produce {version} {name}", version, request)


def _versions() -> Iterator[Case]:
    for version in VERSIONS:
        yield _case("one record", GOOD, version)
        yield _case("unknown partition", GOOD, version, index=77)
        yield _case("unknown topic", GOOD, version, topic="nope")
        yield _case("wrong checksum", HEADERS["wrong checksum"], version)
        yield _case("fewer records than counted", changed(GOOD, record_count=2), version)
        yield _case("zstd", batch_around(record(), codec=Codec.ZSTD), version)
        yield _case("key missing", KEYLESS, version, topic="keyed")


def _batches() -> Iterator[Case]:
    for name, data in {**HEADERS, **FRAMES}.items():
        yield _case(f"batch: {name}", data)
        if name in ("wrong checksum", "two batches", "codec 5", "count 0", "nothing"):
            for version in OTHERS:
                yield _case(f"batch: {name}", data, version)
    for codec in CODECS:
        if codec is not Codec.NONE:
            yield _case(f"{codec.name} good", batch_around(record(), codec=codec))
            for how in (one for one in SPOILED if one != _TRAILING):
                yield _case(f"{codec.name} {how}", spoiled(codec, how))
    for index, (name, data) in enumerate(STORED.items()):
        yield _case(name, data, topic="stored", index=index)


def _acks() -> Iterator[Case]:
    for acks in (1, 2, -2, 100):
        yield _case(f"acks {acks}", GOOD, acks=acks)
        yield _case(f"acks {acks} wrong checksum", HEADERS["wrong checksum"], acks=acks)
    for name, data in {"one record": GOOD, "wrong checksum": HEADERS["wrong checksum"]}.items():
        for version in (USUAL, VERSIONS[-1]):
            yield _case(f"acks 0 {name}", data, version, acks=0)
    yield _case("acks 0 unknown topic", GOOD, topic="nope", acks=0)
    yield _case("no records field", None)
    for acks in (-1, 1):
        yield _case(f"acks {acks} too few replicas", GOOD, topic="few", acks=acks)
    for timeout_ms in (0, -1):
        yield _case(f"timeout {timeout_ms}", GOOD, timeout_ms=timeout_ms)


def _topics() -> Iterator[Case]:
    for topic in ("", "a b", ".", "z" * 250, "__consumer_offsets", "__transaction_state"):
        yield _case(f"topic {topic[:20]!r}", GOOD, topic=topic)
    for version in (USUAL, *OTHERS):
        for name, topics in _lists(_topic_of(version)).items():
            yield _case(name, None, version, topic_data=topics)


def _lists(name: str) -> dict[str, list[TopicProduceData]]:
    one = _request(GOOD, name).topic_data[0]
    other = _request(GOOD, name, 1).topic_data[0]
    unknown = _request(GOOD, "nope").topic_data[0]
    bad = _request(HEADERS["wrong checksum"], name, 1).topic_data[0]
    both = TopicProduceData(name=name, partition_data=[*one.partition_data, *bad.partition_data])
    twice = TopicProduceData(name=name, partition_data=one.partition_data * 2)
    return {
        "no topics": [],
        "no partitions": [TopicProduceData(name=name, partition_data=[])],
        "a topic twice": [one, one],
        "a topic twice with two partitions": [one, other],
        "a partition twice": [twice],
        "a good and an unknown topic": [one, unknown],
        "a good and a bad batch": [both],
    }


def _rules() -> Iterator[Case]:
    for topic in ("keyed", "timed", "gzipped", "small"):
        batches = {
            "one record": GOOD,
            "no key": KEYLESS,
            "gzip": batch_around(record(), codec=Codec.GZIP),
            "append time": HEADERS["append time"],
            "1000 bytes": LARGE,
            "1000 bytes in gzip": _gzipped(1_000),
            "fewer records than counted": changed(GOOD, record_count=2, last_offset_delta=1),
            "bytes behind the fields": batch_around(record(0, b"\x00abc")),
        }
        for name, data in batches.items():
            yield _case(f"{topic} {name}", data, topic=topic)
        yield _case(f"{topic} last", GOOD, topic=topic)


def _gzipped(size: int) -> bytes:
    plain = batch_around(record(0, b"\x02\x02h\xd0\x0f" + b"x" * size))
    made = bytearray(plain[:HEADER_BYTES] + gzip.compress(plain[HEADER_BYTES:], mtime=0))
    return changed(bytes(made), length=len(made) - 12, attributes=Codec.GZIP)


def _producers() -> Iterator[Case]:
    def of(producer: int, epoch: int, sequence: int, **more: int) -> bytes:
        return changed(
            TWO, producer_id=producer, producer_epoch=epoch, base_sequence=sequence, **more
        )

    steps = {
        "first": of(900_010, 0, 0),
        "second": of(900_010, 0, 2),
        "the second again": of(900_010, 0, 2),
        "the first again": of(900_010, 0, 0),
        "a gap": of(900_010, 0, 9),
        "an overlap": of(900_010, 0, 3),
        "sequence -1": of(900_010, 0, -1),
        "next epoch, wrong sequence": of(900_010, 1, 4),
        "next epoch": of(900_010, 1, 0),
        "old epoch": of(900_010, 0, 4),
        "unknown producer": of(900_011, 3, 7),
        "transactional without an id": of(900_012, 0, 0, attributes=0x10),
        "transactional without a producer": changed(GOOD, attributes=0x10),
    }
    for name, data in steps.items():
        yield _case(f"idempotent {name}", data, index=1)
    for version in (USUAL, 11, 12):
        for transactional_id in ("", "nobody"):
            more: dict[str, Any] = {"transactional_id": transactional_id, "index": 1}
            foreign = of(900_013, 0, 0, attributes=0x10)
            yield _case(f"id {transactional_id!r} plain", GOOD, version, **more)
            yield _case(f"id {transactional_id!r} foreign producer", foreign, version, **more)
