"""Handles a mark on the controller's queue: reads the path again, as one or more events.

An event is passed as the function that reads it if a decision on it may be refused because
it is outdated: the controller then reads it again.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import (
    BrokersRead,
    ConfigRead,
    DeleteTopics,
    DirectoryFailed,
    Event,
    ReplicasAwaited,
    RoomRead,
    StatesRead,
)
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import entities, paths
from ottla.protocol.ids import ZERO_UUID, TopicPartition, Uuid

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.broker.controlling.store_reader import StoreReader
    from ottla.coordinator.metadata.image import MetadataImage, TopicImage
    from ottla.coordinator.store.full_disks import RoomReport

Wanted = Event | Callable[[], Awaitable[Event]]

_CONFIGS = f"{paths.CONFIG}/"


class MetadataRescan:
    """Owned by one controllership; ``image`` returns its current image."""

    def __init__(self, reader: StoreReader, image: Callable[[], MetadataImage]) -> None:
        self._reader = reader
        self._image = image
        self._rooms_read: Mapping[int, RoomReport] = {}

    async def of(self, path: str) -> Sequence[Wanted]:
        """Return the events to perform, in this order. Raises StoreError."""
        reader = self._reader
        if path == paths.TOPICS:
            return [lambda: reader.topics(self._topics)]
        if path.startswith(f"{paths.TOPICS}/"):
            name = path.removeprefix(f"{paths.TOPICS}/")
            return [lambda: self._read_topics([name])]
        if path == paths.DELETE_TOPICS:
            return await self._deletions()
        if path == paths.ISR_CHANGES:
            changed = await reader.announcements.isr_changes()
            return [lambda: self.states(changed)] if changed else []
        if path == paths.LOG_DIR_EVENTS:
            return [
                DirectoryFailed(node_id)
                for node_id in await reader.announcements.directory_failures()
            ]
        if path == paths.REASSIGN_PARTITIONS:
            return [reader.announcements.moves]
        if path == paths.PREFERRED_ELECTION:
            return [reader.announcements.preferred_elections]
        if path.startswith(_CONFIGS):
            entity_type, _, encoded = path.removeprefix(_CONFIGS).partition("/")
            return [
                lambda: self._config(Entity(entity_type, entities.decode(entity_type, encoded)))
            ]
        if path.startswith(paths.FULL_DISKS):
            return await self._rooms()
        return [self._brokers] if path.startswith(paths.BROKER_IDS) else []

    def of_slice(self, names: list[str]) -> Sequence[Wanted]:
        """Read these topics with all their states, as if all had been announced (C-07)."""

        async def states() -> Event:
            topics = self._topics
            return await self.states(
                [
                    TopicPartition(name, index)
                    for name in names
                    if name in topics
                    for index in topics[name].partitions
                ]
            )

        return [lambda: self._read_topics(names), states]

    async def states(self, items: Sequence[TopicPartition]) -> Event:
        """Read the current states of the partitions."""
        return StatesRead(await self._reader.states(items, self._image()))

    async def deletion(self, topics: Sequence[tuple[str, Uuid]]) -> Event:
        """Read what has to be deleted with these topics."""
        deletions = [await self._reader.deletion_of(name, topic_id) for name, topic_id in topics]
        return DeleteTopics(tuple(deletions))

    @property
    def _topics(self) -> Mapping[str, TopicImage]:
        return self._image().topics

    async def _read_topics(self, names: list[str]) -> Event:
        topics = self._topics
        return await self._reader.read_topics(topics, names, topics)

    async def _deletions(self) -> Sequence[Wanted]:
        names = await self._reader.deletions()
        topics = self._topics
        known = [(name, topics[name].topic_id if name in topics else ZERO_UUID) for name in names]
        return [lambda: self.deletion(known)] if known else []

    async def _rooms(self) -> Sequence[Wanted]:
        """A broker with changed free space is asked again for what it could not serve."""
        reports, before = await self._reader.full_disks(), self._rooms_read
        self._rooms_read = reports
        others = sorted(one for one in before if before[one] != reports.get(one))
        return [self._read_rooms, *(ReplicasAwaited(one) for one in others)]

    async def _read_rooms(self) -> Event:
        return RoomRead(await self._reader.full_disks())

    async def _brokers(self) -> Event:
        return BrokersRead(await self._reader.brokers())

    async def _config(self, entity: Entity) -> Event:
        return ConfigRead(entity, await self._reader.config(entity))
