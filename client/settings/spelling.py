"""Suggests the known name that is most similar to a mistyped one."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

# Less similar names have little more than letters in common.
LIKENESS_MIN = 0.6


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The most similar known name; None if none is similar."""
    found = get_close_matches(name, list(known), 1, LIKENESS_MIN)
    return found[0] if found else None


def suggestion(name: str, known: Iterable[str]) -> str:
    """The end of an error text about an unknown name; may be empty."""
    meant = nearest(name, known)
    return "" if meant is None else f"; did you mean {meant!r}?"


def one_of(setting: str, value: object, known: Iterable[str]) -> None:
    """Raise ValueError, naming the choices, for any other value; TypeError unless it is a text."""
    choices = list(known)
    if not isinstance(value, str):
        names = ", ".join(map(repr, choices))
        raise TypeError(f"{setting} is one of {names}, not {value!r}")
    if value not in choices:
        names = ", ".join(map(repr, choices))
        raise ValueError(f"{setting} is one of {names}, not {value!r}{suggestion(value, choices)}")
