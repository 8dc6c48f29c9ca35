"""Idempotent producers write each value once, however often they had to send it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.history import History


def check(history: History) -> list[str]:
    """Violations in words. Values are unique, and a value has one partition."""
    found = []
    seen: dict[bytes, tuple[object, int]] = {}
    for partition, final in history.finals.items():
        for offset, value in final.records:
            if value in seen:
                found.append(f"duplicate: {value[:24]!r} at {seen[value]} and {partition} {offset}")
            seen[value] = (partition, offset)
    return found
