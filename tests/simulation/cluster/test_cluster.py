"""A few seeds of the whole cluster in every run of the suite; thousands in the soak.

``python -m tests.simulation --cluster SEED`` replays one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.cluster.scenario import run

SEEDS = 12
SOAK_SEEDS = 3_000
BLOCK = 4
SOAK_BLOCK = 100
# Of chaos, where the seed's own choice would be more.
SHORT_S = 8.0


def failures(seeds: range, reached: Counter[str], chaos_s: float | None = None) -> list[str]:
    found = []
    for seed in seeds:
        outcome = run(seed, chaos_s)
        reached.update(outcome.counts)
        if not outcome.ok:
            found.append(outcome.describe())
    return found


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_a_cluster_keeps_its_promises_under_chaos(first: int) -> None:
    """No acknowledged record is lost, doubled or reordered, and all works again when it is calm."""
    reached: Counter[str] = Counter()
    found = failures(range(first, first + BLOCK), reached, SHORT_S)

    assert not found, "\n\n".join(found)
    # Chaos that reaches nothing proves nothing.
    assert reached["acknowledged"] > 50 * BLOCK
    assert reached["controllers"] > BLOCK
    assert reached["shrinkings"] > BLOCK


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_a_cluster_keeps_its_promises_in_many_more_worlds(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    assert not failures(range(first, first + SOAK_BLOCK), Counter())


def test_a_seed_is_one_history_of_a_cluster_in_any_process() -> None:
    """Order of sets and hashes in no broker must reach the wire, the store or a disk (P-12)."""
    code = (
        "from tests.simulation.cluster.scenario import run\n"
        "for seed in (2, 8): print(run(seed, 3.0).digest)"
    )
    answers = [
        subprocess.check_output(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stderr=subprocess.DEVNULL,
        ).split()
        for hash_seed in ("1", "77")
    ]

    assert answers[0] == answers[1]
    assert len(set(answers[0])) == 2
