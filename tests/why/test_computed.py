"""The claims that are computed: quorums, and how many replicas tolerate how many failures."""

from __future__ import annotations

import pytest

from examples.why import failures, quorums


@pytest.mark.requirement("BGD-03")
def test_reads_miss_the_newest_write_unless_the_quorums_overlap() -> None:
    """With W=1 and R=1 some reads are stale, with W=2 and R=2 none of thousands is."""
    found = {(one.written, one.read): one for one in quorums.measure(True)}

    assert quorums.REPLICAS == 3
    assert found[1, 1].stale > 0
    assert found[2, 2].stale == 0
    assert found[2, 2].trials >= 2_000
    for one in found.values():
        assert (one.stale == 0) == one.overlaps
        assert one.stale / one.trials == pytest.approx(one.expected_share, abs=0.05)
    assert quorums.show(list(found.values())).holds


@pytest.mark.requirement("BGD-04")
def test_two_failures_need_five_replicas_by_majority_and_three_by_isr() -> None:
    """Computed by going through every set of failures, not by the formula that it confirms."""
    table = {one.failures: one for one in failures.measure(True)}

    assert (table[2].by_majority, table[2].by_isr) == (5, 3)
    assert failures.show(list(table.values())).holds


@pytest.mark.parametrize("replicas", [3, 4])
def test_fewer_than_five_replicas_do_not_survive_two_failures_by_majority(replicas: int) -> None:
    """The search must be able to say no."""
    assert not failures.majority_survives(replicas, 2)
    assert failures.isr_survives(replicas, 2)
    assert not failures.isr_survives(2, 2)
