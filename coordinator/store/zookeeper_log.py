"""Limits what kazoo's log shows of requests and answers: kinds and paths, no content.

At DEBUG kazoo logs each request of its connection, and a login is one of them. Data of znodes
contain credentials of users, too.
"""

from __future__ import annotations

import logging
from typing import Any

_HIDDEN_FIELDS = frozenset({"auth", "passwd"})
_STARS = "***"


class WithoutContent(logging.Filter):
    """A log filter for kazoo: hides passwords and the data of znodes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Let every record pass, without content."""
        if isinstance(record.args, tuple):
            record.args = tuple(map(_shown, record.args))
        return True


def _shown(value: Any) -> Any:
    if isinstance(value, bytes | bytearray | memoryview):
        return f"<{len(value)} bytes>"
    fields = getattr(value, "_fields", None)
    if fields is not None:
        shown = [
            _STARS if name in _HIDDEN_FIELDS else _shown(one)
            for name, one in zip(fields, value, strict=True)
        ]
        return value._make(shown)
    if isinstance(value, list | tuple):
        return type(value)(map(_shown, value))
    return value
