"""Runs many seeds of one simulation, and one seed in processes with different hash seeds."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections import Counter
    from collections.abc import Callable, Iterable

    from tests.simulation.world.world import Outcome

HASH_SEEDS = ("1", "77")


def failures(
    run: Callable[[int], Outcome], seeds: Iterable[int], reached: Counter[str]
) -> list[str]:
    """Run the seeds, add what they have reached, and return what the failed ones tell."""
    found = []
    for seed in seeds:
        outcome = run(seed)
        reached.update(outcome.counts)
        if not outcome.ok:
            found.append(outcome.describe())
    return found


def printed_in_two_processes(code: str) -> tuple[list[bytes], list[bytes]]:
    """Return the words that the code prints in two processes, whose sets have different orders."""
    first, second = (
        subprocess.check_output(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            stderr=subprocess.DEVNULL,
        ).split()
        for hash_seed in HASH_SEEDS
    )
    return first, second
