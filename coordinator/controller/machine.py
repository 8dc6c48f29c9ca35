"""The controller's state machine: turns one event at a time into a decision.

``start`` settles the cluster that an earlier controller left; ``handle`` decides about one event;
``advance`` continues operations of several steps; ``replay`` applies a write to the image once the
store has it. The caller executes the writes of a decision in order, replays each, then sends the
requests. If the store refuses a write because the same znodes have changed, the caller re-reads
them and retries, or re-reads the cluster and creates another machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ottla.coordinator.controller import (
    broker_events,
    deletions,
    elections,
    move_events,
    replica_events,
    topic_events,
)
from ottla.coordinator.controller.brokers import compare_brokers
from ottla.coordinator.controller.context import ControllerContext, every_partition
from ottla.coordinator.controller.events import (
    AlterMoves,
    BalanceDue,
    BrokerAnswers,
    BrokersRead,
    BrokerSuspected,
    ConfigRead,
    ControllerDecision,
    ControllerEpoch,
    ControlRequest,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DirectoryFailed,
    ElectLeaders,
    Event,
    MovesAsked,
    PreferredAsked,
    ReplicasAwaited,
    ReplicasBack,
    ReplicasDeleted,
    ReplicasFailed,
    RolesRefused,
    RoomRead,
    ShutdownAsked,
    StatesRead,
    StoredCluster,
    TopicsRead,
    UnregisterBroker,
    Write,
)
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.controller.topics import ConfigCheck, TopicPlan
from ottla.coordinator.controller.writes import WriteList, topic_data
from ottla.coordinator.metadata.image import NO_LEADER
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.coordinator.controller.specs import ControllerSettings
    from ottla.coordinator.metadata.image import MetadataImage, PartitionState
    from ottla.protocol.ids import TopicPartition


class Controller:
    """One controllership: created after an election, dropped at resignation (C-04)."""

    def __init__(
        self,
        identity: ControllerEpoch,
        settings: ControllerSettings,
        world: StoredCluster,
        check_configs: ConfigCheck,
    ) -> None:
        self.identity = identity
        self.context = ControllerContext(identity, settings, world)
        self._check_configs = check_configs

    def start(self, now_ms: float = 0.0) -> ControllerDecision:
        """Settle every partition, then send all state to every live broker."""
        context = self.context
        context.begun_ms = now_ms
        live = tuple(self.image.brokers.values())
        difference = compare_brokers(self.image.brokers, live, context.seen)
        writes = WriteList()
        for name in sorted(context.without_id):
            topic = self.image.topics[name]
            version = context.topic_version(name)
            writes.add([Replace(paths.topic(name), topic_data(topic), version)])
        Settlement(context).settle(writes, self.image, every_partition(self.image), difference)
        broker_events.mark_seen(context, writes, difference)
        done = writes.finish()
        assert broker_events.ends_with_marks(done, difference)
        writer = context.writer(context.after(done))
        messages: list[ControlRequest] = []
        for node_id in sorted(self.image.brokers):
            messages += deletions.remind(context, writer, node_id)
            messages += writer.welcome(node_id)
        return ControllerDecision(done, tuple(messages), reason="a controller begins")

    def handle(self, event: Event, now_ms: float) -> ControllerDecision:
        """Decide about one event."""
        context = self.context
        match event:
            case CreateTopics() | CreatePartitions() | DeleteTopics():
                return self._on_topic_request(event)
            case BrokersRead():
                return broker_events.on_brokers(context, event, now_ms)
            case BrokerSuspected():
                return broker_events.on_suspected(context, event)
            case BrokerAnswers():
                return broker_events.on_answers(context, event)
            case ShutdownAsked():
                return broker_events.on_shutdown(context, event)
            case TopicsRead():
                return topic_events.on_topics(context, event)
            case StatesRead():
                return topic_events.on_states(context, event, now_ms)
            case ConfigRead():
                return topic_events.on_config(context, event)
            case ReplicasFailed():
                return replica_events.on_failed(context, event)
            case ReplicasBack():
                return replica_events.on_back(context, event)
            case DirectoryFailed():
                return replica_events.on_directory_failed(context, event)
            case RoomRead():
                return replica_events.on_room(context, event, now_ms)
            case UnregisterBroker():
                return deletions.on_unregistered(context, event)
            case ReplicasDeleted():
                return deletions.on_deleted(context, event)
            case ReplicasAwaited(node_id):
                return replica_events.ask(context, node_id, sorted(self.offline_on(node_id)))
            case RolesRefused(node_id, partitions):
                return replica_events.ask(context, node_id, partitions)
            case ElectLeaders():
                return elections.on_elect(context, event)
            case PreferredAsked():
                return elections.on_preferred_asked(context, event)
            case BalanceDue():
                return elections.on_balance(context, now_ms)
            case AlterMoves():
                return move_events.alter(context, event)
            case MovesAsked():
                return move_events.asked(context, event)
            case _:
                assert_never(event)

    def advance(self) -> ControllerDecision | None:
        """The next step of operations with several steps; None if there is none."""
        return move_events.advance(self.context)

    def announce(self, items: Iterable[TopicPartition]) -> ControllerDecision:
        """Announce partitions whose states were written by a decision that was not completed."""
        known = [item for item in sorted(set(items)) if self.context.has(item)]
        messages = tuple(self.context.writer(self.image).announce(known)) if known else ()
        return ControllerDecision(messages=messages, reason="written, and not told so far")

    def replay(self, write: Write) -> None:
        """Apply a write that the store has accepted."""
        self.context.replay(write)

    @property
    def image(self) -> MetadataImage:
        """The cluster as far as the store has accepted it."""
        return self.context.image

    @property
    def deleting(self) -> frozenset[str]:
        """Topics whose deletion has begun and not ended."""
        return frozenset(self.context.deleting)

    @property
    def moving(self) -> frozenset[TopicPartition]:
        """Partitions whose replicas are being moved."""
        return frozenset(self.context.moving)

    @property
    def offline_partition_count(self) -> int:
        """The number of partitions without a leader."""
        return sum(state.leader == NO_LEADER for state in self._states())

    @property
    def owes_leaderships(self) -> bool:
        """Whether a balance is due before its usual time: a full disk has room again."""
        return bool(self.context.relieved)

    def _states(self) -> Iterator[PartitionState]:
        for topic in self.image.topics.values():
            yield from topic.partitions.values()

    def offline_on(self, node_id: int) -> frozenset[TopicPartition]:
        """The replicas that a live broker cannot serve."""
        return self.context.offline_on(node_id)

    def _on_topic_request(
        self, event: CreateTopics | CreatePartitions | DeleteTopics
    ) -> ControllerDecision:
        plan = TopicPlan(self.context, self._check_configs)
        match event:
            case CreateTopics(specs, validate_only):
                for spec in specs:
                    plan.create(spec)
                assert [one.name for one in plan.results] == [spec.name for spec in specs]
                return self._carry_out(plan, validate_only, "create topics")
            case CreatePartitions(additions, validate_only):
                for addition in additions:
                    plan.enlarge(addition)
                assert [one.name for one in plan.results] == [one.name for one in additions]
                return self._carry_out(plan, validate_only, "create partitions")
            case DeleteTopics(deletions):
                for deletion in deletions:
                    plan.delete(deletion)
                assert [one.name for one in plan.results] == [one.name for one in deletions]
                return self._carry_out(plan, False, "delete topics")

    def _carry_out(self, plan: TopicPlan, validate_only: bool, reason: str) -> ControllerDecision:
        reply = tuple(plan.results)
        if validate_only:
            return ControllerDecision(reply=reply, reason=f"{reason}: validate only")
        done = plan.writes.finish()
        writer = self.context.writer(self.context.after(done))
        messages = [*writer.announce(plan.new, frozenset(plan.new))] if plan.new else []
        messages += writer.forget_topics(plan.gone) if plan.gone else []
        return ControllerDecision(done, tuple(messages), reply, reason)
