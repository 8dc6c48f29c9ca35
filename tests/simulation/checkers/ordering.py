"""The log has a producer's records in the order it sent them, and respects real time.

Real time: a record sent after another was acknowledged has a higher offset. The check needs no
reader, and finds leaders that acknowledge what they have no right to.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.history import Fate, Write, fact_of

if TYPE_CHECKING:
    from tests.simulation.history import History, Partition


def check(history: History) -> list[str]:
    """Violations in words."""
    return [*_sent_order(history), *_real_time_order(history)]


def _sent_order(history: History) -> list[str]:
    writes = {write.value: write for write in history.writes}
    found = []
    for partition, final in history.finals.items():
        last: dict[str, int] = {}
        for offset, value in final.records:
            write = writes.get(value)
            if write is None or not (write.idempotent or write.fate is Fate.ACKNOWLEDGED):
                # Without sequence numbers a request that timed out may come in late.
                continue
            if write.number <= last.get(write.producer, -1):
                found.append(
                    f"order: {write.producer} sent {write.number} before "
                    f"{last[write.producer]}, the log of {partition} has it at {offset} behind it"
                )
            last[write.producer] = max(write.number, last.get(write.producer, -1))
    return found


def _real_time_order(history: History) -> list[str]:
    by_partition: dict[Partition, list[Write]] = defaultdict(list)
    for write in history.writes:
        has_offset = write.fate is Fate.ACKNOWLEDGED and write.offset is not None
        if has_offset and history.binds(fact_of(write)):
            by_partition[write.partition].append(write)
    return [violation for writes in by_partition.values() for violation in _inversions(writes)]


def _inversions(writes: list[Write]) -> list[str]:
    """Sweep over time: the highest offset acknowledged so far bounds every later invocation."""
    events = [(write.invoked, 0, write) for write in writes]
    events += [(write.completed, 1, write) for write in writes]
    events.sort(key=lambda event: event[:2])
    bound: dict[int, int] = {}
    highest = -1
    found = []
    for _, kind, write in events:
        assert write.offset is not None
        if kind == 0:
            bound[id(write)] = highest
            continue
        highest = max(highest, write.offset)
        if write.offset <= bound[id(write)]:
            found.append(
                f"order: {write.value[:24]!r} was sent after offset {bound[id(write)]} of "
                f"{write.partition} was acknowledged, yet got {write.offset}"
            )
    return found
