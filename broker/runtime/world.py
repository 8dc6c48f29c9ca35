"""The store as a controller reads it, with a watch on everything it reads.

Each method arms its watches in the very reads it makes, so that nothing can change unseen between
the reading and the watching (C-07, C-13).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.coordinator.controller.events import TopicsRead, World
from ottla.coordinator.controller.reading import registration_of, state_of, topic_of
from ottla.coordinator.controller.specs import TopicDeletion
from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    Change,
    ConfigChanged,
    TopicChanged,
)
from ottla.coordinator.metadata.delta import apply_changes
from ottla.coordinator.metadata.image import Entity, MetadataImage
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Check, Create, NoNode, Operation

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.coordinator.controller.events import Identity
    from ottla.coordinator.metadata.image import BrokerRegistration, PartitionState, TopicImage
    from ottla.coordinator.store.store import Session, Watch
    from ottla.protocol.ids import TopicPartition, Uuid

logger = logging.getLogger("ottla.controller")

_DIRECTORIES_PER_GROUP = 500


@dataclass(frozen=True, slots=True)
class WorldReader:
    """One controller's eyes. ``guard`` checks that it still is the controller (C-02)."""

    session: Session
    watch: Watch
    guard: Check
    draw_id: Callable[[], Uuid]
    watch_deletions: bool
    # Topics whose znode is being watched.
    watched: set[str] = field(default_factory=set)

    async def read(self, cluster_id: str, identity: Identity) -> World:
        """Everything. Raises StoreError."""
        brokers = await self.brokers()
        self.watched.clear()
        topics = await self.topics()
        deleting = await self.deletions()
        await self.session.children(paths.ISR_CHANGES, self.watch)
        await self.session.children(paths.LOG_DIR_EVENTS, self.watch)
        changes: list[Change] = [BrokerChanged(one) for one in brokers]
        changes += [TopicChanged(one) for one in topics.topics]
        changes += await self._configs()
        image = MetadataImage(cluster_id, identity.node_id, identity.epoch)
        seen = await self._seen_generations()
        after = apply_changes(image, changes).after
        return World(after, seen, frozenset(deleting), topics.without_id)

    async def brokers(self) -> tuple[BrokerRegistration, ...]:
        """All registrations."""
        found = []
        for name in await self.session.children(paths.BROKER_IDS, self.watch):
            node_id = paths.parse_number(name.encode())
            try:
                node = await self.session.get(f"{paths.BROKER_IDS}/{name}", self.watch)
            except NoNode:
                continue
            payload = paths.parse_broker(node.data)
            if node_id is None or payload is None:
                logger.error("the registration of broker %s is unreadable and ignored", name)
                continue
            found.append(registration_of(node_id, payload, node.stat.czxid))
        return tuple(found)

    async def topics(self) -> TopicsRead:
        """All names, and the topics that are not watched yet: those that were made since."""
        names = await self.session.children(paths.TOPICS, self.watch)
        return await self.read_topics(names, sorted(set(names) - self.watched))

    async def read_topics(self, names: Iterable[str], wanted: Iterable[str]) -> TopicsRead:
        """Those topics as they are now; one that is gone meanwhile is not among them."""
        present, topics, without_id = set(names), [], set()
        for name in wanted:
            try:
                topic, has_id = await self._topic(name)
            except NoNode:
                self.watched.discard(name)
                present.discard(name)
                continue
            if topic is not None:
                topics.append(topic)
            if not has_id:
                without_id.add(name)
        return TopicsRead(frozenset(present), tuple(topics), frozenset(without_id))

    async def _topic(self, name: str) -> tuple[TopicImage | None, bool]:
        node = await self.session.get(paths.topic(name), self.watch)
        self.watched.add(name)
        payload = paths.parse_topic(node.data)
        if payload is None:
            logger.error("the assignment of topic %s is unreadable and ignored", name)
            return None, True
        directories = await self._directories(name, sorted(payload.partitions))
        states = {}
        for index in directories:
            found = await self._state(name, index)
            if found is not None:
                states[index] = found
        has_id = payload.topic_id is not None
        topic_id = payload.topic_id if payload.topic_id is not None else self.draw_id()
        return topic_of(name, topic_id, payload, states), has_id

    async def _directories(self, name: str, wanted: list[int]) -> list[int]:
        """Make the partitions' znodes that are missing; return those that were there."""
        missing: list[Operation] = []
        try:
            there = set(await self.session.children(paths.partitions(name)))
        except NoNode:
            there = set()
            missing.append(Create(paths.partitions(name)))
        missing += [
            Create(paths.partition(name, index)) for index in wanted if str(index) not in there
        ]
        for start in range(0, len(missing), _DIRECTORIES_PER_GROUP):
            group = missing[start : start + _DIRECTORIES_PER_GROUP]
            await self.session.multi([self.guard, *group])
        return [index for index in wanted if str(index) in there]

    async def _state(self, name: str, index: int) -> tuple[paths.StatePayload, int] | None:
        try:
            node = await self.session.get(paths.state(name, index))
        except NoNode:
            return None
        payload = paths.parse_state(node.data)
        if payload is None:
            # Made anew, it would forget the ISR: leave it to the operator.
            logger.error("the state of %s-%d is unreadable; nobody leads it", name, index)
            payload = paths.StatePayload(-1, 0, (), 0)
        return payload, node.stat.version

    async def states(
        self, items: Iterable[TopicPartition], image: MetadataImage
    ) -> dict[TopicPartition, PartitionState]:
        """The states of these partitions as they are now."""
        found = {}
        for item in items:
            known = image.partition(item.topic, item.partition)
            read = await self._state(item.topic, item.partition)
            if known is not None and read is not None:
                found[item] = state_of(known.replicas, *read)
        return found

    async def isr_changes(self) -> list[TopicPartition]:
        """Take the announcements of leaders that changed an ISR."""
        changed: dict[TopicPartition, None] = {}
        for name in await self.session.children(paths.ISR_CHANGES, self.watch):
            path = f"{paths.ISR_CHANGES}/{name}"
            try:
                node = await self.session.get(path)
                await self.session.delete(path)
            except NoNode:
                continue
            changed |= dict.fromkeys(paths.parse_partition_list(node.data) or ())
        return list(changed)

    async def directory_failures(self) -> list[int]:
        """Take the announcements of brokers that have lost a data directory."""
        nodes: dict[int, None] = {}
        for name in await self.session.children(paths.LOG_DIR_EVENTS, self.watch):
            path = f"{paths.LOG_DIR_EVENTS}/{name}"
            try:
                node = await self.session.get(path)
                await self.session.delete(path)
            except NoNode:
                continue
            node_id = paths.parse_log_dir_event(node.data)
            if node_id is not None:
                nodes[node_id] = None
        return list(nodes)

    async def deletions(self) -> list[str]:
        """Topics that somebody wants to be deleted."""
        watch = self.watch if self.watch_deletions else None
        return await self.session.children(paths.DELETE_TOPICS, watch)

    async def deletion_of(self, name: str, topic_id: Uuid) -> TopicDeletion:
        """What deleting the topic comes to in the store."""
        subtree = tuple(await self._subtree(paths.topic(name)))
        is_marked = await self.session.exists(paths.delete_topic(name)) is not None
        return TopicDeletion(name, subtree, topic_id, is_marked)

    async def _subtree(self, path: str) -> list[str]:
        """The path and all below it, children before parents."""
        try:
            names = await self.session.children(path)
        except NoNode:
            return []
        below = [await self._subtree(f"{path}/{name}") for name in names]
        return [*(inner for group in below for inner in group), path]

    async def topic_config(self, name: str) -> dict[str, str] | None:
        """What is set for a topic; None if it has no settings, not even empty ones."""
        try:
            node = await self.session.get(paths.config("topics", name))
        except NoNode:
            return None
        return paths.parse_config(node.data) or {}

    async def _configs(self) -> list[Change]:
        changes: list[Change] = []
        for encoded in await self.session.children(f"{paths.CONFIG}/topics"):
            name = paths.decode_entity(encoded)
            values = await self.topic_config(name)
            if values is not None:
                changes.append(ConfigChanged(Entity("topics", name), values))
        return changes

    async def _seen_generations(self) -> dict[int, int]:
        seen = {}
        for name in await self.session.children(paths.SEEN_GENERATIONS):
            node = await self.session.get(f"{paths.SEEN_GENERATIONS}/{name}")
            node_id, generation = paths.parse_number(name.encode()), paths.parse_number(node.data)
            if node_id is not None:
                seen[node_id] = -1 if generation is None else generation
        return seen
