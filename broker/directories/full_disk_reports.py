"""Telling the controller of full disks, for as long as they are full, and of room after that.

That there is room again is said for some time: a controller that begins meanwhile would not know
that the broker is owed leaderships.

The report is an ephemeral znode of the session: it vanishes with the broker and is created
again in each session. A write with an unknown outcome is repeated, which does no harm.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.coordinator.store import full_disks
from ottla.coordinator.store.full_disks import RoomReport
from ottla.coordinator.store.store import NodeExists, NoNode, StoreError

if TYPE_CHECKING:
    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.lifecycle")

LOOK_MS = 500.0
# As long as the controller gives leaderships back.
ROOM_TOLD_MS = 150_000.0
ROOM_AGAIN = RoomReport()


class FullDiskReports:
    """Owned by the server; a follower of the session (read ``lifecycle.py``)."""

    def __init__(self, node_id: int, clock: Clock) -> None:
        self._path = full_disks.path_of(node_id)
        self._clock = clock
        self._session: MetadataSession | None = None
        # What the present session's znode says; None: there is none. Unknown until it was written
        # or removed once: an earlier report may stand there.
        self._told: RoomReport | None = None
        self._is_known = False
        # Until when the broker tells that it has room again; None: no disk was full.
        self._room_told_until_ms: float | None = None

    async def begin(self, session: MetadataSession) -> None:
        """Reports go to this session from now on."""
        self._is_known = False
        self._session = session

    async def end(self) -> None:
        """Reports wait for the next session."""
        self._session = None

    async def run(self, directories: LogDirectories) -> None:
        """Until cancelled: have the store say what is so."""
        while True:
            await self.look(full_disks.report_on(directories.rooms()))
            await self._clock.sleep(LOOK_MS)

    async def look(self, report: RoomReport | None) -> None:
        """Tell what was found on the disks; None: all have room."""
        now_ms = self._clock.now_ms()
        if report is not None:
            self._room_told_until_ms = now_ms + ROOM_TOLD_MS
        elif self._room_told_until_ms is not None:
            if now_ms < self._room_told_until_ms:
                report = ROOM_AGAIN
            else:
                self._room_told_until_ms = None
        await self.tell(report)

    async def tell(self, report: RoomReport | None) -> None:
        """Write the report if it is not what was said last; without a session, later."""
        session = self._session
        if session is None or (self._is_known and report == self._told):
            return
        try:
            await self._write(session, report)
        except StoreError as error:
            logger.warning("the controller has not been told of full disks yet: %s", error)
            return
        if self._session is session:
            self._told, self._is_known = report, True

    async def _write(self, session: MetadataSession, report: RoomReport | None) -> None:
        if report is None:
            with suppress(NoNode):
                await session.delete(self._path)
            return
        data = full_disks.build(report)
        if not report.is_full and self._told is not None:
            logger.info("all disks have free space again: this broker can become leader again")
        try:
            await session.create(self._path, data, ephemeral=True)
        except NodeExists:
            await self._replace(session, data)
        else:
            if report.is_full:
                logger.warning(
                    "a disk is full: in-sync replicas with free space become leaders instead"
                )

    async def _replace(self, session: MetadataSession, data: bytes) -> None:
        """Write the report; a node of an earlier session, which vanishes with it, is replaced."""
        standing = await session.exists(self._path)
        if standing is not None and standing.ephemeral_owner == session.session_id:
            await session.set(self._path, data)
            return
        if standing is not None:
            await session.delete(self._path)
        await session.create(self._path, data, ephemeral=True)
