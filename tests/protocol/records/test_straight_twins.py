"""The compiled and the plain reader of a lone produce or fetch: equal for every frame there is.

Frames are drawn from the declarations, most of them of the shape that the readers take, and then
spoiled: bytes changed, cut off or added. The plain reader says what is right, and test_straight.py
holds it against the codec of all requests.
"""

from __future__ import annotations

import importlib
from random import Random
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import encode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.straight import (
    COMPILED_NAME,
    PRODUCE_VERSIONS,
    produce_answer,
    produce_reader,
)
from ottla.protocol.records.straight_fetch import FETCH_VERSIONS, fetch_answer, fetch_reader
from tests.protocol.records.twins import exact, has_compiler

if TYPE_CHECKING:
    from collections.abc import Callable

    Reader = Callable[[memoryview, int], tuple[Any, ...] | None]

SIZES = (0, 1, 10, 126, 127, 128, 300, 16_383, 16_384)
NAMES = ("t", "topic", "ü" * 5, "x" * 126, "x" * 127, "x" * 249, "")
# Where they are, a field is often refused or a length grows.
BYTES = (0, 1, 2, 3, 0x7F, 0x80, 0x81, 0x8F, 0xFE, 0xFF)
INT32, INT64 = 1 << 31, 1 << 63

try:
    COMPILED: Any = importlib.import_module(COMPILED_NAME)
except ImportError:
    COMPILED = None


def framed(key: ApiKey, version: int, body: bytes, client_id: str) -> bytearray:
    out = bytearray()
    encode_request_header(out, RequestHeader(key, version, 77, client_id))
    return out + body


def number(draw: Random, bound: int) -> int:
    """Often a small one or one at the end of its range."""
    return draw.choice((-1, 0, 1, 5, bound - 1, -bound, draw.randrange(-bound, bound)))


def produce_body(draw: Random, version: int) -> bytes:
    records = bytes(draw.choice(SIZES)) if draw.random() < 0.97 else None
    part = PartitionProduceData(index=number(draw, INT32), records=records)
    parts = [part] * (1 if draw.random() < 0.95 else draw.randrange(3))
    topic = TopicProduceData(draw.choice(NAMES), draw.randbytes(16), parts)
    request = ProduceRequest(
        transactional_id=None if draw.random() < 0.95 else "id",
        acks=draw.choice((-1, 0, 1, 2, -32768, 32767)),
        timeout_ms=number(draw, INT32),
        topic_data=[topic] * (1 if draw.random() < 0.95 else draw.randrange(3)),
    )
    return encode(request, version)


def fetch_body(draw: Random, version: int) -> bytes:
    part = FetchPartition(
        partition=number(draw, INT32),
        current_leader_epoch=number(draw, INT32),
        fetch_offset=number(draw, INT64),
        last_fetched_epoch=-1 if version < 12 or draw.random() < 0.95 else number(draw, INT32),
        log_start_offset=number(draw, INT64),
        partition_max_bytes=number(draw, INT32),
    )
    parts = [part] * (1 if draw.random() < 0.95 else draw.randrange(3))
    topic = FetchTopic(topic=draw.choice(NAMES), topic_id=draw.randbytes(16), partitions=parts)
    request = FetchRequest(
        replica_id=-1 if version > 14 or draw.random() < 0.95 else number(draw, INT32),
        max_wait_ms=number(draw, INT32),
        min_bytes=number(draw, INT32),
        max_bytes=number(draw, INT32),
        isolation_level=draw.choice((0, 1, 2, -1)),
        session_id=0 if draw.random() < 0.95 else number(draw, INT32),
        session_epoch=-1 if draw.random() < 0.9 else number(draw, INT32),
        topics=[topic] * (1 if draw.random() < 0.95 else draw.randrange(3)),
        rack_id=draw.choice(("", "", "rack", "r" * 126, "r" * 127)),
    )
    return encode(request, version)


def spoil(draw: Random, frame: bytearray, body: int) -> memoryview:
    """The frame, in half of the draws with something wrong behind its header."""
    kind = draw.randrange(8)
    if kind < 2:
        for _ in range(draw.randint(1, 3)):
            # The head of the body decides more often than the records.
            end = min(len(frame), body + 60) if draw.random() < 0.8 else len(frame)
            if end > body:
                frame[draw.randrange(body, end)] = draw.choice((*BYTES, draw.randrange(256)))
    elif kind == 2:
        del frame[draw.randrange(body, len(frame) + 1) :]
    elif kind == 3:
        frame += draw.randbytes(draw.randint(1, 3))
    return exact(bytes(frame))


def outcome(read: Reader, frame: memoryview, body: int) -> tuple[Any, ...] | None:
    """What is read, comparable by value and type."""
    found = read(frame, body)
    if found is None:
        return None
    return tuple(
        (memoryview, bytes(one)) if isinstance(one, memoryview) else (type(one), one)
        for one in found
    )


def compare(seed: int, count: int) -> int:
    """Show the frames of a seed to both twins; return how many were read."""
    draw, read_count = Random(seed), 0
    for turn in range(count):
        client_id = draw.choice(("", "client"))
        body = 10 + len(client_id)
        if turn % 2:
            version = draw.choice(PRODUCE_VERSIONS)
            frame = framed(ApiKey.PRODUCE, version, produce_body(draw, version), client_id)
            readers: tuple[Reader, Reader] = (
                produce_reader(version, None),
                produce_reader(version, COMPILED),
            )
        else:
            version = draw.choice(FETCH_VERSIONS)
            frame = framed(ApiKey.FETCH, version, fetch_body(draw, version), client_id)
            readers = fetch_reader(version, None), fetch_reader(version, COMPILED)
        view = spoil(draw, frame, body)
        wanted = outcome(readers[0], view, body)
        assert outcome(readers[1], view, body) == wanted, (seed, turn, version, bytes(view))
        read_count += wanted is not None
    return read_count


def test_the_readers_are_compiled_where_they_could_be() -> None:
    """A build that failed in silence would be a broker that is slow in silence."""
    assert COMPILED is not None or not has_compiler(), "install again (make)"


@pytest.mark.parametrize("seed", range(2))
def test_both_twins_read_the_same_of_any_frame(seed: int) -> None:
    """The compiled one reads memory by addresses: a wrong one reads what another client sent."""
    read_count = compare(seed, 10_000)

    assert 3_000 < read_count < 8_000


@pytest.mark.soak
def test_both_twins_read_the_same_of_a_million_frames() -> None:
    """What ten thousand frames do not show."""
    assert compare(99, 1_000_000) > 300_000


@pytest.mark.parametrize("seed", range(4))
def test_both_twins_write_the_same_answers(seed: int) -> None:
    """An answer is read by clients that know nothing of twins."""
    draw = Random(seed)
    for _ in range(1_000):
        named = draw.randbytes(draw.choice((3, 18, 130)))
        index, correlation_id = number(draw, INT32), number(draw, INT32)
        version = draw.choice(PRODUCE_VERSIONS)
        appended = correlation_id, named, index, number(draw, INT64), number(draw, INT64)
        assert produce_answer(version, None)(*appended) == produce_answer(version, COMPILED)(
            *appended
        )
        version = draw.choice(FETCH_VERSIONS)
        first, second, third = (number(draw, INT64) for _ in range(3))
        offsets = first, second, third, draw.random() < 0.5
        size_bytes = draw.choice((0, 1, 126, 127, 16_382, 16_383, 2_097_150, 2_097_151, INT32 - 1))
        read = correlation_id, named, index, offsets, size_bytes
        assert fetch_answer(version, COMPILED)(*read) == fetch_answer(version, None)(*read)


@pytest.mark.parametrize("version", PRODUCE_VERSIONS[2:])
def test_a_length_of_more_than_32_bits_is_left_to_the_compiled_codec(version: int) -> None:
    """It costs the client its connection, and is no bug of the broker."""
    topic = TopicProduceData("t", bytes(16), [PartitionProduceData(index=0, records=b"")])
    frame = framed(ApiKey.PRODUCE, version, encode(ProduceRequest(topic_data=[topic]), version), "")
    frame[-4:] = b"\xff\xff\xff\xff\x7f" + bytes(3)

    assert produce_reader(version, None)(memoryview(frame), 10) is None
    assert produce_reader(version, COMPILED)(memoryview(frame), 10) is None
