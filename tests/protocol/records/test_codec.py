"""The twins of the record codec: what each must do, and that they do the same."""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import HEADER_BYTES, parse_batch
from ottla.protocol.records.builder import BatchOptions, finish_batch
from ottla.protocol.records.columns import BytesColumn, Columns
from ottla.protocol.records.record import Encoded, Record, record_bytes, record_view
from tests.protocol.records.samples import (
    COMMIT_MARKER,
    ENTRIES,
    ONE_RECORD,
    TRANSACTIONAL,
    codecs,
    quick,
)
from tests.protocol.records.twins import (
    PURE,
    TWINS,
    compiled_or_say_why,
    outcome,
)

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.codec import Twin
    from ottla.protocol.records.compression import Codec
    from ottla.protocol.records.record import Entry

each = pytest.mark.parametrize("twin", TWINS)
parity = settings(deadline=None, max_examples=120)

INT64_MIN, INT64_MAX = -(2**63), 2**63 - 1


class Row(NamedTuple):
    """As a consumer hands records out."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    key: bytes | None
    value: bytes | None
    headers: Any


times = st.integers(INT64_MIN, INT64_MAX) | st.integers(1_700_000_000_000, 1_700_000_100_000)
fields: st.SearchStrategy[Any] = (
    st.none()
    | st.binary(max_size=40)
    | st.integers(0, 20_000).map(bytes)
    | st.binary(max_size=20).map(bytearray)
    | st.binary(max_size=20).map(lambda data: memoryview(data))
)
# Everything that header bytes can decode to, and some text that cannot be encoded at all.
names = st.text(max_size=6) | st.binary(max_size=6).map(
    lambda data: data.decode("utf-8", "surrogateescape")
)
odd_names = names | st.text(st.characters(categories=["Cs"]), max_size=2)
header_lists = st.lists(st.tuples(odd_names, st.none() | st.binary(max_size=9)), max_size=4)
entry_lists = st.lists(
    st.tuples(times, fields, fields, header_lists.map(tuple) | st.just(())), max_size=30
)


def _batch(data: Buffer) -> tuple[RecordBatch, bytes]:
    batch = parse_batch(data)
    return batch, record_bytes(batch)


def _batch_of(encoded: Encoded, options: BatchOptions) -> tuple[RecordBatch, bytes]:
    return _batch(finish_batch(encoded, options))


def _assert_equal_reading(batch: RecordBatch, data: bytes, from_offset: int = 0) -> None:
    """Every way to read gives the same, or fails the same way."""
    twin = compiled_or_say_why()
    for name in ("decode_records", "decode_values", "decode_columns"):
        expected = outcome(getattr(PURE, name), batch, data)
        assert outcome(getattr(twin, name), batch, data) == expected
    in_place = outcome(twin.decode_columns_in_place, batch, bytearray(data), 2**31, 0)
    assert in_place == outcome(PURE.decode_columns, batch, data)
    order = (batch, data, Row, ("topic", 7), from_offset)
    assert outcome(twin.decode_as, *order) == outcome(PURE.decode_as, *order)


@parity
@given(entries=entry_lists)
def test_encoded_entries_are_the_same_bytes(entries: list[Entry]) -> None:
    """What a producer sends must not depend on what could be compiled where it runs."""
    twin = compiled_or_say_why()

    assert outcome(twin.encode_entries, entries) == outcome(PURE.encode_entries, entries)


@parity
@given(values=st.lists(fields, max_size=30), timestamp=times)
def test_encoded_values_are_the_same_bytes(values: list[bytes | None], timestamp: int) -> None:
    """The shortest way in gives what the long way gives."""
    twin = compiled_or_say_why()
    entries: list[Entry] = [(timestamp, None, value, ()) for value in values]

    found = outcome(twin.encode_values, values, timestamp)

    assert found == outcome(PURE.encode_values, values, timestamp)
    assert found == outcome(PURE.encode_entries, entries)


@parity
@given(
    entries=entry_lists,
    codec=codecs,
    base_offset=st.integers(0, 2**40) | st.integers(INT64_MAX - 100, INT64_MAX),
    append_time_ms=st.none() | times,
    skipped=st.integers(0, 100),
)
def test_what_is_read_is_the_same(
    entries: list[Entry],
    codec: Codec,
    base_offset: int,
    append_time_ms: int | None,
    skipped: int,
) -> None:
    """A consumer sees the same records, also where offsets and times meet the ends of 64 bits."""
    encoded = outcome(PURE.encode_entries, entries)
    if encoded[0] != "found":
        return
    options = BatchOptions(codec=codec, base_offset=base_offset, append_time_ms=append_time_ms)
    assert isinstance(encoded[1], Encoded)
    batch, data = _batch_of(encoded[1], options)

    _assert_equal_reading(batch, data, base_offset + skipped)


def test_long_batches_of_long_fields_are_the_same() -> None:
    """Offsets and sizes of one byte, of two, of three and of four."""
    twin = compiled_or_say_why()
    entries: list[Entry] = [(number * 50, None, b"%d" % number, ()) for number in range(9_000)]
    entries += [(3, b"k" * 9_000, b"v" * 1_100_000, (("name" * 50, b"h" * 2_000_000),) * 70)]
    encoded = PURE.encode_entries(entries)

    assert twin.encode_entries(entries) == encoded
    _assert_equal_reading(*_batch_of(encoded, BatchOptions()))


@pytest.mark.parametrize("golden", [ONE_RECORD, TRANSACTIONAL, COMMIT_MARKER])
def test_golden_batches_are_read_the_same(golden: bytes) -> None:
    """Bytes that other clients have agreed on."""
    _assert_equal_reading(*_batch(golden))


@parity
@given(entries=entry_lists, cut=st.integers(0, 30), stop=st.integers(0, 30))
def test_encoded_columns_are_the_same_bytes(entries: list[Entry], cut: int, stop: int) -> None:
    """Any part of columns, also of a slice whose bits do not begin at a byte's edge."""
    twin = compiled_or_say_why()
    rows = [
        (0, time, None if key is None else bytes(key), None if value is None else bytes(value), h)
        for time, key, value, h in entries
    ]
    columns = Columns.of(rows)
    part = columns.slice(min(cut, len(rows)), len(rows))

    for start, end in ((0, part.count), (min(3, part.count), stop), (stop, cut)):
        expected = outcome(PURE.encode_columns, part, start, end)
        assert outcome(twin.encode_columns, part, start, end) == expected


@quick
@given(
    ends=st.lists(st.integers(-(2**31), 2**31 - 1) | st.integers(0, 9), max_size=6),
    data=st.binary(max_size=8),
    validity=st.none() | st.binary(max_size=1),
    stop=st.integers(-1, 6),
)
def test_columns_that_lie_are_refused_the_same(
    ends: list[int], data: bytes, validity: bytes | None, stop: int
) -> None:
    """Buffers come from anywhere; an end that leads out of the data must never be followed."""
    twin = compiled_or_say_why()
    packed = b"".join(end.to_bytes(4, "little", signed=True) for end in ends)
    column = BytesColumn(packed, data, validity)
    columns = Columns(5, bytes(40), bytes(40), BytesColumn.nulls(5), column)

    expected = outcome(PURE.encode_columns, columns, 0, stop)

    assert outcome(twin.encode_columns, columns, 0, stop) == expected
    assert expected[0] in ("found", "ValueError")


@each
def test_records_are_read_out_of_any_buffer(twin: Twin) -> None:
    """A fetched batch is a view into the answer; to copy it first would double the work."""
    batch = parse_batch(memoryview(bytearray(TRANSACTIONAL)))
    view, expected = record_view(batch), PURE.decode_records(batch, record_bytes(batch))

    assert isinstance(view, memoryview)
    for data in (view, bytearray(view), bytes(view)):
        assert twin.decode_records(batch, data) == expected
        assert twin.decode_columns(batch, data).records() == expected
        assert twin.decode_values(batch, data) == [record.value for record in expected]


@each
def test_records_come_back_in_every_form(twin: Twin) -> None:
    """The forms are views of the same records."""
    batch, data = _batch_of(twin.encode_entries(ENTRIES), BatchOptions(base_offset=70))
    records = twin.decode_records(batch, data)

    assert [record[1:] for record in records] == ENTRIES
    assert [record.offset for record in records] == [70, 71, 72, 73]
    assert twin.decode_values(batch, data) == [record.value for record in records]
    assert twin.decode_columns(batch, data).records() == records
    assert twin.decode_as(batch, data, Row, ("t", 3), 72) == [
        Row("t", 3, *record) for record in records[2:]
    ]
    assert {type(record) for record in records} == {Record}


@each
def test_encoded_says_what_the_header_needs(twin: Twin) -> None:
    """Base timestamp from the first record, the largest from anywhere (KIP-32)."""
    assert twin.encode_entries(ENTRIES)[1:] == (ENTRIES[0][0], ENTRIES[3][0], 4)
    assert twin.encode_values([b"a", None], 5)[1:] == (5, 5, 2)
    nothing = Encoded(bytearray(HEADER_BYTES), -1, -1, 0)
    assert twin.encode_entries([]) == twin.encode_values([], 7) == nothing


class Tagged(tuple[object, ...]):
    """A row with room for more, which cannot be made the quick way."""

    tag = ""


@each
def test_rows_may_be_of_any_kind_of_tuple(twin: Twin) -> None:
    """Also one with attributes of its own, and one that leads to a list."""
    batch, data = _batch(ONE_RECORD)

    (row,) = twin.decode_as(batch, data, Tagged, ([],), 0)
    row.tag = "mine"

    assert type(row) is Tagged
    assert row == ([], 0, 1_700_000_000_000, b"k", b"v", ())
    assert gc.is_tracked(row)
    assert twin.decode_as(batch, data, Row, ([], 1), 0)[0].topic == []  # type: ignore[comparison-overlap]


def test_compiled_rows_cost_the_collector_nothing() -> None:
    """A million records in hand must not make every collection walk over them."""
    twin = compiled_or_say_why()
    batch, data = _batch(TRANSACTIONAL)
    rows = twin.decode_as(batch, data, Row, ("t", 0), 0)

    assert [gc.is_tracked(row) for row in rows] == [False, False]
    assert gc.is_tracked(rows), "a cycle through the list would never be found"
    assert hash(rows[0]) == hash(tuple(rows[0]))
    assert gc.is_tracked(twin.decode_as(batch, data, Row, ([], 0), 0)[0])


@each
@pytest.mark.parametrize(
    ("entries", "error"),
    [
        ([(2**63, None, None, ())], OverflowError),
        ([(-1, None, None, ()), (2**63 - 1, None, None, ())], OverflowError),
        ([(2**63 - 1, None, None, ()), (2**63, None, None, ())], OverflowError),
        ([(0, "text", None, ())], TypeError),
        ([(0, None, 5, ())], TypeError),
        ([(0, None, memoryview(b"abcd")[::2], ())], TypeError),
        ([(0.5, None, b"", ())], TypeError),
        ([(0, b"", b"")], ValueError),
        ([(0, None, None, ((b"name", b""),))], AttributeError),
        ([(0, None, None, (("name", "text"),))], TypeError),
        ([(0, None, None, (("\ud800", b""),))], UnicodeEncodeError),
    ],
)
def test_entries_that_cannot_be_sent(twin: Twin, entries: Any, error: type[Exception]) -> None:
    """An application's mistake is an error of that call, never a batch that brokers refuse."""
    with pytest.raises(error):
        twin.encode_entries(entries)


@each
def test_views_of_larger_items_are_sent_as_their_bytes(twin: Twin) -> None:
    """The length of such a view counts items; on the wire it counts bytes."""
    numbers = memoryview(b"abcdefgh").cast("i")

    expected = twin.encode_values([b"abcdefgh"], 1)

    assert twin.encode_entries([(1, None, numbers, ())]) == expected
    assert twin.encode_values([numbers], 1) == expected  # type: ignore[list-item]


class Shrinking:
    """A number that empties a list when it is looked at."""

    def __init__(self, victim: list[Any]) -> None:
        self._victim = victim

    def __index__(self) -> int:
        self._victim.clear()
        return 1


def test_lists_that_change_while_they_are_encoded_are_harmless() -> None:
    """Python code may run where a number is asked for; what was measured must not be stale."""
    twin = compiled_or_say_why()
    values: list[Any] = [b"x" * 100] * 10
    entries: list[Any] = [(0, None, b"x" * 100, ())]
    entries.append((Shrinking(entries), None, b"y" * 100, ()))

    assert twin.encode_values(values, Shrinking(values)).record_count == 0  # type: ignore[arg-type]
    assert twin.encode_entries(entries).record_count == 2


@each
def test_columns_larger_than_their_ends_can_say_are_refused(twin: Twin) -> None:
    """Arrow's offsets are 32-bit: larger ones would wrap and point to other values."""
    batch, data = _batch_of(twin.encode_values([b"x" * 600, b"y" * 600], 1), BatchOptions())

    with pytest.raises(ValueError, match="more than 1199 bytes"):
        twin.decode_columns(batch, data, 1_199)
    assert twin.decode_columns(batch, data, 1_200).values.data == b"x" * 600 + b"y" * 600


@each
def test_more_records_are_claimed_than_there_are_bytes(twin: Twin) -> None:
    """S-31, N-04: the count is a peer's claim; memory follows the bytes."""
    batch, data = _batch(ONE_RECORD)
    batch.record_count = 2**31 - 1

    for decode in (twin.decode_records, twin.decode_values, twin.decode_columns):
        assert outcome(decode, batch, data) == ("KafkaError", ErrorCode.CORRUPT_MESSAGE)


@pytest.mark.parametrize("first", [b"", None, b"the first"])
def test_values_are_moved_together_where_they_are(first: bytes | None) -> None:
    """The data that is handed out is the data received, neither copied nor allocated.

    It stays unchanged while it is referenced, and a batch that is refused stays whole."""
    twin = compiled_or_say_why()
    values = [first, *(b"%d" % number * 100 for number in range(1_000)), None, b""]
    batch, data = _batch_of(PURE.encode_values(values, 5), BatchOptions(base_offset=7))
    mine = bytearray(data)

    columns = twin.decode_columns_in_place(batch, mine)

    assert columns == PURE.decode_columns(batch, data)
    assert memoryview(columns.values.data).obj is mine
    with pytest.raises(BufferError):
        mine.pop()
    damaged = bytearray(data[:-1])
    with pytest.raises(KafkaError):
        twin.decode_columns_in_place(batch, damaged)
    assert damaged == data[:-1]


@pytest.mark.parametrize("size_bytes", [10, 100_000])
def test_what_is_small_or_not_ours_to_write_is_copied(size_bytes: int) -> None:
    """A little batch must not keep a large frame in memory, and bytes never change."""
    twin = compiled_or_say_why()
    batch, data = _batch_of(PURE.encode_values([bytes(size_bytes)] * 2, 5), BatchOptions())
    mine: bytes | bytearray = data if size_bytes > 10 else bytearray(data)

    columns = twin.decode_columns_in_place(batch, mine)

    assert isinstance(columns.values.data, bytes)
    assert columns.values.data == bytes(2 * size_bytes)
    assert mine == data
