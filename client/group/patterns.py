"""Topics by pattern: what a compiled expression matches, and how a broker is told of it. Pure."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# What RE2 means by the same as Python, for names made of ASCII letters, digits, dots and dashes.
FLAGS_IN_RE2 = re.IGNORECASE | re.UNICODE | re.ASCII


def matching(pattern: re.Pattern[str], names: Iterable[str]) -> tuple[str, ...]:
    """The names that begin with a match, as ``pattern.match`` decides."""
    return tuple(sorted(name for name in names if pattern.match(name)))


def re2_of(pattern: re.Pattern[str]) -> str | None:
    """An expression that matches the same topics where it has to match the whole name (KIP-848).

    None where that cannot be said. What only Python understands is for the broker to refuse."""
    if pattern.flags & ~FLAGS_IN_RE2:
        return None
    ignoring_case = "i" if pattern.flags & re.IGNORECASE else ""
    return f"(?{ignoring_case}:{pattern.pattern}).*"
