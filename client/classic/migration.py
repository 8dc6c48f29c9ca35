"""Moves the offsets of a group without members between ZooKeeper and Kafka."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.classic.registry import layout
from ottla.client.classic.registry.layout import RegistryLayout, RegistrySlot, slots_of
from ottla.client.classic.registry.registry import GroupRegistry
from ottla.coordinator.store.paths import parse_topic, topic
from ottla.coordinator.store.store import NoNode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.store.store import MetadataSession
    from ottla.protocol.ids import TopicPartition


class StoredOffsets(NamedTuple):
    """A partition's committed offset in both storages; None if a storage has none."""

    where: TopicPartition
    in_zookeeper: int | None
    in_kafka: int | None

    @property
    def newest(self) -> int:
        """The greater offset: offsets never decrease, so the other one is outdated."""
        return max(one for one in (self.in_zookeeper, self.in_kafka) if one is not None)

    @property
    def is_same(self) -> bool:
        return self.in_zookeeper == self.in_kafka


def compared(
    in_zookeeper: Mapping[TopicPartition, int], in_kafka: Mapping[TopicPartition, int]
) -> list[StoredOffsets]:
    """Return the offsets of both storages by partition."""
    return [
        StoredOffsets(where, in_zookeeper.get(where), in_kafka.get(where))
        for where in sorted({*in_zookeeper, *in_kafka})
    ]


class ZooKeeperGroup:
    """The znodes of one group, for a tool that is not a member."""

    def __init__(self, session: MetadataSession, group: str) -> None:
        self._session = session
        self._group = group
        self._registry = GroupRegistry(session, group, "")

    async def members(self) -> list[str]:
        """Return the live members."""
        return await self._children(layout.ids(self._group))

    async def offsets(self) -> dict[TopicPartition, int]:
        """Return all committed offsets; for partitions stored under both names the greater one."""
        found: dict[TopicPartition, int] = {}
        for name in await self._children(layout.offsets(self._group)):
            slots = await self._slots(name)
            for slot, offset in (await self._registry.fetch(slots)).items():
                found[slot.where] = max(offset, found.get(slot.where, offset))
        return found

    async def write(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Store offsets under the names of 0.8."""
        await self._registry.commit(
            {
                RegistrySlot(where.topic, str(where.partition), where.partition): offset
                for where, offset in offsets.items()
            }
        )

    async def _slots(self, name: str) -> list[RegistrySlot]:
        """Return the partitions with an offset, by their names in both layouts."""
        stored = set(await self._children(f"{layout.offsets(self._group)}/{name}"))
        try:
            payload = parse_topic((await self._session.get(topic(name))).data)
        except NoNode:
            payload = None
        replicas = {} if payload is None else payload.partitions
        known = [slot for form in RegistryLayout for slot in slots_of(name, replicas, form)]
        return [slot for slot in known if slot.name in stored]

    async def _children(self, path: str) -> list[str]:
        try:
            return await self._session.children(path)
        except NoNode:
            return []
