"""Consumer groups of the whole broker under seeded chaos, and whether the oracles see.

Each failing seed prints the command that replays it.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.simulation.groups.story import run
from tests.simulation.seeds import failures
from tests.simulation.subject import build_broker

SEEDS = 100
SOAK_SEEDS = 1_000
BLOCK = 10
SOAK_BLOCK = 45  # twenty blocks
judged = partial(run, build=build_broker)


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_groups_settle_and_lose_neither_records_nor_commits(first: int) -> None:
    """No partition has two owners, no paused member commits, and each record is read at least
    once."""
    reached: Counter[str] = Counter()
    found = failures(judged, range(first, first + BLOCK), reached)

    assert not found, "\n\n".join(found)
    # Chaos that reaches nothing proves nothing.
    assert reached["generations"] > 3 * BLOCK
    assert reached["commits"] > 10 * BLOCK
    assert reached["claims"] > 5 * BLOCK


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_groups_settle_in_many_more_worlds(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    assert not failures(judged, range(first, first + SOAK_BLOCK), Counter())


def test_a_seed_is_one_history() -> None:
    """Otherwise no failure could be looked at twice."""
    assert run(3, build_broker, 2.0).digest == run(3, build_broker, 2.0).digest
