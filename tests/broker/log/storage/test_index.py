"""The sparse indexes: Kafka's bytes, floor semantics, and refusal of anything that looks wrong."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.log.storage.index import OffsetIndex, TimeIndex

ASCENDING = st.lists(st.integers(0, 2**31 - 1), unique=True, max_size=50).map(sorted)


def offset_index(entries: list[tuple[int, int]]) -> OffsetIndex:
    index = OffsetIndex()
    for relative_offset, position in entries:
        index.append(relative_offset, position)
    return index


def test_offset_entries_are_kafkas_eight_bytes() -> None:
    """Kafka's DumpLogSegments must be able to read them."""
    assert offset_index([(5, 4096), (258, 70000)]).encode().hex() == (
        "00000005000010000000010200011170"
    )


def test_time_entries_are_kafkas_twelve_bytes() -> None:
    """Timestamp first, then the relative offset."""
    index = TimeIndex()
    index.append(1_700_000_000_000, 5)

    assert index.encode().hex() == "0000018bcfe5680000000005"


@given(offsets=ASCENDING, positions=ASCENDING)
def test_an_offset_index_survives_the_disk(offsets: list[int], positions: list[int]) -> None:
    """The next start must find what was written."""
    entries = list(zip(offsets, positions, strict=False))
    decoded = OffsetIndex.decode(offset_index(entries).encode(), 2**31)

    assert decoded is not None
    assert decoded.is_ascending
    assert list(zip(decoded.offsets, decoded.positions, strict=True)) == entries
    assert decoded.written_count == len(entries)


@given(offsets=ASCENDING, timestamps=ASCENDING)
def test_a_time_index_survives_the_disk(offsets: list[int], timestamps: list[int]) -> None:
    """The next start must find what was written."""
    index = TimeIndex()
    for timestamp, offset in zip(timestamps, offsets, strict=False):
        index.append(timestamp, offset)
    decoded = TimeIndex.decode(index.encode())

    assert decoded is not None
    assert decoded.is_ascending
    assert (decoded.timestamps, decoded.offsets) == (index.timestamps, index.offsets)


@given(offsets=ASCENDING, wanted=st.integers(-1, 2**31 - 1))
def test_floor_is_the_nearest_batch_that_ends_at_or_before(offsets: list[int], wanted: int) -> None:
    """Walking from there meets the offset; from one further on it would be missed."""
    index = offset_index([(offset, number + 1) for number, offset in enumerate(offsets)])
    expected = max((n + 1 for n, offset in enumerate(offsets) if offset <= wanted), default=0)

    assert index.floor(wanted) == expected


def test_a_boundary_is_the_last_noted_batch_start_within_a_limit() -> None:
    """Reads are cut there, so that they end between two batches."""
    index = offset_index([(5, 4096), (9, 9000)])

    assert [index.boundary(limit) for limit in (0, 4095, 4096, 8999, 9000)] == [
        0,
        0,
        4096,
        4096,
        9000,
    ]


def test_time_entries_are_only_added_for_later_times() -> None:
    """The search by time relies on both columns ascending."""
    index = TimeIndex()

    assert [index.append(time, offset) for time, offset in [(5, 0), (5, 3), (4, 6), (6, 9)]] == [
        True,
        False,
        False,
        True,
    ]
    assert [index.floor(time) for time in (4, 5, 6, 7)] == [None, None, 0, 9]


def test_truncated_indexes_forget_what_lies_behind() -> None:
    """An entry that outlives its batch would lead into the middle of another."""
    index = offset_index([(5, 4096), (9, 9000), (20, 13000)])
    index.written_count = 3
    index.truncate(9000)

    assert list(index.offsets) == [5]
    assert index.written_count == 1


@pytest.mark.parametrize(
    "content",
    [
        "00000005000010",
        "00000005000010000000000500002000",
        "00000005000010000000000400002000",
        "00000005000010000000000600001000",
        "00000005000010000000000000000000",
        "8000000500001000",
        "0000000500010000",
    ],
)
def test_an_offset_index_that_cannot_be_right_is_refused(content: str) -> None:
    """S-04: torn, not ascending, zeros behind the end, negative, beyond the log's end."""
    index = OffsetIndex.decode(bytes.fromhex(content), 0x10000)
    assert index is None or not index.is_ascending


@pytest.mark.parametrize(
    "content",
    [
        "0000018bcfe568000000000500",
        "0000018bcfe56800000000050000018bcfe5680000000006",
        "0000018bcfe56800000000050000018bcfe5680100000004",
        "0000018bcfe5680000000005000000000000000000000000",
        "0000018bcfe56800ffffffff",
    ],
)
def test_a_time_index_that_cannot_be_right_is_refused(content: str) -> None:
    """S-04: torn, not ascending, zeros behind the end, negative."""
    index = TimeIndex.decode(bytes.fromhex(content))
    assert index is None or not index.is_ascending
