"""The coordinator of a pipeline's transaction dies at each step of it, in both protocols.

``python -m tests.simulation --point N [--old] SEED`` replays one.
"""

from __future__ import annotations

from functools import cache

import pytest

from tests.simulation.transactions import matrix

SEED = 1
SOAK_SEEDS = 5
NEW = (
    "after the record Empty",
    "before Produce",
    "before the record Ongoing",
    "after the record Ongoing",
    "after Produce",
    "after TxnOffsetCommit",
    "before the record PrepareCommit",
    "after the record PrepareCommit",
    "before the markers",
    "after the markers",
    "before the record CompleteCommit",
    "after the record CompleteCommit",
)
OLD = (
    "after InitProducerId",
    "before AddPartitionsToTxn",
    "after the record Ongoing",
    "after AddPartitionsToTxn",
    "after Produce",
    "before AddOffsetsToTxn",
    "after TxnOffsetCommit",
    "before EndTxn",
    "after the record PrepareCommit",
    "after EndTxn",
    "after the markers",
    "after the record CompleteCommit",
)


@cache
def points(seed: int, *, second: bool) -> list[str]:
    return matrix.points_of(seed, second=second)


def flaw(seed: int, number: int, *, second: bool) -> str:
    """The defect of one run, or of its evidence; empty if there is none."""
    outcome = matrix.run(seed, number, second=second)
    if not outcome.ok:
        return outcome.describe()
    if not any("strike at" in event for event in outcome.events):
        return f"point {number}: nobody has died, so nobody knows what it has survived"
    return "" if outcome.counts["piped"] > 0 else f"point {number}: nothing went through"


@pytest.mark.requirement("TXN-06", "TXN-11", "TXN-31", "TXN-43", "TXN-50", "TXN-51", "TXN-52")
@pytest.mark.parametrize("step", NEW)
def test_a_transaction_outlives_its_coordinator(step: str) -> None:
    """Another one finds all in the log, and output and position stay one."""
    assert flaw(SEED, points(SEED, second=True).index(step), second=True) == ""


@pytest.mark.requirement("TXN-06", "TXN-11", "TXN-31", "TXN-43", "TXN-50", "TXN-51", "TXN-52")
@pytest.mark.parametrize("step", OLD)
def test_a_transaction_of_an_old_client_outlives_its_coordinator(step: str) -> None:
    """Which adds partitions by itself, and keeps its epoch."""
    assert flaw(SEED, points(SEED, second=False).index(step), second=False) == ""


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("second", [True, False])
@pytest.mark.parametrize("seed", range(1, 1 + SOAK_SEEDS))
def test_transactions_outlive_their_coordinators_at_every_step(seed: int, second: bool) -> None:
    """All points of two transactions, with other delays for each seed."""
    numbers = range(len(points(seed, second=second)))

    assert [one for number in numbers if (one := flaw(seed, number, second=second))] == []
