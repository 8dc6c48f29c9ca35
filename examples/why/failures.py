"""Replicas: a majority needs 2f+1 of them to tolerate f failures, an ISR needs f+1.

    python -m examples.why.failures [--quick]

Nothing is taken from a formula. For each number of replicas the program goes through every set of
replicas that may have acknowledged a record, and every set that may then fail, and asks whether the
rest still knows the record and may go on.
"""

from __future__ import annotations

import sys
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Replicas = frozenset[int]


class Need(NamedTuple):
    """How many replicas tolerate so many failures."""

    failures: int
    by_majority: int
    by_isr: int


def sets_of(replicas: int, size: int) -> Iterator[Replicas]:
    """Every set of so many replicas."""
    return map(frozenset, combinations(range(replicas), size))


def majority_survives(replicas: int, failures: int) -> bool:
    """A record is acknowledged by a majority, and a leader is elected by a majority.

    After every failure a majority must be alive, and each majority that may elect must have a
    member with the record."""
    quorum = replicas // 2 + 1
    everyone = frozenset(range(replicas))
    for failed in sets_of(replicas, failures):
        alive = everyone - failed
        if len(alive) < quorum:
            return False
        for acknowledged in sets_of(replicas, quorum):
            if any(not acknowledged & set(voters) for voters in combinations(alive, quorum)):
                return False
    return True


def isr_survives(replicas: int, failures: int) -> bool:
    """A record is acknowledged by all in-sync replicas, and any of these may lead.

    Which replicas are in sync is known from outside of them: the metadata store keeps it."""
    everyone = acknowledged = frozenset(range(replicas))
    return all((everyone - failed) & acknowledged for failed in sets_of(replicas, failures))


def least(survives: Callable[[int, int], bool], failures: int) -> int:
    """The smallest number of replicas that survives every set of so many failures."""
    tried = range(failures, 3 * failures + 2)
    return next(replicas for replicas in tried if survives(replicas, failures))


def measure(quick: bool) -> list[Need]:
    """From no failure to three, or to four."""
    return [
        Need(failures, least(majority_survives, failures), least(isr_survives, failures))
        for failures in range(4 if quick else 5)
    ]


def show(needs: list[Need]) -> Shown:
    """A row for each number of failures, and a pair of bars."""
    rows = [(one.failures, one.by_majority, one.by_isr) for one in needs]
    bars = []
    for one in needs[1:]:
        name = f"{one.failures} failure{'s' * (one.failures > 1)}"
        bars.append(Bar(f"{name}, majority", one.by_majority, f"{one.by_majority} replicas", 1))
        bars.append(Bar(f"{name}, ISR", one.by_isr, f"{one.by_isr} replicas", 0))
    return Shown(
        table(["failures tolerated", "by majority", "by ISR"], rows),
        bar_chart("Replicas that are needed", bars),
        holds=all(
            (one.by_majority, one.by_isr) == (2 * one.failures + 1, one.failures + 1)
            for one in needs
        ),
    )


if __name__ == "__main__":
    sys.exit(run("failures", measure, show))
