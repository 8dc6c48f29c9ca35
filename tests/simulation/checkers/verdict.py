"""All checkers on one history."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.simulation.checkers import (
    agreement,
    duplicates,
    liveness,
    offsets,
    ordering,
    phantoms,
    replies,
    survival,
    watermarks,
)

if TYPE_CHECKING:
    from tests.simulation.history import History

FAMILIES = (
    liveness,
    survival,
    agreement,
    duplicates,
    phantoms,
    ordering,
    offsets,
    watermarks,
    replies,
)


def judge(history: History) -> list[str]:
    """Every violation that any family finds, and what clients could not make sense of."""
    found = [f"surprise: {surprise}" for surprise in history.surprises]
    for family in FAMILIES:
        found += family.check(history)
    return found
