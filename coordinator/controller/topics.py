"""Creates, enlarges and deletes topics: checks, results and writes.

Each function handles one item and adds its writes to a list; items of one request see those before
them. Authorization is the request handler's.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING

from ottla.coordinator.controller import deletions
from ottla.coordinator.controller.context import without_room
from ottla.coordinator.controller.leadership import Circumstances, settle
from ottla.coordinator.controller.names import collision_key, find_name_fault
from ottla.coordinator.controller.placement import (
    broker_order,
    find_assignment_fault,
    place,
    too_few,
)
from ottla.coordinator.controller.specs import (
    ControllerSettings,
    PartitionsSpec,
    TopicDeletion,
    TopicResult,
    TopicSpec,
)
from ottla.coordinator.controller.writes import (
    OPERATIONS_PER_WRITE_MAX,
    WriteList,
    find_size_fault,
    topic_data,
)
from ottla.coordinator.metadata.changes import ConfigChanged, ConfigGone, TopicChanged, TopicGone
from ottla.coordinator.metadata.image import (
    KEEP_FORMAT,
    Entity,
    MetadataImage,
    PartitionState,
    TopicImage,
    keeps_format,
)
from ottla.coordinator.store import paths
from ottla.coordinator.store.full_disks import Room
from ottla.coordinator.store.store import Create, Delete, Operation, Replace
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import ZERO_UUID, TopicPartition, is_usable_uuid

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.coordinator.controller.context import ControllerContext
    from ottla.coordinator.metadata.image import BrokerRegistration

Replicas = dict[int, tuple[int, ...]]
Refusal = tuple[ErrorCode, str]

# The settings of a topic, checked. Raises KafkaError with what is wrong with them.
ConfigCheck = Callable[[Mapping[str, "str | None"]], dict[str, str]]


@dataclass(slots=True)
class TopicPlan:
    """The results and writes of one request about topics, so far."""

    context: ControllerContext
    check_configs: ConfigCheck
    writes: WriteList = field(default_factory=WriteList)
    results: list[TopicResult] = field(default_factory=list)
    # Partitions that got their first state, and topics that go.
    new: list[TopicPartition] = field(default_factory=list)
    gone: list[TopicImage] = field(default_factory=list)
    # Names by collision key, partitions and replicas of those made so far.
    _keys: dict[str, str] = field(default_factory=dict)
    _partition_count: int = 0
    _replica_count: int = 0

    @property
    def image(self) -> MetadataImage:
        return self.context.image

    @property
    def settings(self) -> ControllerSettings:
        return self.context.settings

    @property
    def deleting(self) -> set[str]:
        return self.context.deleting

    def create(self, spec: TopicSpec) -> None:
        """Create one topic, or add the error."""
        refusal = self._refuse_name(spec.name)
        assignment: Replicas | Refusal = refusal or self._assignment_of(spec)
        if not isinstance(assignment, dict):
            self._refuse(spec.name, assignment)
            return
        try:
            configs = self.check_configs(spec.configs)
        except KafkaError as error:
            self._refuse(spec.name, (error.code, error.message))
            return
        replica_count = sum(len(replicas) for replicas in assignment.values())
        if keeps_format(configs) and replica_count > len(assignment):
            text = f"a topic with {KEEP_FORMAT} has one replica: such messages are not replicated"
            self._refuse(spec.name, (ErrorCode.INVALID_REPLICATION_FACTOR, text))
            return
        refusal = self._refuse_size(replica_count) or self._refuse_data(
            TopicImage(spec.name, spec.topic_id, _stateless(assignment))
        )
        if refusal is not None:
            self._refuse(spec.name, refusal)
            return
        assert is_usable_uuid(spec.topic_id)
        assert sorted(assignment) == list(range(len(assignment)))
        assert replica_count == len(assignment) * len(assignment[0]), "one factor for all"
        self._write_topic(spec, assignment, configs)
        self._keys[collision_key(spec.name)] = spec.name
        self._partition_count += len(assignment)
        self._replica_count += replica_count
        self.results.append(
            TopicResult(
                spec.name,
                topic_id=spec.topic_id,
                partition_count=len(assignment),
                replication_factor=len(assignment[0]),
                configs=configs,
            )
        )

    def enlarge(self, spec: PartitionsSpec) -> None:
        """Add partitions to one topic, or add the error."""
        topic = self.image.topics.get(spec.name)
        if topic is None or spec.name in self.deleting:
            text = "there is no such topic"
            self._refuse(spec.name, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
            return
        added = self._added_partitions(topic, spec)
        if not isinstance(added, dict):
            self._refuse(spec.name, added)
            return
        assert len(added) == spec.total_count - len(topic.partitions)
        replica_count = sum(len(replicas) for replicas in added.values())
        stateless = _stateless(added)
        larger = TopicImage(topic.name, topic.topic_id, {**topic.partitions, **stateless})
        refusal = self._refuse_size(replica_count) or self._refuse_data(larger)
        if refusal is not None:
            self._refuse(spec.name, refusal)
            return
        version = self.context.topic_version(topic.name)
        self.writes.add(
            [Replace(paths.topic(topic.name), topic_data(larger), version)], [TopicChanged(larger)]
        )
        self._write_partitions(topic.name, stateless)
        self._replica_count += replica_count
        self.results.append(
            TopicResult(topic.name, topic_id=topic.topic_id, partition_count=spec.total_count)
        )

    def delete(self, deletion: TopicDeletion) -> None:
        """Delete one topic from the store (C-23: brokers follow when they can)."""
        topic = self.image.topics.get(deletion.name)
        if not self.settings.delete_topic_enable:
            text = "delete.topic.enable is false"
            self._refuse(deletion.name, (ErrorCode.TOPIC_DELETION_DISABLED, text))
            return
        if topic is None or (deletion.topic_id not in (ZERO_UUID, topic.topic_id)):
            if topic is None and deletion.is_marked:
                self.writes.add([Delete(paths.delete_topic(deletion.name))])
            text = "there is no such topic"
            self._refuse(deletion.name, (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
            return
        self._write_deletion(deletion, topic)
        self.gone.append(topic)
        self.results.append(TopicResult(topic.name, topic_id=topic.topic_id))

    def _write_deletion(self, deletion: TopicDeletion, topic: TopicImage) -> None:
        # The topic's own znode goes last: until then its deletion can be found and continued.
        assert not deletion.paths or deletion.paths[-1] == paths.topic(topic.name)
        marker = paths.delete_topic(deletion.name)
        is_marked = deletion.is_marked or deletion.name in self.deleting
        entity = Entity("topics", deletion.name)
        if len(deletion.paths) >= OPERATIONS_PER_WRITE_MAX and not is_marked:
            # More than one group: if this controller dies between them, the next one must know
            # that the topic is half gone.
            self.writes.add([Create(marker)])
            is_marked = True
        for path in deletion.paths[:-1]:
            self.writes.add([Delete(path)])
        last: list[Operation] = [Delete(path) for path in deletion.paths[-1:]]
        last += deletions.record(topic)
        if entity in self.image.configs:
            last.append(Delete(paths.config(*entity)))
        if is_marked:
            last.append(Delete(marker))
        self.writes.add(last, [TopicGone(deletion.name), ConfigGone(entity)])

    def _refuse_name(self, name: str) -> Refusal | None:
        fault = find_name_fault(name)
        if fault is not None:
            return ErrorCode.INVALID_TOPIC_EXCEPTION, fault
        if name in self.deleting:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} is being deleted"
        key = collision_key(name)
        other = self._keys.get(key) or self.context.tally.name_of(key)
        if name in self.image.topics or other == name:
            return ErrorCode.TOPIC_ALREADY_EXISTS, f"topic {name!r} exists already"
        if other is not None:
            text = f"{name!r} would share its metrics with the existing topic {other!r}"
            return ErrorCode.INVALID_TOPIC_EXCEPTION, text
        return None

    def _assignment_of(self, spec: TopicSpec) -> Replicas | Refusal:
        brokers = self.image.brokers
        if spec.assignment is not None:
            return self._manual_assignment(spec.assignment)
        count, factor = spec.partition_count, spec.replication_factor
        count = self.settings.num_partitions if count == -1 else count
        factor = self.settings.default_replication_factor if factor == -1 else factor
        if count <= 0:
            return ErrorCode.INVALID_PARTITIONS, "the number of partitions must be at least 1"
        if factor <= 0:
            return (
                ErrorCode.INVALID_REPLICATION_FACTOR,
                "the replication factor must be at least 1",
            )
        if factor > len(brokers):
            text = too_few(factor, len(brokers))
            return ErrorCode.INVALID_REPLICATION_FACTOR, text
        # Looked at before the partitions are placed: a wish for 2**31 of them costs nothing.
        refusal = self._refuse_size(count * factor)
        if refusal is not None:
            return refusal
        start = self.context.tally.partition_count + self._partition_count
        return place(self._usable(factor), range(count), factor, start)

    def _usable(self, count: int) -> Mapping[int, BrokerRegistration]:
        """Brokers for replicas: those that stop, seem dead or lack room only if there are too few
        others."""
        brokers = self.image.brokers
        away = self.context.away(self.image) | without_room(self.context)
        here = {node_id: broker for node_id, broker in brokers.items() if node_id not in away}
        return here if len(here) >= count else brokers

    def _manual_assignment(self, assignment: Mapping[int, Sequence[int]]) -> Replicas | Refusal:
        if sorted(assignment) != list(range(len(assignment))) or not assignment:
            text = "partitions must be numbered from 0 on without gaps"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
        factor = len(assignment[0])
        for index in range(len(assignment)):
            fault = find_assignment_fault(assignment[index], self.image.brokers, factor)
            if fault is not None:
                return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: {fault}"
        return {index: tuple(assignment[index]) for index in range(len(assignment))}

    def _added_partitions(self, topic: TopicImage, spec: PartitionsSpec) -> Replicas | Refusal:
        old_count, brokers = len(topic.partitions), self.image.brokers
        if spec.total_count <= old_count:
            text = f"the topic has {old_count} partitions; the total must be larger"
            return ErrorCode.INVALID_PARTITIONS, text
        if any(state.adding or state.removing for state in topic.partitions.values()):
            return ErrorCode.REASSIGNMENT_IN_PROGRESS, "the topic's replicas are being moved"
        factor = topic.replication_factor
        indexes = range(old_count, spec.total_count)
        if spec.assignment is None:
            if factor > len(brokers):
                text = too_few(factor, len(brokers))
                return ErrorCode.INVALID_REPLICATION_FACTOR, text
            refusal = self._refuse_size(len(indexes) * factor)
            # As if they had been there from the start: the first partition says where that was.
            usable = self._usable(factor)
            first, order = min(topic.partitions), broker_order(usable)
            preferred = topic.partitions[first].replicas[0]
            start = order.index(preferred) - first if preferred in order else 0
            return refusal or place(usable, indexes, factor, start)
        if len(spec.assignment) != len(indexes):
            text = f"{len(indexes)} partitions are added, {len(spec.assignment)} are assigned"
            return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
        for index, replicas in zip(indexes, spec.assignment, strict=True):
            fault = find_assignment_fault(replicas, brokers, factor)
            if fault is not None:
                return ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"partition {index}: {fault}"
        return {
            index: tuple(replicas) for index, replicas in zip(indexes, spec.assignment, strict=True)
        }

    def _write_topic(
        self, spec: TopicSpec, assignment: Replicas, configs: Mapping[str, str]
    ) -> None:
        stateless = _stateless(assignment)
        topic = TopicImage(spec.name, spec.topic_id, stateless)
        entity = Entity("topics", spec.name)
        config_path, config_data = paths.config(*entity), paths.build_config(configs)
        # The settings come first: a reader that sees the topic must see its settings.
        left_over = entity in self.image.configs
        self.writes.add(
            [
                Replace(config_path, config_data)
                if left_over
                else Create(config_path, config_data),
                Create(paths.topic(spec.name), topic_data(topic)),
                Create(paths.partitions(spec.name)),
            ],
            [ConfigChanged(entity, configs), TopicChanged(topic)],
        )
        self._write_partitions(spec.name, stateless)

    def _write_partitions(self, name: str, stateless: Mapping[int, PartitionState]) -> None:
        now = Circumstances(
            frozenset(self.image.brokers),
            away=self.context.away(self.image),
            low=without_room(self.context),
            stuck=without_room(self.context, Room.LOW),
            controller_epoch=self.context.identity.epoch,
        )
        for index in sorted(stateless):
            self.writes.add([Create(paths.partition(name, index))])
            settled = settle(stateless[index], now)
            if settled is not stateless[index]:
                self.writes.add_state(name, index, settled, self.image.brokers)
                self.new.append(TopicPartition(name, index))

    def _refuse_size(self, replica_count: int) -> Refusal | None:
        capacity = self.settings.replicas_per_broker_max * max(len(self.image.brokers), 1)
        known_count = self.context.tally.replica_count + self._replica_count
        if known_count + replica_count <= capacity:
            return None
        text = f"{replica_count} replicas more than {known_count} are too many"
        return ErrorCode.POLICY_VIOLATION, f"{text}: the limit is {capacity}"

    def _refuse_data(self, topic: TopicImage) -> Refusal | None:
        fault = find_size_fault(topic)
        return None if fault is None else (ErrorCode.POLICY_VIOLATION, fault)

    def _refuse(self, name: str, refusal: Refusal) -> None:
        assert refusal[0] is not ErrorCode.NONE, "the client would believe that it is done"
        self.results.append(TopicResult(name, refusal[0], refusal[1]))


def _stateless(assignment: Replicas) -> dict[int, PartitionState]:
    return {index: PartitionState(replicas) for index, replicas in assignment.items()}
