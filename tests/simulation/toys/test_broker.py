"""The simulator is tried on a toy before it judges the real broker.

Its strength is measured by the old bugs it finds, and its fairness by what it lets pass.
"""

from __future__ import annotations

import pytest

from tests.simulation.seeds import printed_in_two_processes
from tests.simulation.single_broker import run
from tests.simulation.subject import build_toy, build_toy_with
from tests.simulation.toys.broker import BUGS

SEEDS_MAX = 60


@pytest.mark.parametrize("seed", range(12))
def test_a_correct_broker_passes_under_chaos(seed: int) -> None:
    """Every violation reported against it would be the simulator's own mistake."""
    outcome = run(seed, build_toy, chaos_s=3.0)

    assert outcome.ok, outcome.describe()
    assert outcome.counts["acknowledged"] > 0


@pytest.mark.parametrize("bug", BUGS)
def test_every_planted_bug_is_found(bug: str) -> None:
    """A simulator that does not find the bugs of the past will not find the next one."""
    build = build_toy_with(bug)

    assert any(not run(seed, build, chaos_s=4.0).ok for seed in range(SEEDS_MAX)), bug


def test_a_seed_is_one_history_in_any_process() -> None:
    """Same seed, other process, other hash seed: the same digest; other seed: another."""
    code = (
        "from tests.simulation.single_broker import run\n"
        "from tests.simulation.subject import build_toy\n"
        "for seed in (3, 4): print(run(seed, build_toy, 2.0).digest)"
    )
    first, second = printed_in_two_processes(code)

    assert first == second
    assert first[0] != first[1]
