"""Storages of a group's offsets: ZooKeeper, Kafka, or both while a group is migrated."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.records.committed import Committed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.member import OffsetStorage
    from ottla.client.group.administration import GroupAdmin


class KafkaOffsets:
    """The offsets stored by the group's coordinator."""

    def __init__(self, groups: GroupAdmin, group: str) -> None:
        self._groups = groups
        self._group = group

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]:
        """Return the committed offset of each partition that has one. Raises ClientError."""
        by_where = {slot.where: slot for slot in slots}
        if not by_where:
            return {}
        found = await self._groups.offsets(self._group, list(by_where))
        return {by_where[where]: one.offset for where, one in found.items() if one.offset >= 0}

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None:
        """Commit the offsets. Raises ClientError for the first refused partition."""
        positions = {slot.where: Committed(offset) for slot, offset in offsets.items()}
        results = await self._groups.commit(self._group, positions)
        for refused in results.values():
            if refused is not None:
                raise refused


class DualOffsets:
    """Both storages: commits go to each, and the greater offset is used.

    During the migration some members know only one storage. An offset that such a member committed
    last is the greater one, because offsets never decrease."""

    def __init__(self, first: OffsetStorage, second: OffsetStorage) -> None:
        self._storages = (first, second)

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]:
        """Return the greater offset of each partition."""
        wanted = list(slots)
        found: dict[RegistrySlot, int] = {}
        for storage in self._storages:
            for slot, offset in (await storage.fetch(wanted)).items():
                found[slot] = max(offset, found.get(slot, offset))
        return found

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None:
        """Commit to both storages. If the first one fails, raise its error and skip the second."""
        for storage in self._storages:
            await storage.commit(offsets)
