"""Binds a client to its event loop."""

from __future__ import annotations

import asyncio


class OwningLoop:
    """The loop of the first call of ``check``."""

    __slots__ = ("_loop",)

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def check(self) -> None:
        """Raise RuntimeError in any other loop, where a call would wait for ever."""
        loop = asyncio.get_running_loop()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            state = "has been closed" if self._loop.is_closed() else "is another one"
            raise RuntimeError(
                "a client is used and closed in the event loop that it was started in, which "
                f"{state}: make a client in each loop"
            )
