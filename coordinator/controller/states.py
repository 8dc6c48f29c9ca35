"""The states of partitions and replicas, by Kafka's names, and which may follow which.

The controller decides on images; what a change of the image means for a replica is derived here,
for the log of state changes and for tests: whatever is not in the tables below is a bug.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    BrokerGone,
    Change,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.image import NO_LEADER, MetadataImage, PartitionState
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from ottla.coordinator.metadata.image import TopicImage


class ReplicaState(Enum):
    """The state of one replica on one broker."""

    NON_EXISTENT = "NonExistentReplica"
    NEW = "NewReplica"
    ONLINE = "OnlineReplica"
    OFFLINE = "OfflineReplica"


class PartitionStatus(Enum):
    """The state of one partition."""

    NON_EXISTENT = "NonExistentPartition"
    NEW = "NewPartition"
    ONLINE = "OnlinePartition"
    OFFLINE = "OfflinePartition"


class Transition(NamedTuple):
    """From one state to another; ``node_id`` is None for a partition's own state."""

    item: TopicPartition
    node_id: int | None
    before: Enum
    after: Enum

    @property
    def is_legal(self) -> bool:
        """Whether the tables below allow it."""
        return self.after in LEGAL[self.before]


LEGAL: Mapping[Enum, frozenset[Enum]] = {
    ReplicaState.NON_EXISTENT: frozenset({ReplicaState.NEW}),
    ReplicaState.NEW: frozenset({ReplicaState.ONLINE, ReplicaState.OFFLINE}),
    ReplicaState.ONLINE: frozenset({ReplicaState.OFFLINE}),
    ReplicaState.OFFLINE: frozenset({ReplicaState.ONLINE, ReplicaState.NON_EXISTENT}),
    PartitionStatus.NON_EXISTENT: frozenset({PartitionStatus.NEW}),
    PartitionStatus.NEW: frozenset({PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
    PartitionStatus.ONLINE: frozenset({PartitionStatus.ONLINE, PartitionStatus.OFFLINE}),
    PartitionStatus.OFFLINE: frozenset({PartitionStatus.ONLINE, PartitionStatus.NON_EXISTENT}),
}


class StateChanges:
    """Follows one controller's image, change by change."""

    def __init__(self, image: MetadataImage) -> None:
        self._live = set(image.brokers)
        self._states: dict[TopicPartition, PartitionState] = {}
        self._replicas: dict[tuple[TopicPartition, int], ReplicaState] = {}
        for topic in image.topics.values():
            list(self._on_topic(topic))

    def of(self, item: TopicPartition, node_id: int) -> ReplicaState:
        """The state of a replica."""
        return self._replicas.get((item, node_id), ReplicaState.NON_EXISTENT)

    def take(self, change: Change) -> list[Transition]:
        """The transitions that the change causes, in order."""
        match change:
            case PartitionChanged(name, index, state):
                return list(self._on_partition(TopicPartition(name, index), state))
            case TopicChanged(topic):
                return list(self._on_topic(topic))
            case TopicGone(name):
                return list(self._on_gone([one for one in self._states if one.topic == name]))
            case BrokerChanged(broker):
                self._live.add(broker.node_id)
                return list(self._on_broker(broker.node_id))
            case BrokerGone(node_id):
                self._live.discard(node_id)
                return list(self._on_broker(node_id))
            case _:
                return []

    def _on_topic(self, topic: TopicImage) -> Iterator[Transition]:
        known = [one for one in self._states if one.topic == topic.name]
        yield from self._on_gone([one for one in known if one.partition not in topic.partitions])
        for index, state in topic.partitions.items():
            item = TopicPartition(topic.name, index)
            if item not in self._states:
                yield from self._on_partition(item, PartitionState(state.replicas))
            if state.has_state:
                yield from self._on_partition(item, state)

    def _on_gone(self, items: list[TopicPartition]) -> Iterator[Transition]:
        for item in items:
            state = self._states.pop(item)
            for node_id in state.replicas:
                yield from self._remove(item, node_id)
            if _status(state) is not PartitionStatus.OFFLINE:
                yield Transition(item, None, _status(state), PartitionStatus.OFFLINE)
            yield Transition(item, None, PartitionStatus.OFFLINE, PartitionStatus.NON_EXISTENT)

    def _on_partition(self, item: TopicPartition, state: PartitionState) -> Iterator[Transition]:
        old = self._states.get(item)
        self._states[item] = state
        before = PartitionStatus.NON_EXISTENT if old is None else _status(old)
        after = _status(state)
        if old is None and after is not PartitionStatus.NEW:
            yield Transition(item, None, before, PartitionStatus.NEW)
            before = PartitionStatus.NEW
        is_elected = old is not None and (old.leader, old.leader_epoch) != (
            state.leader,
            state.leader_epoch,
        )
        if before is not after or (after is PartitionStatus.ONLINE and is_elected):
            yield Transition(item, None, before, after)
        for node_id in state.replicas:
            yield from self._move(item, node_id, self._wanted(item, node_id, state))
        for node_id in () if old is None else old.replicas:
            if node_id not in state.replicas:
                yield from self._remove(item, node_id)

    def _on_broker(self, node_id: int) -> Iterator[Transition]:
        for item, state in self._states.items():
            if node_id in state.replicas:
                yield from self._move(item, node_id, self._wanted(item, node_id, state))

    def _wanted(self, item: TopicPartition, node_id: int, state: PartitionState) -> ReplicaState:
        if node_id not in self._live:
            return ReplicaState.OFFLINE
        is_out = node_id not in state.isr
        if is_out and node_id in state.removing and set(state.isr) <= set(state.target):
            return ReplicaState.OFFLINE
        is_unborn = self.of(item, node_id) in (ReplicaState.NON_EXISTENT, ReplicaState.NEW)
        if is_unborn and is_out and (node_id in state.adding or not state.has_state):
            return ReplicaState.NEW
        return ReplicaState.ONLINE

    def _move(
        self, item: TopicPartition, node_id: int, wanted: ReplicaState
    ) -> Iterator[Transition]:
        before = self.of(item, node_id)
        if before is ReplicaState.NON_EXISTENT:
            yield Transition(item, node_id, before, ReplicaState.NEW)
            before = ReplicaState.NEW
        assert before is wanted or wanted in LEGAL[before]
        if before is not wanted:
            yield Transition(item, node_id, before, wanted)
        self._replicas[item, node_id] = wanted

    def _remove(self, item: TopicPartition, node_id: int) -> Iterator[Transition]:
        yield from self._move(item, node_id, ReplicaState.OFFLINE)
        del self._replicas[item, node_id]
        yield Transition(item, node_id, ReplicaState.OFFLINE, ReplicaState.NON_EXISTENT)


def _status(state: PartitionState) -> PartitionStatus:
    if not state.has_state:
        return PartitionStatus.NEW
    return PartitionStatus.OFFLINE if state.leader == NO_LEADER else PartitionStatus.ONLINE
