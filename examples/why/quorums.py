"""Quorums: a read sees the newest write for certain only if W + R > N.

    python -m examples.why.quorums [--quick]

A simulation. Each trial writes a new version to W replicas out of N, chosen at random, and then
reads R replicas, chosen at random, and takes the newest version that it finds.
"""

from __future__ import annotations

import random
import sys
from itertools import product
from math import comb
from typing import NamedTuple

from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

REPLICAS = 3
SEED = 1


class Reads(NamedTuple):
    """Of one pair W and R: how many reads missed the newest write."""

    written: int
    read: int
    trials: int
    stale: int

    @property
    def overlaps(self) -> bool:
        return self.written + self.read > REPLICAS

    @property
    def expected_share(self) -> float:
        """The share of read sets that contain no replica of the write set."""
        return comb(REPLICAS - self.written, self.read) / comb(REPLICAS, self.read)


def count_stale(written: int, read: int, trials: int, chance: random.Random) -> Reads:
    """Write and read that often."""
    versions = [0] * REPLICAS
    stale = 0
    for version in range(1, trials + 1):
        for replica in chance.sample(range(REPLICAS), written):
            versions[replica] = version
        newest = max(versions[replica] for replica in chance.sample(range(REPLICAS), read))
        stale += newest != version
    return Reads(written, read, trials, stale)


def measure(quick: bool) -> list[Reads]:
    """All pairs for three replicas."""
    chance = random.Random(SEED)
    trials = 2_000 if quick else 50_000
    sizes = range(1, REPLICAS + 1)
    return [count_stale(written, read, trials, chance) for written, read in product(sizes, sizes)]


def show(found: list[Reads]) -> Shown:
    """A row and a bar for each pair."""
    rows = [
        (
            f"W={one.written} R={one.read}",
            "W+R>N" if one.overlaps else "W+R<=N",
            f"{one.stale:,} of {one.trials:,}",
            f"{one.stale / one.trials:.1%}",
            f"{one.expected_share:.1%}",
        )
        for one in found
    ]
    bars = [
        Bar(
            f"W={one.written} R={one.read}",
            one.stale / one.trials,
            f"{one.stale / one.trials:.1%} stale",
            0 if one.overlaps else 1,
        )
        for one in found
    ]
    return Shown(
        table(["N=3", "overlap", "stale reads", "share", "computed"], rows),
        bar_chart("Reads that miss the newest write, N=3", bars),
        holds=all((one.stale == 0) == one.overlaps for one in found),
    )


if __name__ == "__main__":
    sys.exit(run("quorums", measure, show))
