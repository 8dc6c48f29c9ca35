"""Offsets are handed out without gaps, and a log ends where it says."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.history import History


def check(history: History) -> list[str]:
    """Violations in words. For logs without compaction and without transactions."""
    found = []
    for partition, final in history.finals.items():
        expected = final.start
        for offset, _ in final.records:
            if offset != expected:
                found.append(f"offsets: {partition} goes from {expected - 1} to {offset}")
            expected = offset + 1
        if expected != final.end:
            found.append(f"offsets: {partition} ends at {final.end}, its records at {expected}")
    return found
