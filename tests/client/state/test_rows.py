"""Records that came together, cut into batches by sizes that are known before they are encoded."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.client.state.batch import BATCH_OVERHEAD_BYTES
from ottla.client.state.rows import ColumnRows, ItemRows, ValueRows, part_within
from ottla.protocol.records.columns import Columns

if TYPE_CHECKING:
    from ottla.client.state.items import Item
    from ottla.client.state.rows import Rows

LIMIT_BYTES = 200_000
FAR = 2**62


def wide(number: int) -> Item:
    """A record whose numbers take as many bytes as they can beside so small a value."""
    return (FAR * (number % 2), b"k" * 100, b"", (("name", b"v" * 100),))


ITEMS = [wide(number) for number in range(20_000)]
ROWS = [
    pytest.param(ValueRows([b""] * 60_000, FAR), id="empty values"),
    pytest.param(ValueRows([b"x" * 1024] * 1_000, FAR), id="values"),
    pytest.param(ItemRows([(FAR * (n % 2), None, b"", ()) for n in range(40_000)]), id="times"),
    pytest.param(ItemRows(ITEMS), id="items"),
    pytest.param(ColumnRows(Columns.of([(0, *item) for item in ITEMS])), id="columns"),
]


@pytest.mark.parametrize("rows", ROWS)
def test_no_batch_becomes_larger_than_its_limit(rows: Rows) -> None:
    """What a broker refuses as too large would have to be split and sent again."""
    part = part_within(rows, 1, LIMIT_BYTES - BATCH_OVERHEAD_BYTES)

    assert 1 < part.record_count < rows.count - 1
    assert LIMIT_BYTES / 4 < len(part.encode().data) <= LIMIT_BYTES


def test_what_fits_is_one_batch_and_one_record_always_fits() -> None:
    """The last part takes all that is left; a record that is too large is refused elsewhere."""
    rows = ValueRows([b"x" * 1000] * 3, 0)

    assert part_within(rows, 0, 5_000).stop == 3
    assert part_within(rows, 1, 1_500).stop == 2
    assert part_within(rows, 2, 10).stop == 3
