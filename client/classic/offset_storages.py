"""Where a group's offsets are: in ZooKeeper, in Kafka, or in both while a group is moved."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.records.committed import Committed

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.member import OffsetStorage
    from ottla.client.group.administration import GroupAdmin


class KafkaOffsets:
    """The offsets that the group's coordinator keeps."""

    def __init__(self, groups: GroupAdmin, group: str) -> None:
        self._groups = groups
        self._group = group

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]:
        """The committed offset of each partition that has one. Raises ClientError."""
        by_where = {slot.where: slot for slot in slots}
        if not by_where:
            return {}
        found = await self._groups.offsets(self._group, list(by_where))
        return {by_where[where]: one.offset for where, one in found.items() if one.offset >= 0}

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None:
        """Raises ClientError for the first partition that was refused."""
        positions = {slot.where: Committed(offset) for slot, offset in offsets.items()}
        results = await self._groups.commit(self._group, positions)
        for refused in results.values():
            if refused is not None:
                raise refused


class DualOffsets:
    """Both storages: commits go to each, and the greater offset counts.

    Members of a group that is being moved know one storage only. The offset that such a member
    committed last is the greater one, for offsets never go back."""

    def __init__(self, first: OffsetStorage, second: OffsetStorage) -> None:
        self._storages = (first, second)

    async def fetch(self, slots: Iterable[RegistrySlot]) -> dict[RegistrySlot, int]:
        """The greater offset of each partition."""
        wanted = list(slots)
        found: dict[RegistrySlot, int] = {}
        for storage in self._storages:
            for slot, offset in (await storage.fetch(wanted)).items():
                found[slot] = max(offset, found.get(slot, offset))
        return found

    async def commit(self, offsets: Mapping[RegistrySlot, int]) -> None:
        """To each; raises what the first failure raises, and leaves the second one out then."""
        for storage in self._storages:
            await storage.commit(offsets)
