"""Reads the store for a controller, with a watch on everything that it reads.

Each method arms its watches in the very reads it makes, so that nothing can change unseen between
the reading and the watching (C-07, C-13).
"""

from __future__ import annotations

import logging
from collections import defaultdict
from dataclasses import field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.broker.engine.concurrently import pipelined
from ottla.coordinator.controller.events import StoredCluster, TopicsRead
from ottla.coordinator.controller.reading import registration_of, state_of, topic_of
from ottla.coordinator.controller.specs import TopicDeletion
from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    Change,
    ConfigChanged,
    TopicChanged,
)
from ottla.coordinator.metadata.delta import next_image
from ottla.coordinator.metadata.image import Entity, MetadataImage
from ottla.coordinator.store import deleted_topics, entities, full_disks, paths
from ottla.coordinator.store.store import Check, Create, NoNode, Operation
from ottla.protocol.data_classes import dataclass
from ottla.protocol.ids import TopicPartition, is_usable_uuid

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from ottla.broker.controlling.announcements import Announcements
    from ottla.coordinator.controller.events import ControllerEpoch
    from ottla.coordinator.metadata.image import BrokerRegistration, PartitionState, TopicImage
    from ottla.coordinator.store.deleted_topics import DeletedTopic
    from ottla.coordinator.store.full_disks import RoomReport
    from ottla.coordinator.store.store import MetadataSession, Watch, Znode
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Random

logger = logging.getLogger("ottla.controller")

# Entities whose settings affect a controller's decisions.
CONFIGURED_TYPES = ("topics", "brokers")
_DIRECTORIES_PER_GROUP = 500
_NONE: Mapping[str, TopicImage] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class StoreReader:
    """Reads the store for one controller; ``guard`` checks that it still leads (C-02)."""

    session: MetadataSession
    watch: Watch
    guard: Check
    draw_id: Callable[[], Uuid]
    watch_deletions: bool
    announcements: Announcements
    # Topics whose znode is being watched.
    watched: set[str] = field(default_factory=set)

    async def read(self, cluster_id: str, identity: ControllerEpoch) -> StoredCluster:
        """Everything. Raises StoreError.

        Nothing announced meanwhile is missed: watches are set first, and announcements of what is
        about to be read are removed before the read (C-13)."""
        await self.session.exists(paths.REASSIGN_PARTITIONS, self.watch)
        await self.session.exists(paths.PREFERRED_ELECTION, self.watch)
        await self.session.children(paths.LOG_DIR_EVENTS, self.watch)
        await self.announcements.isr_changes()
        self.watched.clear()
        names = await self.session.children(paths.TOPICS, self.watch)
        deleting = await self.deletions()
        brokers = await self.brokers()
        topics = await self.read_topics(names, names)
        changes: list[Change] = [BrokerChanged(one) for one in brokers]
        changes += [TopicChanged(one) for one in topics.topics]
        changes += await self._configs()
        image = MetadataImage(cluster_id, identity.node_id, identity.epoch)
        seen = await self._seen_generations()
        after = next_image(image, changes)
        deleted = await self._deleted_topics()
        return StoredCluster(
            after,
            seen,
            frozenset(deleting),
            topics.without_id,
            topics.versions,
            deleted,
            await self.full_disks(),
        )

    async def brokers(self) -> tuple[BrokerRegistration, ...]:
        """All registrations."""
        names = await self.session.children(paths.BROKER_IDS, self.watch)
        found = await pipelined(self._broker, names)
        return tuple(broker for broker in found if broker is not None)

    async def _broker(self, name: str) -> BrokerRegistration | None:
        node_id = paths.parse_number(name.encode())
        try:
            node = await self.session.get(f"{paths.BROKER_IDS}/{name}", self.watch)
        except NoNode:
            return None
        payload = paths.parse_broker(node.data)
        if node_id is None or payload is None:
            logger.error("the registration of broker %s is unreadable and ignored", name)
            return None
        return registration_of(node_id, payload, node.stat.czxid)

    async def topics(self, known: Mapping[str, TopicImage] = _NONE) -> TopicsRead:
        """Return all names, and the topics that are not watched yet: those created since."""
        names = await self.session.children(paths.TOPICS, self.watch)
        return await self.read_topics(names, sorted(set(names) - self.watched), known)

    async def read_topics(
        self,
        names: Iterable[str],
        wanted: Sequence[str],
        known: Mapping[str, TopicImage] = _NONE,
    ) -> TopicsRead:
        """Read these topics; topics that were deleted meanwhile are omitted.

        States of known partitions are not read again: their changes are announced."""
        present, without_id = set(names), set()
        versions: dict[str, int] = {}
        found: list[tuple[str, Uuid, paths.TopicPayload]] = []
        nodes = await pipelined(self._assignment, wanted)
        for name, node in zip(wanted, nodes, strict=True):
            if node is None:
                self.watched.discard(name)
                present.discard(name)
                continue
            payload = paths.parse_topic(node.data)
            if payload is None:
                logger.error("the assignment of topic %s is unreadable and ignored", name)
                continue
            versions[name] = node.stat.version
            if payload.topic_id is None:
                without_id.add(name)
            found.append((name, payload.topic_id or self.draw_id(), payload))
        topics = await self._with_states(found, known)
        return TopicsRead(frozenset(present), topics, frozenset(without_id), versions)

    async def _assignment(self, name: str) -> Znode | None:
        try:
            node = await self.session.get(paths.topic(name), self.watch)
        except NoNode:
            return None
        self.watched.add(name)
        return node

    async def _with_states(
        self,
        found: Sequence[tuple[str, Uuid, paths.TopicPayload]],
        known: Mapping[str, TopicImage],
    ) -> tuple[TopicImage, ...]:
        kept: dict[str, dict[int, PartitionState]] = {}
        new: list[tuple[str, list[int]]] = []
        for name, topic_id, payload in found:
            kept[name] = _known_states(known.get(name), topic_id)
            missing = sorted(payload.partitions.keys() - kept[name].keys())
            if missing:
                new.append((name, missing))
        there = await self._directories(new)
        states: dict[str, dict[int, tuple[paths.StatePayload, int]]] = defaultdict(dict)
        read = await pipelined(self._state, there)
        for (name, index), state in zip(there, read, strict=True):
            if state is not None:
                states[name][index] = state
        return tuple(
            _completed(topic_of(name, topic_id, payload, states[name]), kept[name])
            for name, topic_id, payload in found
        )

    async def _directories(self, wanted: Sequence[tuple[str, list[int]]]) -> list[TopicPartition]:
        """Create the missing znodes of the partitions; return those that existed."""
        names = [name for name, _ in wanted]
        made: list[Operation] = []
        there: list[TopicPartition] = []
        listed = await pipelined(self._listed, names)
        for (name, indexes), children in zip(wanted, listed, strict=True):
            if children is None:
                made.append(Create(paths.partitions(name)))
            known = children or frozenset()
            for index in indexes:
                if str(index) in known:
                    there.append(TopicPartition(name, index))
                else:
                    made.append(Create(paths.partition(name, index)))
        for start in range(0, len(made), _DIRECTORIES_PER_GROUP):
            group = made[start : start + _DIRECTORIES_PER_GROUP]
            await self.session.multi([self.guard, *group])
        return there

    async def _listed(self, name: str) -> frozenset[str] | None:
        try:
            return frozenset(await self.session.children(paths.partitions(name)))
        except NoNode:
            return None

    async def _state(self, item: TopicPartition) -> tuple[paths.StatePayload, int] | None:
        try:
            node = await self.session.get(paths.state(*item))
        except NoNode:
            return None
        payload = paths.parse_state(node.data)
        if payload is None:
            # A recreated state would forget the ISR: leave it to the operator.
            logger.error("the state of %s-%d is unreadable; it has no leader", *item)
            payload = paths.StatePayload(-1, 0, (), 0)
        return payload, node.stat.version

    async def states(
        self, items: Iterable[TopicPartition], image: MetadataImage
    ) -> dict[TopicPartition, PartitionState]:
        """Read the current states of these partitions."""
        asked = list(items)
        found = {}
        for item, read in zip(asked, await pipelined(self._state, asked), strict=True):
            known = image.partition(*item)
            if known is not None and read is not None:
                state = state_of(known.replicas, *read)
                found[item] = replace(state, adding=known.adding, removing=known.removing)
        return found

    async def deletions(self) -> list[str]:
        """Return topics with a deletion request; none if delete.topic.enable is false."""
        if not self.watch_deletions:
            return []
        return await self.session.children(paths.DELETE_TOPICS, self.watch)

    async def deletion_of(self, name: str, topic_id: Uuid) -> TopicDeletion:
        """Read what has to be deleted in the store with the topic."""
        subtree = tuple(await self._subtree(paths.topic(name)))
        is_marked = await self.session.exists(paths.delete_topic(name)) is not None
        return TopicDeletion(name, subtree, topic_id, is_marked)

    async def _subtree(self, path: str) -> list[str]:
        """Return the path and all its descendants, children before parents."""
        try:
            names = await self.session.children(path)
        except NoNode:
            return []
        below = await pipelined(self._subtree, [f"{path}/{name}" for name in names])
        return [*(inner for group in below for inner in group), path]

    async def config(self, entity: Entity) -> dict[str, str] | None:
        """Read the settings in the store; None if there is no entry, not even an empty one."""
        try:
            node = await self.session.get(paths.config(*entity))
        except NoNode:
            return None
        return paths.parse_config(node.data) or {}

    async def _configs(self) -> list[Change]:
        listed = [
            Entity(entity_type, entities.decode(entity_type, encoded))
            for entity_type in CONFIGURED_TYPES
            for encoded in await self.session.children(f"{paths.CONFIG}/{entity_type}")
        ]
        found = await pipelined(self.config, listed)
        return [
            ConfigChanged(entity, values)
            for entity, values in zip(listed, found, strict=True)
            if values is not None
        ]

    async def _deleted_topics(self) -> tuple[DeletedTopic, ...]:
        names = await self.session.children(paths.DELETED_TOPICS)
        nodes = await pipelined(
            lambda name: self.session.get(f"{paths.DELETED_TOPICS}/{name}"), names
        )
        found = []
        for name, node in zip(names, nodes, strict=True):
            deleted = deleted_topics.parse(name, node.data)
            if deleted is None:
                logger.error("the record of deleted topic %s is unreadable and ignored", name)
            else:
                found.append(deleted)
        return tuple(found)

    async def full_disks(self) -> dict[int, RoomReport]:
        """Read the reports of brokers with full disks."""
        found = {}
        for name in await self.session.children(paths.FULL_DISKS, self.watch):
            try:
                node = await self.session.get(f"{paths.FULL_DISKS}/{name}", self.watch)
            except NoNode:
                continue
            node_id, report = paths.parse_number(name.encode()), full_disks.parse(node.data)
            if node_id is not None and report is not None:
                found[node_id] = report
        return found

    async def _seen_generations(self) -> dict[int, int]:
        seen = {}
        for name in await self.session.children(paths.SEEN_GENERATIONS):
            node = await self.session.get(f"{paths.SEEN_GENERATIONS}/{name}")
            node_id, generation = paths.parse_number(name.encode()), paths.parse_number(node.data)
            if node_id is not None:
                seen[node_id] = -1 if generation is None else generation
        return seen


def _known_states(known: TopicImage | None, topic_id: Uuid) -> dict[int, PartitionState]:
    if known is None or known.topic_id != topic_id:
        return {}
    return {index: state for index, state in known.partitions.items() if state.has_state}


def _completed(topic: TopicImage, kept: Mapping[int, PartitionState]) -> TopicImage:
    """Keep the known states for the replicas that were read."""
    partitions = dict(topic.partitions)
    for index, read in topic.partitions.items():
        if index in kept:
            partitions[index] = replace(
                kept[index], replicas=read.replicas, adding=read.adding, removing=read.removing
            )
    return replace(topic, partitions=partitions)


def drawn_id(random: Random) -> Uuid:
    """Return a new topic id."""
    while True:
        drawn = random.token(16)
        if is_usable_uuid(drawn):
            return drawn
