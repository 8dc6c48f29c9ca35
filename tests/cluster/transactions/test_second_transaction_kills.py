"""The coordinator of a transaction of version 2 is killed before, within and after each of its
steps: the points of ``test_transaction_kills``, and Ottla's own producer.

Each transaction ends with the next epoch of its producer, which has to be the same in every retry,
whichever broker answers then.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from tests.cluster.support.pipeline import OPTIONS, TARGETS
from tests.cluster.support.real import RealCluster
from tests.cluster.support.stepping import SecondSteps, tells_of_version_two
from tests.cluster.transactions.test_transaction_kills import (
    POINTS,
    SHORT,
    SOURCE,
    TARGET,
    Point,
    warm_up,
)
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path


def kill_at(folder: Path, points: Sequence[Point], *, reads_each: bool) -> SecondSteps:
    """Committed records are read after each point or, which takes less time, after all of them."""
    with RealCluster(folder, fresh_place(), options=OPTIONS) as cluster:
        cluster.create_topic(TARGET, TARGETS)
        cluster.create_topic(SOURCE, 2)
        warm_up(cluster)
        addresses = [broker.address for broker in cluster.brokers.values()]
        cluster.wait_for("all tell of version 2", lambda: all(map(tells_of_version_two, addresses)))
        steps = SecondSteps(cluster)
        for point in points:
            cluster.tell(f"{point}")
            steps.run(point)
            if reads_each or point is points[-1]:
                steps.judge_records()
        cluster.tell(f"outcomes: {dict(zip(map(str, points), steps.outcomes, strict=True))}")
        return steps


@pytest.mark.slow
@pytest.mark.requirement("TXN-06", "TXN-11", "TXN-50", "TXN-51", "TXN-52")
def test_a_coordinator_that_dies_leaves_whole_transactions_of_version_two(tmp_path: Path) -> None:
    """The short form of the next test."""
    steps = kill_at(tmp_path, SHORT, reads_each=False)

    assert len(steps.outcomes) == len(SHORT)


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_a_coordinator_may_die_at_any_step_of_version_two(tmp_path: Path) -> None:
    """Every step, before it, within it and after it."""
    points = [*POINTS]
    random.shuffle(points)

    steps = kill_at(tmp_path, points, reads_each=True)

    assert "committed" in steps.outcomes
    assert "aborted" in steps.outcomes
