"""Reads the requests that brokers and operators leave for the controller in the store.

The controller removes announcements as it reads them, under its guard. An operator's request is a
znode that the controller removes when the request is carried out.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.engine.concurrently import pipelined
from ottla.coordinator.controller.events import MovesAsked, PreferredAsked
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check, Delete, GroupFailed, NoNode
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from ottla.coordinator.store.store import MetadataSession, Watch, Znode
    from ottla.protocol.ids import TopicPartition

logger = logging.getLogger("ottla.controller")

_TAKEN_PER_GROUP = 500


@dataclass(frozen=True, slots=True)
class Announcements:
    """One controller's reader. ``guard`` checks that it is still the controller (C-02)."""

    session: MetadataSession
    watch: Watch
    guard: Check

    async def isr_changes(self) -> list[TopicPartition]:
        """Take the announcements of leaders that changed an ISR."""
        changed: dict[TopicPartition, None] = {}
        for data in await self._take(paths.ISR_CHANGES):
            changed |= dict.fromkeys(paths.parse_partition_list(data) or ())
        return list(changed)

    async def directory_failures(self) -> list[int]:
        """Take the announcements of brokers that have lost a data directory."""
        nodes = [paths.parse_log_dir_event(data) for data in await self._take(paths.LOG_DIR_EVENTS)]
        return list(dict.fromkeys(node_id for node_id in nodes if node_id is not None))

    async def _take(self, parent: str) -> list[bytes]:
        """Remove the announcements below that znode, and return their contents in order."""

        async def read(name: str) -> bytes | None:
            try:
                return (await self.session.get(f"{parent}/{name}")).data
            except NoNode:
                return None

        names = await self.session.children(parent, self.watch)
        found = await pipelined(read, names)
        left = [name for name, data in zip(names, found, strict=True) if data is not None]
        for start in range(0, len(left), _TAKEN_PER_GROUP):
            group = [Delete(f"{parent}/{name}") for name in left[start:][:_TAKEN_PER_GROUP]]
            try:
                # Guarded: a successor would not see announcements that a resigned controller
                # removed (C-02).
                await self.session.multi([self.guard, *group])
            except GroupFailed as failed:
                if failed.index == 0:
                    raise
                logger.info("announcements were removed by another client: %s", failed)
        return [data for data in found if data is not None]

    async def moves(self) -> MovesAsked:
        """The reassignments that the znode requests."""
        node = await self._request(paths.REASSIGN_PARTITIONS)
        if node is None:
            return MovesAsked(None)
        targets = paths.parse_moves(node.data)
        if targets is None:
            logger.error("%s is unreadable and dropped", paths.REASSIGN_PARTITIONS)
        return MovesAsked(targets or {}, node.stat.version)

    async def preferred_elections(self) -> PreferredAsked:
        """The partitions that a znode requests preferred leaders for."""
        node = await self._request(paths.PREFERRED_ELECTION)
        if node is None:
            return PreferredAsked(None)
        asked = paths.parse_partition_list(node.data)
        if asked is None:
            logger.error("%s is unreadable and dropped", paths.PREFERRED_ELECTION)
        return PreferredAsked(tuple(asked or ()), node.stat.version)

    async def _request(self, path: str) -> Znode | None:
        if await self.session.exists(path, self.watch) is None:
            return None
        try:
            return await self.session.get(path)
        except NoNode:
            return None
