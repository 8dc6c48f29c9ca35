"""Announced changes: a sequential znode, written in the same multi request, names the change.

Every broker reads the announcements and then the changed znodes. A watch of ZooKeeper reports only
that a change has happened, not which one.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.store import (
    BadVersion,
    ConnectionLoss,
    Create,
    GroupFailed,
    NodeExists,
    NoNode,
    StoreError,
)
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Sequence

    from ottla.coordinator.store.store import MetadataSession, Operation, WatchEvent

logger = logging.getLogger("ottla.store")

# Announcements are kept for this time, for brokers that read them late.
ANNOUNCEMENT_RETENTION_MS = 15 * 60 * 1000
# This many are read concurrently: one after the other, each would cost a round trip.
WINDOW = 100


class ChangeAnnouncement(NamedTuple):
    """An announcement that is new to this broker: its znode's path, and its content."""

    path: str
    data: bytes


class StoreFollower:
    """Reads something again after each of its changes, in one session after another.

    Args:
        subject: What is followed, for the log and for the name of the task.
        spawn: Runs a coroutine as a task.
        read: Reads it, with new watches. It may raise StoreError.
    """

    def __init__(
        self,
        subject: str,
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
        read: Callable[[MetadataSession], Awaitable[object]],
    ) -> None:
        self._subject = subject
        self._spawn = spawn
        self._read = read
        # Whether to read again: an event during a read counts, too.
        self.changed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_running(self) -> bool:
        """Whether there is a session."""
        return self._task is not None

    def on_event(self, _event: WatchEvent) -> None:
        """A watch has fired and is used up."""
        self.changed.set()

    def start(self, session: MetadataSession) -> None:
        """Follow in this session, until ``end`` or its own end."""
        assert self._task is None, "one session at a time"
        self._task = self._spawn(self._subject, self._follow(session))

    async def end(self) -> None:
        """Stop following. May be called again."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _follow(self, session: MetadataSession) -> None:
        try:
            while True:
                await self.changed.wait()
                self.changed.clear()
                await self._read(session)
        except StoreError as error:
            # The session is over or in doubt; the next one reads everything again.
            logger.info("this broker no longer follows changes of %s: %s", self._subject, error)


class AnnouncementFollower:
    """Reads the announcements below some znodes, in one session after another.

    Args:
        subject: What the announcements are about, for the log and for the name of the task.
        spawn: Runs a coroutine as a task.
        roots: The znodes that have the announcements as children.
        take: Reads again what new announcements name. It may raise StoreError.
    """

    def __init__(
        self,
        subject: str,
        spawn: Callable[[str, Coroutine[Any, Any, None]], asyncio.Task[None]],
        roots: Sequence[str],
        take: Callable[[MetadataSession, list[ChangeAnnouncement]], Awaitable[None]],
    ) -> None:
        self._take = take
        self._last_read = dict.fromkeys(roots, "")
        # Announcements that were read; removed ones are dropped.
        self._created_ms: dict[str, int] = {}
        self._follower = StoreFollower(subject, spawn, self._read)
        # Stops following. May be called again.
        self.end = self._follower.end

    async def watch(self, session: MetadataSession) -> None:
        """Set the watches. Read everything after this, and then ``start``: a change in between is
        read twice, not never (C-13). Raises StoreError."""
        assert not self._follower.is_running, "one session at a time"
        # From here on an event means that a watch is used up: it must not be lost.
        self._follower.changed.clear()
        for root in self._last_read:
            names = await session.children(root, self._follower.on_event)
            self._last_read[root] = names[-1] if names else ""

    def start(self, session: MetadataSession) -> None:
        """Follow the announcements in this session, until ``end`` or its own end."""
        self._follower.start(session)

    async def _read(self, session: MetadataSession) -> None:
        older: list[list[str]] = []
        new: list[ChangeAnnouncement] = []
        for root, last_read in list(self._last_read.items()):
            names = await session.children(root, self._follower.on_event)
            # The store numbers them in ascending order; after a removal the last one may be an
            # earlier one.
            self._last_read[root] = max(last_read, names[-1] if names else "")
            new += await self._found(
                session, [f"{root}/{name}" for name in names if name > last_read]
            )
            older.append([f"{root}/{name}" for name in names])
        # Earlier announcements do not delay new ones: a change takes effect within a second.
        await self._take(session, new)
        for paths in older:
            await self._sweep(session, paths)
        present = {path for paths in older for path in paths}
        for path in self._created_ms.keys() - present:
            del self._created_ms[path]

    async def _found(
        self, session: MetadataSession, paths: Sequence[str]
    ) -> list[ChangeAnnouncement]:
        """Return the announcements, without those that another broker has removed."""
        found: list[ChangeAnnouncement] = []
        for start in range(0, len(paths), WINDOW):
            window = paths[start : start + WINDOW]
            asked = (session.get(path) for path in window)
            nodes = await asyncio.gather(*asked, return_exceptions=True)
            for path, node in zip(window, nodes, strict=True):
                if isinstance(node, NoNode):
                    continue
                if isinstance(node, BaseException):
                    raise node
                self._created_ms[path] = node.stat.created_ms
                found.append(ChangeAnnouncement(path, node.data))
        return found

    async def _sweep(self, session: MetadataSession, paths: Sequence[str]) -> None:
        """Remove old announcements; read the times of those that an earlier process has handled."""
        await self._found(session, [path for path in paths if path not in self._created_ms])
        known = [(path, self._created_ms[path]) for path in paths if path in self._created_ms]
        await sweep_announcements(session, known)


async def ensure_znode(session: MetadataSession, path: str) -> None:
    """Create an empty znode if it is missing. Raises StoreError."""
    if await session.exists(path) is None:
        try:
            await session.create(path)
        except NodeExists:
            return


async def write_announced(
    session: MetadataSession, step: Operation, announcement: str, data: bytes
) -> bool:
    """Make one attempt at a change, together with its announcement.

    Args:
        session: The session with the store.
        step: The change, under the version of the znode that was read for it.
        announcement: The path of the sequential znode, to which the store adds a number.
        data: What the announcement names.

    Returns: False if another broker was faster, or the outcome is unknown.
    Raises: StoreError."""
    try:
        await session.multi([step, Create(announcement, data, sequential=True)])
    except GroupFailed as failed:
        if not isinstance(failed.error, NodeExists | BadVersion | NoNode):
            raise
        return False
    except ConnectionLoss:
        return False
    return True


async def sweep_announcements(
    session: MetadataSession, announcements: Sequence[tuple[str, int]]
) -> None:
    """Remove announcements that are older than the newest one by more than the retention.

    ``announcements`` are paths with their creation times in milliseconds, by the store's clock: by
    this broker's clock, which may be wrong, an announcement could go before another broker has read
    it. Raises StoreError."""
    newest_ms = max((created_ms for _path, created_ms in announcements), default=0)
    for path, created_ms in announcements:
        if created_ms < newest_ms - ANNOUNCEMENT_RETENTION_MS:
            try:
                await session.delete(path)
            except NoNode:
                continue
