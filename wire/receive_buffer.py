"""What the kernel takes in while nobody reads, so that large answers arrive while others work.

For a reader that is busy a kernel puts off what it acknowledges, up to forty milliseconds, and a
broker that sends with a small buffer (Kafka's default is 100 KiB) stops until then: it would send
while we read, and wait while the application works. What a reader has declared to wait for is
acknowledged at once (SO_RCVLOWAT). It is declared only for as long as the event loop does not run:
whoever really waited for that much might wait for ever, since less than it may fit the window.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Socket

# Smaller answers fit the buffer of the one who sends.
LARGE_BYTES_MIN = 128 * 1024
AHEAD_BYTES_MAX = 8 * 1024 * 1024


class AnswerBuffer:
    """Owned by one connection."""

    __slots__ = ("_await_bytes", "_is_ahead")

    def __init__(self, socket: Socket) -> None:
        # Not every net has it, and nothing but speed depends on it.
        self._await_bytes: Callable[[int], None] | None = getattr(socket, "await_bytes", None)
        self._is_ahead = False

    def ahead(self, size_bytes: int) -> None:
        """About so much is to come, and until the event loop runs again nobody will read it."""
        if self._await_bytes is None or self._is_ahead or size_bytes < LARGE_BYTES_MIN:
            return
        self._is_ahead = True
        self._await_bytes(min(size_bytes, AHEAD_BYTES_MAX))
        asyncio.get_running_loop().call_soon(self._back)

    def _back(self) -> None:
        assert self._await_bytes is not None
        self._is_ahead = False
        self._await_bytes(0)
