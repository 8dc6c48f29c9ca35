"""Groups in the metadata store under chaos, some dozen seeds; more of them in the soak run."""

from __future__ import annotations

import pytest

from tests.simulation.registry.story import CLEAN, run_seed

QUICK = range(40)
LONG = range(40, 1_040)


def failures(seeds: range, actions: tuple[str, ...] | None = None) -> list[str]:
    """What went wrong, by seed."""
    outcomes = (run_seed(seed) if actions is None else run_seed(seed, actions) for seed in seeds)
    return [f"{one.seed}: {one.complaints[:5]}" for one in outcomes if one.complaints]


@pytest.mark.requirement("REB-12")
def test_members_that_join_leave_die_and_are_cut_off_never_share_a_partition() -> None:
    """Two processors of one partition would count its records twice; one without an owner is not
    processed at all. Ten seconds after the last change the members agree: no overlap, no gap."""
    assert failures(QUICK) == []


def test_members_that_only_join_and_leave_hand_out_each_record_once() -> None:
    """The next owner begins where the previous one has stopped, to the record."""
    outcomes = [run_seed(seed, CLEAN) for seed in QUICK]

    assert [one.complaints for one in outcomes if one.complaints] == []
    assert sum(one.repeated for one in outcomes) == 0
    assert sum(one.rebalances for one in outcomes) > 5 * len(QUICK)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_thousand_seeds() -> None:
    """The rare orders of events."""
    assert failures(LONG) == []
