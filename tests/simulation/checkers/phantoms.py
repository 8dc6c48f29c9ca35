"""No reader gets records that were never written, were refused, or belong to another partition."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.history import Fate, Write

if TYPE_CHECKING:
    from tests.simulation.history import History, Partition


def check(history: History) -> list[str]:
    """Violations in words."""
    writes = {write.value: write for write in history.writes}
    found = [
        _judge(writes.get(read.value), read.partition, read.value, read.reader)
        for read in history.reads
    ]
    found += [
        _judge(writes.get(value), partition, value, "the final log")
        for partition, final in history.finals.items()
        for _, value in final.records
    ]
    return [violation for violation in found if violation]


def _judge(write: Write | None, partition: Partition, value: bytes, where: str) -> str:
    if write is None:
        return f"phantom: {where} of {partition} shows {value[:24]!r}, which nobody wrote"
    if write.partition != partition:
        return f"phantom: {where} of {partition} shows {value[:24]!r} of {write.partition}"
    if write.fate is Fate.FAILED:
        return f"phantom: {where} of {partition} shows {value[:24]!r}, which was refused"
    return ""
