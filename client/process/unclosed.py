"""Tells of clients that were started and dropped without being closed, as asyncio does."""

from __future__ import annotations

import sys
import warnings


def warn_unclosed(client: object) -> None:
    """For ``__del__``: what it had in memory, its place in a group and its connections are left to
    chance. Says nothing when the interpreter ends: whoever ends with it closes nothing."""
    if not sys.is_finalizing():
        warnings.warn(f"unclosed {client!r}", ResourceWarning, stacklevel=3, source=client)
