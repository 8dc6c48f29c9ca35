"""Records that came together, cut into batches by sizes that are known before they are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.records.row_runs import ColumnRows, ItemRows, ValueRows, part_within
from ottla.client.sending.batch import BATCH_OVERHEAD_BYTES
from ottla.protocol.records.columns import Columns

if TYPE_CHECKING:
    from ottla.client.records.producer_record import Headers, Item
    from ottla.client.records.row_runs import Rows
    from ottla.protocol.records.record import Encoded

LIMIT_BYTES = 200_000
FAR = 2**62


def wide(number: int) -> Item:
    """A record whose numbers take as many bytes as they can beside so small a value."""
    return (FAR * (number % 2), b"k" * 100, b"", (("name", b"v" * 100),))


def at_one_time(records: list[tuple[bytes | None, bytes | None, Headers]]) -> ColumnRows:
    """Columns as of Arrow data without timestamps."""
    columns = Columns.of([(0, FAR, *record) for record in records])
    return ColumnRows(columns, has_one_timestamp=True)


ITEMS = [wide(number) for number in range(20_000)]
ROWS = [
    pytest.param(ValueRows([b""] * 60_000, FAR), id="empty values"),
    pytest.param(ValueRows([b"x" * 1024] * 1_000, FAR), id="values"),
    pytest.param(ItemRows([(FAR * (n % 2), None, b"", ()) for n in range(40_000)]), id="times"),
    pytest.param(ItemRows(ITEMS), id="items"),
    pytest.param(ColumnRows(Columns.of([(0, *item) for item in ITEMS])), id="columns"),
    pytest.param(at_one_time([(b"k" * 9_000, b"v" * 9_000, ())] * 100), id="long keys"),
    pytest.param(at_one_time([(None, b"", ())] * 60_000), id="nearly nothing"),
    pytest.param(at_one_time([(b"", b"", (("", b""),) * 20)] * 3_000), id="many headers"),
]


@pytest.mark.parametrize("rows", ROWS)
def test_no_batch_becomes_larger_than_its_limit(rows: Rows) -> None:
    """A batch that the broker refuses as too large would have to be split and sent again."""
    part = part_within(rows, 1, LIMIT_BYTES - BATCH_OVERHEAD_BYTES)

    assert 1 < part.record_count < rows.count - 1
    assert LIMIT_BYTES / 4 < len(part.encode().data) <= LIMIT_BYTES


def test_what_fits_is_one_batch_and_one_record_always_fits() -> None:
    """The last part takes all that is left; a record that is too large is refused elsewhere."""
    rows = ValueRows([b"x" * 1000] * 3, 0)

    assert part_within(rows, 0, 5_000).stop == 3
    assert part_within(rows, 1, 1_500).stop == 2
    assert part_within(rows, 2, 10).stop == 3


@pytest.mark.parametrize(
    "rows",
    [
        pytest.param(ValueRows([b"x" * 1024] * 10_000, FAR), id="values"),
        pytest.param(at_one_time([(None, b"x" * 1024, ())] * 10_000), id="columns"),
    ],
)
def test_records_of_one_timestamp_fill_their_batches(rows: Rows) -> None:
    """Each request has its price: what no delta needs is not kept free for one."""
    limit_bytes = 1024 * 1024 - BATCH_OVERHEAD_BYTES
    parts = [part_within(rows, 0, limit_bytes)]
    while parts[-1].stop < rows.count:
        parts.append(part_within(rows, parts[-1].stop, limit_bytes))

    assert len(parts) == 10
    assert all(len(part.encode().data) > 0.99 * limit_bytes for part in parts[:-1])


class Counted:
    """Rows that count how often they were asked for a size."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.count = rows.count
        self.excess_bytes = rows.excess_bytes
        self.asked = 0

    def size_bytes(self, start: int, stop: int) -> int:
        """As the rows say."""
        self.asked += 1
        return self.rows.size_bytes(start, stop)

    def timestamp(self, index: int) -> int:
        """As the rows say."""
        return self.rows.timestamp(index)

    def items(self, start: int, stop: int) -> list[Item]:
        """As the rows say."""
        return self.rows.items(start, stop)

    def encode(self, start: int, stop: int) -> Encoded:
        """As the rows say."""
        return self.rows.encode(start, stop)


@pytest.mark.parametrize("sizes", [(100,), (100, 101), (5, 4_000), (90_000, 1, 1)])
def test_a_part_ends_where_the_next_record_would_be_one_too_many(sizes: tuple[int, ...]) -> None:
    """Also when records differ in size; with equal sizes three size queries suffice."""
    rows = Counted(ValueRows([b"x" * sizes[n % len(sizes)] for n in range(30_000)], 0))
    part = part_within(rows, 3, LIMIT_BYTES)
    asked, each = rows.asked, rows.excess_bytes

    assert rows.size_bytes(3, part.stop) + part.record_count * each <= LIMIT_BYTES
    assert rows.size_bytes(3, part.stop + 1) + (part.record_count + 1) * each > LIMIT_BYTES
    assert asked == 3 or len(sizes) > 1
