"""Damaged records, read by both twins: equal results or equal error codes, and never a crash."""

from __future__ import annotations

import random

import pytest

from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import HEADER_BYTES, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.record import Record, record_bytes
from tests.protocol.records.samples import (
    COMMIT_MARKER,
    ENTRIES,
    ONE_RECORD,
    TRANSACTIONAL,
)
from tests.protocol.records.twins import PURE, compiled_or_say_why, exact, outcome

CORPUS = (
    ONE_RECORD,
    TRANSACTIONAL,
    COMMIT_MARKER,
    encode_batch(ENTRIES[:3]),
    encode_batch(ENTRIES),
    encode_batch(ENTRIES, BatchOptions(append_time_ms=42)),
    encode_batch([(number * 7, b"%d" % number, b"v" * number, ()) for number in range(70)]),
    encode_batch([(-(2**63), b"", b"", ()), (-(2**63) + 1, None, b"", (("h", b"v"),) * 3)]),
    encode_batch([(2**63 - 1, None, b"", ()), (0, None, b"", ())], BatchOptions(base_offset=2**62)),
)
# Ends of varints, of bytes, and varints of the largest and smallest numbers.
RUNS = (
    b"\x00",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80\x00",
    b"\x81\x00",
    b"\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x0f",
    b"\xfe\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x03",
    b"\xff" * 12,
)
# Where the header says what readers count from.
HEADER_PLACES = (0, 22, 27, 35, 57)


def _mutate(draw: random.Random, data: bytearray) -> None:
    place = draw.randrange(HEADER_BYTES, len(data) + 1)
    run = draw.choice(RUNS)
    match draw.randrange(8):
        case 0 | 1 if place < len(data):
            data[place] ^= 1 << draw.randrange(8)
        case 2:
            data[place : place + len(run)] = run
        case 3:
            data[place:place] = run
        case 4:
            del data[place : place + draw.randint(1, 4)]
        case 5:
            del data[place:]
        case 6:
            start = draw.choice(HEADER_PLACES)
            width = 1 if start == 22 else draw.choice((1, 4))
            data[start : start + width] = draw.randbytes(width)
        case _ if place < len(data):
            data[place] = draw.randrange(256)


def _assert_twins_agree(seed: int, count: int) -> tuple[int, int]:
    """How many mutants could be read, and how many were refused."""
    twin = compiled_or_say_why()
    draw = random.Random(seed)
    read = refused = 0
    for number in range(count):
        data = bytearray(draw.choice(CORPUS))
        for _ in range(draw.randint(1, 3)):
            _mutate(draw, data)
        data[8:12] = (len(data) - 12).to_bytes(4)
        # What a mutation of the attributes makes a codec of is not asked here.
        data[22] &= 0xF8
        try:
            batch = parse_batch(bytes(data))
            records = record_bytes(batch)
        except KafkaError:
            continue
        replay = f"seed {seed}, mutant {number}: {data.hex()}"
        least = batch.base_offset + draw.randrange(3)
        expected = outcome(PURE.decode_as, batch, records, Record, (), least)
        copied = exact(records)
        assert outcome(twin.decode_as, batch, copied, Record, (), least) == expected, replay
        for name in ("decode_columns", "decode_values"):
            wanted = outcome(getattr(PURE, name), batch, records)
            assert outcome(getattr(twin, name), batch, copied) == wanted, replay
            assert wanted[0] == expected[0], replay
        mine = bytearray(records)
        wanted = outcome(PURE.decode_columns, batch, records)
        assert outcome(twin.decode_columns_in_place, batch, mine, 1 << 20, 0) == wanted, replay
        assert wanted[0] == "found" or mine == records, replay
        if expected[0] == "found":
            read += 1
            entries = [row[1:] for row in PURE.decode_records(batch, records)]
            again = outcome(PURE.encode_entries, entries)
            assert outcome(twin.encode_entries, entries) == again, replay
        else:
            refused += 1
    return read, refused


def test_twins_agree_on_damaged_records() -> None:
    """The compiled one reads memory: a size that it believes too early is not an exception."""
    read, refused = _assert_twins_agree(seed=1, count=4_000)

    assert read > 300
    assert refused > 1_000


@pytest.mark.soak
@pytest.mark.timeout(3_600)
@pytest.mark.parametrize("seed", range(2, 10))
def test_twins_agree_on_a_great_many_damaged_records(seed: int) -> None:
    """Finds damages that a few thousand mutants do not reach."""
    read, refused = _assert_twins_agree(seed, count=250_000)

    assert min(read, refused) > 20_000
