"""Acknowledged and shown records survive.

After a loss of power, what was not yet on the disk may be gone, but only from the end of the log: a
log that kept a later record must have kept the earlier ones.
"""

from __future__ import annotations

from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING

from tests.simulation.history import Fate, History

if TYPE_CHECKING:
    from tests.simulation.history import Fact, Partition


def check(history: History) -> list[str]:
    """Violations in words."""
    return [
        *_trimmed(history),
        *_lost_facts(history),
        *_lost_without_offset(history),
        *_holes(history),
    ]


def _trimmed(history: History) -> list[str]:
    """Without a request to trim, no record is removed from the beginning either (hazard S-18)."""
    if history.may_trim:
        return []
    return [
        f"lost: {partition} begins at {final.start} though nobody has trimmed it"
        for partition, final in history.finals.items()
        if final.start
    ]


def _lost_facts(history: History) -> list[str]:
    finals = _finals(history)
    return [
        f"lost: {fact.witness} was told {fact.value[:24]!r} at {fact.partition} {fact.offset}, "
        f"the log has {finals[fact.partition].get(fact.offset, b'nothing')[:24]!r}"
        for fact in history.facts()
        if fact.partition in finals
        and history.binds(fact)
        and fact.offset >= history.finals[fact.partition].start
        and finals[fact.partition].get(fact.offset) != fact.value
    ]


def _lost_without_offset(history: History) -> list[str]:
    """An acknowledgement of a duplicate has no offset; the value must be in the log all the
    same."""
    present = {
        partition: {value for _, value in final.records}
        for partition, final in history.finals.items()
    }
    return [
        f"lost: {write.producer} was acknowledged {write.value[:24]!r} in {write.partition}"
        for write in history.writes
        if write.fate is Fate.ACKNOWLEDGED
        and write.offset is None
        and write.partition in present
        and history.finals[write.partition].start == 0
        and history.durable_end(write.partition, write.attempted) is None
        and write.value not in present[write.partition]
    ]


def _holes(history: History) -> list[str]:
    """Per partition and loss: the facts from before it that are still true are a prefix.

    A value counts only if it was acknowledged before the loss: otherwise it may have been lost,
    sent again and have found its old place by chance."""
    finals = _finals(history)
    settled = {
        (write.partition, write.value): write.completed
        for write in history.writes
        if write.fate is Fate.ACKNOWLEDGED
    }
    facts: dict[Partition, list[Fact]] = defaultdict(list)
    for fact in history.facts():
        if fact.partition in finals and fact.offset >= history.finals[fact.partition].start:
            facts[fact.partition].append(fact)
    found = []
    for partition, told in facts.items():
        final = finals[partition]
        bounds = [0, *(loss.order for loss in history.losses), history.order + 1]
        for low, high in pairwise(bounds):
            era = [
                fact
                for fact in told
                if low <= fact.asked and fact.answered < high
                if settled.get((partition, fact.value), high) < high
            ]
            era.sort(key=lambda fact: fact.offset)
            kept = [fact.offset for fact in era if final.get(fact.offset) == fact.value]
            gone = [fact.offset for fact in era if final.get(fact.offset) != fact.value]
            if kept and gone and gone[0] < kept[-1]:
                found.append(f"hole: {partition} lost {gone[0]} and kept {kept[-1]} of one era")
    return found


def _finals(history: History) -> dict[Partition, dict[int, bytes]]:
    return {partition: dict(final.records) for partition, final in history.finals.items()}
