"""Lets large answers arrive while the application is busy and the event loop does not run.

The kernel delays acknowledgements to a busy reader, by up to forty milliseconds, and a broker with
a small send buffer (Kafka's default is 100 KiB) stops until then: it would send while we read, and
wait while the application works. Up to SO_RCVLOWAT bytes the kernel acknowledges at once. The
option is set only while the event loop does not run: a reader that really waited for that many
bytes could wait for ever, since the window may hold less.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Socket

# Smaller answers fit the sender's buffer.
LARGE_BYTES_MIN = 128 * 1024
AHEAD_BYTES_MAX = 8 * 1024 * 1024


class AnswerBuffer:
    """Sets the option on one connection's socket. Owned by the connection."""

    __slots__ = ("_await_bytes", "_is_ahead")

    def __init__(self, socket: Socket) -> None:
        # Optional: not every net has it, and only speed depends on it.
        self._await_bytes: Callable[[int], None] | None = getattr(socket, "await_bytes", None)
        self._is_ahead = False

    def ahead(self, size_bytes: int) -> None:
        """Set the option until the event loop runs again; about ``size_bytes`` are expected."""
        if self._await_bytes is None or self._is_ahead or size_bytes < LARGE_BYTES_MIN:
            return
        self._is_ahead = True
        self._await_bytes(min(size_bytes, AHEAD_BYTES_MAX))
        asyncio.get_running_loop().call_soon(self._back)

    def _back(self) -> None:
        assert self._await_bytes is not None
        self._is_ahead = False
        self._await_bytes(0)
