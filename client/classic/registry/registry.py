"""The registry of one group in the metadata store, used through a member's session.

After ``ConnectionLoss`` a write may or may not have been applied. ``claim`` and ``release`` check
the owner of each znode, so that a retry is safe.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from ottla.client.classic.registry import layout as paths
from ottla.client.classic.registry import subscription
from ottla.client.classic.registry.division import GroupImage
from ottla.client.classic.registry.layout import RegistryLayout, RegistrySlot, slots_of
from ottla.coordinator.store.paths import BROKER_IDS, TOPICS, parse_topic, topic
from ottla.coordinator.store.store import (
    Create,
    GroupFailed,
    NodeExists,
    NoNode,
    Operation,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.classic.registry.subscription import TopicCount
    from ottla.coordinator.store.store import MetadataSession, Watch

# A multi request must stay below the largest request that ZooKeeper's servers accept.
CLAIMS_PER_REQUEST = 500


class GroupRegistry:
    """Lives as long as the session."""

    def __init__(
        self,
        session: MetadataSession,
        group: str,
        consumer_id: str,
        layout: RegistryLayout = RegistryLayout.V08,
    ) -> None:
        self.session = session
        self.group = group
        self.consumer_id = consumer_id
        self.layout = layout
        # Owner znodes that exist, or whose creation got no answer.
        self._claimed: set[RegistrySlot] = set()

    async def register(self, count: TopicCount, wall_ms: int) -> None:
        """Step 1: create the member's own znode. Raises NodeExists for a name that is in use."""
        await make_parents(self.session, paths.member(self.group, self.consumer_id))
        data = subscription.build(count, self.layout, wall_ms)
        path = paths.member(self.group, self.consumer_id)
        try:
            await self.session.create(path, data, ephemeral=True)
        except NodeExists:
            stat = await self.session.exists(path)
            if stat is None or stat.ephemeral_owner != self.session.session_id:
                raise

    async def look(self, own: TopicCount, watch: Watch) -> GroupImage:
        """Steps 2 to 4: read members, brokers and topics; ``watch`` fires when any of them changes.

        Only members with a filter watch the list of topics."""
        await self.session.sync()
        members = await self._members(watch)
        await self._children(BROKER_IDS, watch)
        topics = await self._children(TOPICS, None if own.filter is None else watch)
        consumed = sorted(own.streams_of(topics))
        slots = await asyncio.gather(*(self._slots(name, watch) for name in consumed))
        return GroupImage(members, topics, dict(zip(consumed, slots, strict=True)))

    async def _members(self, watch: Watch) -> dict[str, TopicCount]:
        found: dict[str, TopicCount] = {}
        for consumer_id in await self._children(paths.ids(self.group), watch):
            try:
                data = (await self.session.get(paths.member(self.group, consumer_id))).data
            except NoNode:
                continue
            count = subscription.parse(data)
            if count is not None:
                found[consumer_id] = count
        return found

    async def _slots(self, name: str, watch: Watch) -> tuple[RegistrySlot, ...]:
        # The watch also fires when a missing topic is created.
        if await self.session.exists(topic(name), watch) is None:
            return ()
        try:
            payload = parse_topic((await self.session.get(topic(name))).data)
        except NoNode:
            return ()
        return () if payload is None else slots_of(name, payload.partitions, self.layout)

    async def _children(self, path: str, watch: Watch | None) -> list[str]:
        try:
            return await self.session.children(path, watch)
        except NoNode:
            return []

    async def claim(self, owned: Mapping[RegistrySlot, str], watch: Watch) -> bool:
        """Create the owner znodes of a share.

        Returns False if another member still owns one; then the created ones are removed, and
        ``watch`` fires when that member releases its znode."""
        for name in sorted({slot.topic for slot in owned}):
            await make_parents(self.session, paths.owner(self.group, RegistrySlot(name, "x", -1)))
        wanted = sorted(owned)
        for first in range(0, len(wanted), CLAIMS_PER_REQUEST):
            part = wanted[first : first + CLAIMS_PER_REQUEST]
            self._claimed.update(part)
            operations: list[Operation] = [
                Create(paths.owner(self.group, slot), owned[slot].encode(), ephemeral=True)
                for slot in part
            ]
            try:
                await self.session.multi(operations)
            except GroupFailed as refused:
                self._claimed.difference_update(part)
                await self.release()
                await self.session.exists(operations[refused.index].path, watch)
                return False
        return True

    async def release(self) -> None:
        """Delete the owner znodes of this session."""
        for slot in sorted(self._claimed):
            path = paths.owner(self.group, slot)
            stat = await self.session.exists(path)
            if stat is not None and stat.ephemeral_owner == self.session.session_id:
                with suppress(NoNode):
                    await self.session.delete(path)
            self._claimed.discard(slot)

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]:
        """The committed offset of each partition that has one."""
        found: dict[RegistrySlot, int] = {}
        for slot in slots:
            try:
                data = (await self.session.get(paths.offset(self.group, slot))).data
            except NoNode:
                continue
            offset = paths.parse_offset(data)
            if offset is not None:
                found[slot] = offset
        return found

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None:
        """Write the offset of the next record of each partition."""
        for slot, offset in sorted(offsets.items()):
            path, data = paths.offset(self.group, slot), str(offset).encode()
            try:
                await self.session.set(path, data)
            except NoNode:
                await make_parents(self.session, path)
                try:
                    await self.session.create(path, data)
                except NodeExists:
                    await self.session.set(path, data)


async def make_parents(session: MetadataSession, path: str) -> None:
    """Create the persistent znodes above a path that are missing."""
    parent = path.rpartition("/")[0]
    if not parent or await session.exists(parent) is not None:
        return
    await make_parents(session, parent)
    try:
        await session.create(parent)
    except NodeExists:
        return
