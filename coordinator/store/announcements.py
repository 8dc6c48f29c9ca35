"""Changes that are announced: a sequential znode, written in one group with the change, names it.

Every broker reads the announcements and then what they name. ZooKeeper tells a watch that something
has changed, and not what.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.store import (
    BadVersion,
    ConnectionLoss,
    Create,
    GroupFailed,
    NodeExists,
    NoNode,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.store.store import MetadataSession, Operation

# Announcements are kept that long, for brokers that are slow to read them.
ANNOUNCEMENT_RETENTION_MS = 15 * 60 * 1000


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
    """Remove those that are older than the newest by more than the retention.

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
