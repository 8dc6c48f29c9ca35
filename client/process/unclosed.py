"""Warns of clients that were started and dropped without being closed, as asyncio does."""

from __future__ import annotations

import sys
import warnings


def warn_unclosed(client: object) -> None:
    """Warn from ``__del__``: unsent records, group membership and connections are abandoned. Silent
    while the interpreter exits, when clients cannot be closed any more."""
    if not sys.is_finalizing():
        warnings.warn(f"unclosed {client!r}", ResourceWarning, stacklevel=3, source=client)
