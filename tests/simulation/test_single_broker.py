"""The whole broker under seeded chaos: kills, power cuts, failing disks, bad networks, bad clocks.

200 seeds, a thousand in the soak; each prints the command that replays it when it fails.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter

import pytest

from tests.simulation.single_broker import run
from tests.simulation.subject import build_broker

SEEDS = 200
SOAK_SEEDS = 1_000
BLOCK = 10
SOAK_BLOCK = 50


@pytest.mark.parametrize("first", range(0, SEEDS, BLOCK))
def test_nothing_promised_is_lost_under_chaos(first: int) -> None:
    """Records, order, offsets, watermarks and answers survive; afterwards everything drains."""
    reached: Counter[str] = Counter()
    failed = []
    for seed in range(first, first + BLOCK):
        outcome = run(seed, build_broker)
        reached.update(outcome.counts)
        if not outcome.ok:
            failed.append(outcome.describe())

    assert not failed, "\n\n".join(failed)
    # Chaos that reaches nothing proves nothing.
    assert reached["acknowledged"] > 300
    assert reached["starts"] > BLOCK


@pytest.mark.soak
@pytest.mark.timeout(0)
@pytest.mark.parametrize("first", range(SEEDS, SOAK_SEEDS, SOAK_BLOCK))
def test_nothing_promised_is_lost_in_many_more_worlds(first: int) -> None:
    """Many more seeds, for failures that one seed in a hundred finds."""
    outcomes = [run(seed, build_broker) for seed in range(first, first + SOAK_BLOCK)]
    assert not [outcome.describe() for outcome in outcomes if not outcome.ok]


def test_a_seed_is_one_history_of_the_real_broker_in_any_process() -> None:
    """Order of sets and hashes in the broker must not reach the wire or the disk (hazard P-12)."""
    code = (
        "from tests.simulation.single_broker import run\n"
        "from tests.simulation.subject import build_broker\n"
        "for seed in (1, 8, 9): print(run(seed, build_broker, 2.0).digest)"
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
    assert len(set(answers[0])) == 3
