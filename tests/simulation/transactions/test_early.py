"""The checker of what is shown before its end is replicated: what it lets pass, and what not."""

from __future__ import annotations

import pytest

from tests.simulation.clients.batches import Batch
from tests.simulation.transactions.early import Showings

PARTITION = ("t", 0)


def batch(offset: int, producer_id: int = 7, control_type: int | None = None) -> Batch:
    return Batch(offset, offset, 100, producer_id, 0, 0, [], True, control_type)


@pytest.mark.parametrize(("high_watermark", "is_early"), [(11, True), (12, False)])
def test_who_is_shown_a_transaction_was_told_a_watermark_beyond_its_end(
    high_watermark: int, is_early: bool
) -> None:
    """The marker at 11 is committed when the watermark is 12 (T-17)."""
    showings = Showings()
    showings.shown(PARTITION, batch(6), high_watermark)
    showings.marker(PARTITION, batch(11, control_type=1))

    assert bool(showings.violations()) is is_early


def test_each_transaction_is_held_against_its_own_end() -> None:
    """Another producer's end, an earlier one, or one that retention has taken says nothing."""
    showings = Showings()
    for offset, control in ((3, 7), (20, 8)):
        showings.marker(PARTITION, batch(offset, control, control_type=1))
    showings.shown(PARTITION, batch(6), 10)
    none = showings.violations()
    showings.marker(PARTITION, batch(30, control_type=0))

    assert none == []
    assert len(showings.violations()) == 1
