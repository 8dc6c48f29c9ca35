"""The audit log and the delegation tokens of a cluster under chaos, and whether the oracles see.

``python -m tests.simulation --security SEED`` replays one seed.
"""

from __future__ import annotations

from collections import Counter
from functools import partial

import pytest

from tests.simulation.cluster.hazards.replacing import replaced
from tests.simulation.security.planted import PLANTED, RARE
from tests.simulation.security.scenario import run
from tests.simulation.seeds import failures

SEEDS = 8
BLOCK = 4
SOAK_SEEDS = 600
SOAK_BLOCK = 100
SHORT_S = 8.0
short = partial(run, chaos_s=SHORT_S)
PLANTED_SEEDS = 12
RARE_SEEDS = 200


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_decisions_are_recorded_and_tokens_end_under_chaos(first: int) -> None:
    """Each decision has one line in the file of its broker; the topic has the lines in order, and
    lacks only what a dead process had in memory. No broker serves a dead token for longer than two
    seconds in which it could know."""
    reached: Counter[str] = Counter()
    found = failures(short, range(first, first + BLOCK), reached)

    assert not found, "\n\n".join(found)
    assert reached["refusals"] > 40 * BLOCK
    assert reached["token changes"] > 4 * BLOCK
    assert reached["served by tokens"] > 30 * BLOCK
    assert reached["ended sessions"] > BLOCK


def is_found(name: str, seeds: range) -> bool:
    with replaced(PLANTED[name]):
        return any(not run(seed, SHORT_S).ok for seed in seeds)


@pytest.mark.parametrize("name", sorted(PLANTED.keys() - RARE))
def test_a_planted_bug_is_found(name: str) -> None:
    """An oracle that cannot fail shows nothing."""
    assert is_found(name, range(PLANTED_SEEDS))


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_decisions_are_recorded_and_tokens_end_in_many_more_worlds(first: int) -> None:
    """Longer chaos, more seeds."""
    assert not failures(run, range(first, first + SOAK_BLOCK), Counter())


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("name", sorted(RARE))
def test_a_rare_planted_bug_is_found(name: str) -> None:
    """Where one seed in a hundred is unlucky enough."""
    assert is_found(name, range(RARE_SEEDS))
