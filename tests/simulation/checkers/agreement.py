"""One offset, one value: for every producer and consumer, at any time.

Two witnesses may differ only when a loss of power lies between them and took that offset.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.history import Fact, History, Partition


def check(history: History) -> list[str]:
    """Violations in words."""
    told: dict[tuple[Partition, int], list[Fact]] = defaultdict(list)
    for fact in history.facts():
        told[fact.partition, fact.offset].append(fact)
    found = []
    for (partition, offset), facts in told.items():
        if all(fact.value == facts[0].value for fact in facts):
            continue
        facts.sort(key=lambda fact: fact.answered)
        for earlier, later in pairwise(facts):
            if earlier.value == later.value or _was_lost_between(history, earlier, later):
                continue
            found.append(
                f"two values at {partition} {offset}: {earlier.witness} was told "
                f"{earlier.value[:24]!r}, then {later.witness} {later.value[:24]!r}"
            )
    return found


def _was_lost_between(history: History, earlier: Fact, later: Fact) -> bool:
    asked = min(earlier.asked, later.asked)
    return any(
        asked < loss.order < later.answered
        and loss.durable_ends.get(earlier.partition, 0) <= earlier.offset
        for loss in history.losses
    )
