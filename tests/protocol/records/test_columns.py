"""Columns: Arrow's own layout, slices without copies, and buffers that are not believed."""

from __future__ import annotations

import mmap
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.records.columns import BytesColumn, Columns, concat
from ottla.protocol.records.record import Record, Row
from tests.protocol.records.samples import quick

pyarrow = pytest.importorskip("pyarrow")

fields = st.none() | st.binary(max_size=9)
headers = st.just(()) | st.just((("name", b"value"), ("name", None)))
rows = st.tuples(st.integers(0, 2**62), st.integers(-(2**63), 2**63 - 1), fields, fields, headers)
row_lists = st.lists(rows, max_size=40)

ROWS: list[Row] = [
    (10, 1_000, b"a", b"first", ()),
    (11, 1_001, None, b"", (("h", b"1"),)),
    (14, 999, b"", None, ()),
]


def _records(found: list[Row]) -> list[Record]:
    return [Record(*row) for row in found]


@quick
@given(found=row_lists, start=st.integers(0, 40), stop=st.integers(0, 40))
def test_a_slice_holds_what_the_list_holds(found: list[Row], start: int, stop: int) -> None:
    """Bits of nulls do not begin at the edge of a byte where a slice does."""
    columns = Columns.of(found)
    start, stop = sorted((min(start, len(found)), min(stop, len(found))))

    part = columns.slice(start, stop)

    assert part.records() == _records(found[start:stop])
    assert part.slice(0, part.count) == part
    assert part.values.null_count == sum(row[3] is None for row in found[start:stop])


@quick
@given(lists=st.lists(row_lists, max_size=5), cut=st.integers(0, 9))
def test_columns_are_joined_whatever_they_were_cut_from(lists: list[list[Row]], cut: int) -> None:
    """Slices keep the data of the whole; their ends begin somewhere in it."""
    parts = [Columns.of(found).slice(min(cut, len(found)), len(found)) for found in lists]

    assert concat(parts).records() == [
        record for found in lists for record in _records(found[cut:])
    ]


@quick
@given(found=row_lists, start=st.integers(0, 40))
def test_arrow_takes_the_buffers_as_they_are(found: list[Row], start: int) -> None:
    """The layout is Arrow's, down to the bit: no copy, no conversion."""
    columns = Columns.of(found).slice(min(start, len(found)), len(found))
    count = columns.count

    for column, index in ((columns.keys, 2), (columns.values, 3)):
        buffers = [column.validity, column.ends, column.data]
        array = pyarrow.Array.from_buffers(
            pyarrow.binary(),
            count,
            [None if buffer is None else pyarrow.py_buffer(buffer) for buffer in buffers],
            column.null_count,
        )
        array.validate(full=True)
        assert array.to_pylist() == [row[index] for row in found[start:]]
    times = pyarrow.py_buffer(columns.timestamps)
    array = pyarrow.Array.from_buffers(pyarrow.int64(), count, [None, times])
    assert array.to_pylist() == [row[1] for row in found[start:]]


def test_headers_are_left_out_where_no_record_has_any() -> None:
    """A list of empty tuples for each batch is memory for nothing."""
    assert Columns.of([ROWS[0], ROWS[2]]).headers is None
    assert Columns.of(ROWS).headers == [(), (("h", b"1"),), ()]
    assert concat([Columns.of(ROWS[:1]), Columns.of(ROWS)]).headers == [(), (), (("h", b"1"),), ()]


def test_columns_are_equal_when_their_records_are() -> None:
    """A slice and columns of its own differ in their buffers alone."""
    assert Columns.of(ROWS).slice(1, 3) == Columns.of(ROWS[1:])
    assert Columns.of(ROWS) != Columns.of(ROWS[1:])
    assert Columns.of(ROWS) != ROWS
    assert len(Columns.of(ROWS)) == 3
    assert repr(Columns.of(ROWS)) == "Columns(3 records)"


@pytest.mark.parametrize(("start", "stop"), [(-1, 2), (2, 1), (0, 4)])
def test_slices_lie_within_the_columns(start: int, stop: int) -> None:
    """Unlike a list's, which are cut in silence: the buffers would be, too."""
    with pytest.raises(ValueError, match="records"):
        Columns.of(ROWS).slice(start, stop)


@pytest.mark.parametrize("count", [0, 1, 8, 9])
def test_a_column_of_nulls(count: int) -> None:
    """A producer without keys sends such a column of keys."""
    assert BytesColumn.nulls(count) == BytesColumn.of([None] * count)


@pytest.mark.parametrize(
    "columns",
    [
        Columns(2, bytes(16), bytes(15), BytesColumn.nulls(2), BytesColumn.nulls(2)),
        Columns(2, bytes(16), bytes(16), BytesColumn(bytes(8), b""), BytesColumn.nulls(2)),
        Columns(
            1, bytes(8), bytes(8), BytesColumn(struct.pack("<2i", 0, 2), b"x"), BytesColumn.nulls(1)
        ),
        Columns(1, bytes(8), bytes(8), BytesColumn(bytes(8), b"", b"", 1), BytesColumn.nulls(1)),
    ],
)
def test_buffers_that_are_too_short_are_refused(columns: Columns) -> None:
    """Reading on would read what lies behind them."""
    with pytest.raises(ValueError, match="column"):
        columns.records()


def test_what_does_not_fit_one_column_is_refused() -> None:
    """The ends are 32-bit; a larger whole is handed over in several parts."""
    with mmap.mmap(-1, 2**31) as memory:
        half = BytesColumn(struct.pack("<2i", 0, 2**30), memoryview(memory))
        part = Columns(1, bytes(8), bytes(8), BytesColumn.nulls(1), half)
        with pytest.raises(ValueError, match="2147483647 bytes"):
            concat([part, part])
        half.data.release()  # type: ignore[union-attr]
    with pytest.raises(ValueError, match="more than 3 bytes"):
        BytesColumn.of([b"ab", None, b"cd"], 3)
