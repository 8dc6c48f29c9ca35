"""Coalesces writes: callers that arrive during a write share the next one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.tasks import to_its_end

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine


class CoalescedSave:
    """Runs ``save`` at least once after each call; a thousand calls cost two or three runs."""

    def __init__(self, save: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._save = save
        self._lock = asyncio.Lock()
        self._asked = 0
        self._done = 0

    async def __call__(self) -> None:
        """Return when a run that began after this call has succeeded. Raises its errors."""
        self._asked += 1
        mine = self._asked
        async with self._lock:
            if self._done >= mine:
                return
            covered = self._asked
            await to_its_end(self._save())
            self._done = covered
