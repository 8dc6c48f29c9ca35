"""A controller machine over a tree of znodes: decisions are carried out as a shell would do it.

Every operation of a decision runs against a real tree, so that a write that the store would refuse
fails the test.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar, cast

from ottla.coordinator.configs.config_changes import check_topic_configs
from ottla.coordinator.controller.events import (
    BrokersRead,
    ControllerDecision,
    ControllerEpoch,
    CreateTopics,
    DeleteTopics,
    StatesRead,
    StoredCluster,
)
from ottla.coordinator.controller.machine import Controller
from ottla.coordinator.controller.reading import topic_of
from ottla.coordinator.controller.specs import (
    ControllerSettings,
    PartitionResult,
    TopicDeletion,
    TopicResult,
    TopicSpec,
)
from ottla.coordinator.controller.states import StateChanges, Transition
from ottla.coordinator.controller.writes import payload_of
from ottla.coordinator.metadata.changes import BrokerChanged, Change, ConfigChanged, TopicChanged
from ottla.coordinator.metadata.delta import apply_changes
from ottla.coordinator.metadata.image import (
    BrokerRegistration,
    Endpoint,
    Entity,
    MetadataImage,
    PartitionState,
    TopicImage,
)
from ottla.coordinator.store import deleted_topics, paths
from ottla.coordinator.store.store import ANY_VERSION, Check, Create, Replace
from ottla.coordinator.store.tree import StoreTransaction, Tree
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest

if TYPE_CHECKING:
    from ottla.coordinator.controller.events import Event, Write
    from ottla.coordinator.store.deleted_topics import DeletedTopic
    from ottla.coordinator.store.tree import Step
    from ottla.protocol.errors import ErrorCode

AnyRequest = TypeVar("AnyRequest", LeaderAndIsrRequest, UpdateMetadataRequest, StopReplicaRequest)


def broker(
    node_id: int, generation: int = 1, clean_stop_epoch: int = -1, rack: str | None = None
) -> BrokerRegistration:
    endpoints = (Endpoint("PLAINTEXT", f"host{node_id}", 9092, "PLAINTEXT"),)
    return BrokerRegistration(node_id, endpoints, rack, generation, clean_stop_epoch)


class Scene:
    """One controller after another over one tree."""

    def __init__(
        self, *brokers: BrokerRegistration, settings: ControllerSettings | None = None
    ) -> None:
        self.tree = Tree()
        self.settings = settings or ControllerSettings()
        self.brokers = brokers
        self.sent: list[ControllerDecision] = []
        self.transitions: list[Transition] = []
        self.apply(tuple(Create(path) for path in paths.PERMANENT_PATHS))
        self.apply((Create(paths.CONTROLLER_EPOCH, b"1"),))
        self.epoch = 1
        self.ids = 0
        self.controller = self.elect()

    def apply(self, steps: tuple[Step, ...]) -> None:
        self.tree.apply(StoreTransaction(self.tree.last_zxid + 1, 0, 0, steps))

    def elect(self, *brokers: BrokerRegistration, now_ms: float = 0) -> Controller:
        """Another controller reads the world and settles it."""
        self.brokers = brokers or self.brokers
        self.epoch += 1
        self.register(*self.brokers)
        self.controller = Controller(
            ControllerEpoch(1, self.epoch), self.settings, self.read_world(), check_topic_configs
        )
        self.states = StateChanges(self.controller.image)
        self.carry_out(self.controller.start(now_ms))
        self.advance()
        return self.controller

    def register(self, *brokers: BrokerRegistration) -> None:
        """As brokers do: the version of the generation znode is the life that registers."""
        for one in brokers:
            path = paths.generation(one.node_id)
            if self.tree.exists(path) is None:
                self.apply((Create(path),))
            while self.tree.get(path).stat.version < one.generation:
                self.apply((Replace(path, b""),))

    def read_world(self) -> StoredCluster:
        image = MetadataImage("cluster", controller_id=1, controller_epoch=self.epoch)
        changes = [BrokerChanged(one) for one in self.brokers]
        topics: list[Change] = [
            TopicChanged(self.read_topic(name)) for name in self.tree.children(paths.TOPICS)
        ]
        topics += [
            ConfigChanged(
                Entity("topics", name),
                paths.parse_config(self.tree.get(f"/config/topics/{name}").data) or {},
            )
            for name in self.tree.children("/config/topics")
        ]
        seen = {
            int(node_id): int(self.tree.get(f"{paths.SEEN_GENERATIONS}/{node_id}").data)
            for node_id in self.tree.children(paths.SEEN_GENERATIONS)
        }
        wished = self.tree.children(paths.DELETE_TOPICS)
        deleting = frozenset(wished if self.settings.delete_topic_enable else ())
        versions = {
            name: self.tree.get(paths.topic(name)).stat.version
            for name in self.tree.children(paths.TOPICS)
        }
        after = apply_changes(image, [*changes, *topics]).after
        return StoredCluster(after, seen, deleting, topic_versions=versions, deleted=self.deleted())

    def deleted(self) -> tuple[DeletedTopic, ...]:
        """The records of deleted topics that are in the store."""
        names = self.tree.children(paths.DELETED_TOPICS)
        found = [
            deleted_topics.parse(name, self.tree.get(f"{paths.DELETED_TOPICS}/{name}").data)
            for name in names
        ]
        return tuple(one for one in found if one is not None)

    def read_topic(self, name: str) -> TopicImage:
        payload = paths.parse_topic(self.tree.get(paths.topic(name)).data)
        assert payload is not None
        assert payload.topic_id is not None
        states = {}
        for index in payload.partitions:
            if self.tree.exists(paths.state(name, index)) is not None:
                node = self.tree.get(paths.state(name, index))
                parsed = paths.parse_state(node.data)
                assert parsed is not None
                states[index] = (parsed, node.stat.version)
        return topic_of(name, payload.topic_id, payload, states)

    def carry_out(self, decision: ControllerDecision) -> ControllerDecision:
        for write in decision.records:
            if write.operations:
                self.apply((Check(paths.CONTROLLER_EPOCH, 0), *write.operations))
            self.replay(write)
        for name in self.controller.image.topics:
            version = self.controller.context.topic_version(name)
            assert version in (ANY_VERSION, self.tree.get(paths.topic(name)).stat.version)
        self.sent.append(decision)
        return decision

    def replay(self, write: Write) -> None:
        """Have the controller take in what is done; no state may follow that must not."""
        self.controller.replay(write)
        for change in write.changes:
            for transition in self.states.take(change):
                assert transition.is_legal, transition
                self.transitions.append(transition)

    def handle(self, event: Event, now_ms: float = 0) -> ControllerDecision:
        """The decision on the event; the steps that follow from it are carried out as well."""
        decision = self.carry_out(self.controller.handle(event, now_ms))
        self.advance()
        return decision

    def advance(self) -> None:
        while (decision := self.controller.advance()) is not None:
            self.carry_out(decision)

    def leader_writes(
        self, topic: str, partition: int, isr: tuple[int, ...], now_ms: float = 0
    ) -> ControllerDecision:
        """The leader changes its ISR in the store, and announces it."""
        state = self.state(topic, partition)
        written = replace(state, isr=isr, partition_epoch=state.partition_epoch + 1)
        data = paths.build_state(payload_of(written))
        self.apply((Replace(paths.state(topic, partition), data, state.partition_epoch),))
        return self.handle(StatesRead({TopicPartition(topic, partition): written}), now_ms)

    def live(self, *brokers: BrokerRegistration) -> ControllerDecision:
        self.brokers = brokers
        self.register(*brokers)
        return self.handle(BrokersRead(brokers))

    def create(self, *specs: TopicSpec, validate_only: bool = False) -> tuple[TopicResult, ...]:
        drawn = []
        for spec in specs:
            self.ids += 1
            drawn.append(replace(spec, topic_id=bytes([64]) + self.ids.to_bytes(15, "big")))
        return topic_results(self.handle(CreateTopics(tuple(drawn), validate_only)))

    def delete(self, name: str) -> ControllerDecision:
        return self.handle(DeleteTopics((TopicDeletion(name, self.subtree(name)),)))

    def subtree(self, name: str) -> tuple[str, ...]:
        prefix = paths.topic(name)
        found = [
            path for path, _ in self.tree.walk() if path == prefix or path.startswith(prefix + "/")
        ]
        return tuple(reversed(found))

    def state(self, topic: str, partition: int) -> PartitionState:
        """As the controller knows it, after making sure that the store says the same."""
        found = self.controller.image.partition(topic, partition)
        assert found is not None
        assert self.read_topic(topic).partitions[partition] == found
        return found


def topic_results(decision: ControllerDecision) -> tuple[TopicResult, ...]:
    """What a decision answers to a request about topics."""
    assert isinstance(decision.reply, tuple)
    assert all(isinstance(result, TopicResult) for result in decision.reply)
    return cast("tuple[TopicResult, ...]", decision.reply)


def partition_errors(decision: ControllerDecision) -> list[ErrorCode]:
    """What a decision answers to a request about partitions."""
    assert isinstance(decision.reply, tuple)
    found = [one.error_code for one in decision.reply if isinstance(one, PartitionResult)]
    assert len(found) == len(decision.reply)
    return found


def requests_to(
    decision: ControllerDecision, node_id: int, kind: type[AnyRequest]
) -> list[AnyRequest]:
    """The requests of that type that a decision sends to a broker."""
    return [
        message.request
        for message in decision.messages
        if message.node_id == node_id and isinstance(message.request, kind)
    ]
