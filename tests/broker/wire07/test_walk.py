"""A walk counts the bytes that records take in 0.7, or collects them."""

from __future__ import annotations

import pytest

from ottla.broker.wire07.positions import Anchor
from ottla.broker.wire07.walk import Goal, Walk
from ottla.protocol.errors import KafkaError
from ottla.protocol.message_sets.writer import message
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from tests.protocol.wire07.client_07 import message_07


def _batch(base_offset: int, *values: bytes | None, **settings: bool | Codec) -> bytes:
    entries = [(7, b"key", value, (("h", b"v"),)) for value in values]
    options = BatchOptions(base_offset=base_offset, **settings)  # type: ignore[arg-type]
    return encode_batch(entries, options)


# Offsets 3 and 4 are a compressed batch, 5 a marker, 6 an old message; 7 and 8 were removed.
STORED = (
    _batch(0, b"a", None, b"ccc")
    + _batch(3, b"dd", b"e", codec=Codec.GZIP)
    + _batch(5, b"marker", is_control=True)
    + message((0, 0), 6, -1, b"key", b"ff")
    + _batch(9, b"g")
)
VALUES = [b"a", b"", b"ccc", b"dd", b"e", b"ff", b"g"]
POSITIONS = [0, 11, 21, 34, 46, 57, 69]
END = 80
BEGINNING = Anchor(0, 0)
OFFSETS = [0, 1, 2, 3, 4, 6, 9]


def _walk(goal: Goal, at: Anchor = BEGINNING, stored: bytes = STORED) -> Walk:
    walk = Walk(lambda start, count: stored[start : start + count], len(stored), at, goal)
    while walk.step():
        pass
    return walk


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_offsets_and_positions_belong_together(number: int) -> None:
    """Either can be looked for, from any record before it on."""
    offset, position = OFFSETS[number], POSITIONS[number]
    for start in range(number):
        at = Anchor(OFFSETS[start], POSITIONS[start])
        assert _walk(Goal(offset=offset), at).at.position == position
        found = _walk(Goal(position=position), at).at
        assert found.position == position
        assert OFFSETS[number - 1] < found.offset <= offset


def test_a_walk_ends_behind_the_last_record() -> None:
    """At the position where the next one will begin; or before a position inside of a message."""
    assert _walk(Goal()).at == Anchor(10, END)
    assert _walk(Goal(position=12)).at.position == 21


@pytest.mark.parametrize("number", range(len(VALUES)))
def test_messages_are_collected_up_to_the_limit(number: int) -> None:
    """Keys, headers and times are left out; a null value is an empty one."""
    at = Anchor(OFFSETS[number], POSITIONS[number])
    whole = b"".join(message_07(one, 1) for one in VALUES[number:])
    for size in range(1, len(whole) + 2):
        walk = _walk(Goal(data_bytes=size), at)
        assert walk.data == whole[:size]
        assert walk.at.position in (*POSITIONS, END)
        assert walk.at.position <= POSITIONS[number] + size


def test_what_comes_before_a_fault_is_answered() -> None:
    """The next fetch begins with the fault, and says so."""
    broken = bytearray(STORED)
    broken[len(_batch(0, b"a", None, b"ccc")) + 61] ^= 0xFF

    assert len(_walk(Goal(data_bytes=100), stored=bytes(broken)).data) == 34
    with pytest.raises(KafkaError):
        _walk(Goal(data_bytes=100), Anchor(3, 34), bytes(broken))
