"""Telling the controller that one of this broker's data directories has failed (KIP-112).

The announcement does not say which one: the controller repeats the roles of all replicas here, and
each that cannot be served any more is refused. So it does no harm to announce a failure twice,
and a write with an unknown outcome is simply repeated.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.coordinator.store import paths
from ottla.coordinator.store.store import StoreError

if TYPE_CHECKING:
    from ottla.broker.engine.tasks import Tasks
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.lifecycle")

_RETRY_MS = 500


class DirectoryFailures:
    """Owned by the server; a follower of the session (read ``lifecycle.py``)."""

    def __init__(self, node_id: int, clock: Clock, tasks: Tasks) -> None:
        self._node_id = node_id
        self._clock = clock
        self._tasks = tasks
        self._session: MetadataSession | None = None
        self._has_session = asyncio.Event()
        self._untold_count = 0
        self._teller: asyncio.Task[None] | None = None

    async def begin(self, session: MetadataSession) -> None:
        """Announcements go to this session from now on."""
        self._session = session
        self._has_session.set()

    async def end(self) -> None:
        """Announcements wait for the next session."""
        self._session = None
        self._has_session.clear()

    def on_failure(self, _path: str) -> None:
        """Announce it as soon as there is a session. Never waits, never raises."""
        self._untold_count += 1
        if self._teller is None or self._teller.done():
            self._teller = self._tasks.spawn("directory failures", self._tell())

    async def _tell(self) -> None:
        data = paths.build_log_dir_event(self._node_id)
        while self._untold_count:
            await self._has_session.wait()
            session, count = self._session, self._untold_count
            if session is None:
                # It ended between the event and this task's turn.
                continue
            try:
                await session.create(paths.LOG_DIR_EVENT_PREFIX, data, sequential=True)
            except StoreError as error:
                logger.warning(
                    "the controller has not been told of a failed directory yet: %s", error
                )
                await self._clock.sleep(_RETRY_MS)
            else:
                self._untold_count -= count
