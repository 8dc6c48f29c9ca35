"""State of one controllership: the image, and what is not in the store.

Dropped at resignation (C-04). ``replay`` applies accepted writes; the rest is what brokers have
reported since this controller began.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.controller.names import TopicTally
from ottla.coordinator.controller.requests import RequestWriter
from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    BrokerGone,
    Change,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.delta import next_image
from ottla.coordinator.store import deleted_topics, paths
from ottla.coordinator.store.full_disks import Room
from ottla.coordinator.store.store import ANY_VERSION, Check, Create, Operation, Replace
from ottla.protocol.ids import TopicPartition, uuid_from_text

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterable

    from ottla.coordinator.controller.events import ControllerEpoch, StoredCluster, Write
    from ottla.coordinator.controller.specs import ControllerSettings
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState
    from ottla.protocol.ids import Uuid


class ControllerContext:
    """Created from the cluster that was read; changed by ``replay`` and by brokers' reports."""

    def __init__(
        self, identity: ControllerEpoch, settings: ControllerSettings, world: StoredCluster
    ) -> None:
        assert (world.image.controller_id, world.image.controller_epoch) == identity
        assert world.without_id <= world.image.topics.keys()
        self.identity = identity
        self.settings = settings
        self.image = world.image
        self.tally = TopicTally(world.image.topics)
        self.seen = dict(world.seen_generations)
        # Topics whose deletion has begun and not ended.
        self.deleting = set(world.deleting)
        self.without_id = world.without_id
        # Deleted topics of which brokers may still have directories, and the brokers that answered.
        self.deleted = {one.topic_id: one for one in world.deleted}
        self.answered: dict[Uuid, set[int]] = {}
        # Of the topics' znodes: others may add partitions or move replicas there by hand.
        self._topic_versions = dict(world.topic_versions)
        # Node -> replicas that it holds but cannot serve (KIP-112).
        self.offline: dict[int, set[TopicPartition]] = {}
        # Node -> how much room its replicas have; brokers with room for all are not in it.
        self.full = {one: report for one, report in world.full.items() if report.is_full}
        # Node -> the generation that is shutting down, or that seems to be dead.
        self.leaving: dict[int, int] = {}
        self.suspected: dict[int, int] = {}
        # Node -> when it last came into an in-sync set.
        self.joined_ms: dict[int, float] = {}
        self.begun_ms = 0.0
        # Brokers that are being given their preferred leaderships, batch by batch.
        self.balancing: set[int] = set()
        # Brokers whose disks have room again, and until when they are given leaderships back
        # before the next regular balance.
        self.relieved: dict[int, float] = {}
        # Brokers whose report of room on all disks has been noted.
        self.room_noted: frozenset[int] = frozenset()
        # Partitions whose replicas are being moved, and of those whose old replicas were told to
        # go, the leader epoch of that.
        self.moving: set[TopicPartition] = set()
        self.stopped: dict[TopicPartition, int] = {}
        # What /admin/reassign_partitions asks for, and that znode's version; -1: it is not there.
        self.asked_moves: dict[TopicPartition, tuple[int, ...]] = {}
        self.asked_version = -1
        for topic in world.image.topics.values():
            self._look_for_moves(TopicChanged(topic))

    def inherit(self, earlier: ControllerContext) -> None:
        """Take over reports received before the same controller re-read the cluster.

        The moves that a znode requests are re-read too, and so not taken over."""
        assert earlier.identity == self.identity, "reports end with the controllership (C-04)"
        self.offline = earlier.offline
        self.leaving, self.suspected = earlier.leaving, earlier.suspected
        self.joined_ms, self.balancing = earlier.joined_ms, earlier.balancing
        self.answered, self.relieved = earlier.answered, earlier.relieved
        self.room_noted = earlier.room_noted

    def replay(self, write: Write) -> None:
        """Apply a write that the store has accepted."""
        before = self.image
        self.image = next_image(before, write.changes)
        for name in _topics_of(write.changes):
            self.tally.replace(before.topics.get(name), self.image.topics.get(name))
        assert self.tally.topic_count == len(self.image.topics)
        for change in write.changes:
            self._forget(before, change)
            self._look_for_moves(change)
            if isinstance(change, TopicChanged):
                # Another znode than the one known, unless the operations say which.
                self._topic_versions.pop(change.topic.name, None)
        for operation in write.operations:
            path = operation.path
            if path.startswith(paths.DELETE_TOPICS + "/"):
                name = path.removeprefix(paths.DELETE_TOPICS + "/")
                if isinstance(operation, Create):
                    self.deleting.add(name)
                else:
                    self.deleting.discard(name)
            elif path.startswith(paths.SEEN_GENERATIONS + "/"):
                assert isinstance(operation, Create | Replace)
                self._on_seen(int(path.rpartition("/")[2]), int(operation.data))
            elif path.startswith(paths.DELETED_TOPICS + "/"):
                self._on_deletion_recorded(path.rpartition("/")[2], operation)
            elif path == paths.REASSIGN_PARTITIONS:
                self._on_asked(operation)
            elif path.startswith(paths.TOPICS + "/"):
                self._on_topic_written(path.removeprefix(paths.TOPICS + "/"), operation)

    def _on_topic_written(self, name: str, operation: Operation) -> None:
        """``name`` of a topic's own znode; what is below it has a path there."""
        match operation:
            case _ if "/" in name:
                return
            case Create():
                self._topic_versions[name] = 0
            case Check(version=version) if version != ANY_VERSION:
                self._topic_versions[name] = version
            case Replace(version=version) if version != ANY_VERSION:
                self._topic_versions[name] = version + 1
            case _:
                self._topic_versions.pop(name, None)

    def _on_seen(self, node_id: int, generation: int) -> None:
        # The image takes the registration first: of a crash between, the next controller must
        # find a restart that was not handled (C-15).
        assert node_id in self.image.brokers
        self.seen[node_id] = generation
        # A broker that has just started reports again what it cannot serve.
        self.offline.pop(node_id, None)

    def _on_deletion_recorded(self, encoded_id: str, operation: Operation) -> None:
        if isinstance(operation, Create | Replace):
            deleted = deleted_topics.parse(encoded_id, operation.data)
            assert deleted is not None
            self.deleted[deleted.topic_id] = deleted
            return
        topic_id = uuid_from_text(encoded_id)
        for known in (self.deleted, self.answered):
            known.pop(topic_id, None)

    def _on_asked(self, operation: Operation) -> None:
        self.asked_moves, self.asked_version = {}, -1
        if isinstance(operation, Replace):
            assert operation.version != ANY_VERSION, "moves that others add would be lost"
            self.asked_moves = paths.parse_moves(operation.data) or {}
            self.asked_version = operation.version + 1

    def _forget(self, before: MetadataImage, change: Change) -> None:
        match change:
            case TopicGone(name):
                self._forget_topic(name)
            case TopicChanged(topic):
                known = before.topics.get(topic.name)
                if known is not None and known.topic_id != topic.topic_id:
                    self._forget_topic(topic.name)
                elif known is not None and known.partitions.keys() - topic.partitions.keys():
                    # An operator has removed partitions from the znode.
                    self._forget_topic(topic.name, kept=topic.partitions)
            case BrokerGone(node_id):
                self.leaving.pop(node_id, None)
                self.suspected.pop(node_id, None)
            case BrokerChanged(broker):
                for marked in (self.leaving, self.suspected):
                    if marked.get(broker.node_id, broker.generation) != broker.generation:
                        del marked[broker.node_id]
            case _:
                pass

    def _forget_topic(self, name: str, kept: Container[int] = ()) -> None:
        for items in (*self.offline.values(), self.moving):
            gone = [one for one in items if one.topic == name and one.partition not in kept]
            items.difference_update(gone)
        for item in self.stopped.keys() - self.moving:
            del self.stopped[item]

    def _look_for_moves(self, change: Change) -> None:
        match change:
            case PartitionChanged(name, index, state):
                self._note_move(TopicPartition(name, index), state)
            case TopicChanged(topic):
                for index, state in topic.partitions.items():
                    self._note_move(TopicPartition(topic.name, index), state)
            case _:
                pass

    def _note_move(self, item: TopicPartition, state: PartitionState) -> None:
        if state.is_moving:
            self.moving.add(item)
            return
        self.moving.discard(item)
        self.stopped.pop(item, None)
        for node_id, lost in self.offline.items():
            # A replica that is created there later is a new one.
            if item in lost and node_id not in state.replicas:
                lost.discard(item)

    # ---- queries ----

    def topic_version(self, name: str, writes_before: int = 0) -> int:
        """The version at which to replace the topic's znode after that many earlier writes in the
        same decision; writes of others since it was read must not be lost."""
        assert writes_before >= 0
        known = self._topic_versions.get(name, ANY_VERSION)
        return known if known == ANY_VERSION else known + writes_before

    def away(self, image: MetadataImage) -> frozenset[int]:
        """Live brokers that must not get any role: shutting down or suspected."""
        return frozenset(
            node_id
            for marked in (self.leaving, self.suspected)
            for node_id, generation in marked.items()
            if node_id in image.brokers and image.brokers[node_id].generation == generation
        )

    def with_room_below(
        self, room: Room, item: TopicPartition, replicas: Iterable[int]
    ) -> frozenset[int]:
        """The replicas' brokers that have less room."""
        return frozenset(
            node_id
            for node_id in replicas
            if node_id in self.full and self.full[node_id].of(item) > room
        )

    def offline_on(self, node_id: int) -> frozenset[TopicPartition]:
        """The replicas that a live broker cannot serve."""
        return frozenset(self.offline.get(node_id, ()))

    def has(self, item: TopicPartition) -> bool:
        return self.image.partition(item.topic, item.partition) is not None

    def new(self, changed: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those that had no state before this decision."""
        return frozenset(item for item in changed if not self._has_state(item))

    def held_by(self, nodes: Collection[int], image: MetadataImage) -> list[TopicPartition]:
        """The partitions with a replica on one of these."""
        wanted = frozenset(nodes)
        return [
            item
            for item in every_partition(image)
            if not wanted.isdisjoint(image.topics[item.topic].partitions[item.partition].replicas)
        ]

    def after(self, writes: Iterable[Write]) -> MetadataImage:
        """The image after these writes."""
        return next_image(self.image, [change for write in writes for change in write.changes])

    def writer(
        self, image: MetadataImage, restarted: frozenset[int] = frozenset()
    ) -> RequestWriter:
        """A writer of requests about that image."""
        offline = {
            node_id: lost for node_id, lost in self.offline.items() if node_id not in restarted
        }
        return RequestWriter(self.identity, image, offline)

    def _has_state(self, item: TopicPartition) -> bool:
        state = self.image.partition(item.topic, item.partition)
        return state is not None and state.has_state


def without_room(context: ControllerContext, room: Room = Room.ENOUGH) -> frozenset[int]:
    """Brokers that have less room for new replicas."""
    return frozenset(one for one, report in context.full.items() if report.others > room)


def every_partition(image: MetadataImage) -> list[TopicPartition]:
    """In the order of names and numbers."""
    return [
        TopicPartition(name, index)
        for name in sorted(image.topics)
        for index in sorted(image.topics[name].partitions)
    ]


def _topics_of(changes: Iterable[Change]) -> set[str]:
    """The topics that the changes are about."""
    names = set()
    for change in changes:
        match change:
            case TopicChanged(topic):
                names.add(topic.name)
            case TopicGone(name) | PartitionChanged(name, _, _):
                names.add(name)
            case _:
                pass
    return names
