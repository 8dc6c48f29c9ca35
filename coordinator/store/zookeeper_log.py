"""What the log may show of the requests and answers of kazoo: their kinds and paths, no content.

kazoo writes each request to the log of its connection if that is at DEBUG, and a login is one of
them. Data of znodes are credentials of users, too.
"""

from __future__ import annotations

import logging
from typing import Any

_HIDDEN_FIELDS = frozenset({"auth", "passwd"})
_STARS = "***"


class WithoutContent(logging.Filter):
    """Of a logger that is given to kazoo: hides passwords and the data of znodes."""

    def filter(self, record: logging.LogRecord) -> bool:
        """Every record passes."""
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
