"""Matches topics by pattern, and translates patterns for brokers. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Flags with the same meaning in RE2, for names of ASCII letters, digits, dots and dashes.
FLAGS_IN_RE2 = re.IGNORECASE | re.UNICODE | re.ASCII


def matching(pattern: re.Pattern[str], names: Iterable[str]) -> tuple[str, ...]:
    """Return the names that begin with a match, as ``pattern.match`` decides."""
    return tuple(sorted(name for name in names if pattern.match(name)))


def re2_of(pattern: re.Pattern[str]) -> str | None:
    """Return an RE2 expression that matches the same topics by their whole names (KIP-848).

    None if there is none. The broker refuses syntax that only Python knows."""
    if pattern.flags & ~FLAGS_IN_RE2:
        return None
    ignoring_case = "i" if pattern.flags & re.IGNORECASE else ""
    return f"(?{ignoring_case}:{pattern.pattern}).*"
