"""The controller: what happens in the cluster, one event at a time, as decisions.

``start`` settles the world that an earlier controller left; ``handle`` answers one event;
``replay`` takes a write into the image once the store has it. The shell does the writes of a
decision in order, replays each, then sends the requests. When a write is refused because somebody
else changed the same znodes, the shell reads the world again and makes another machine.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from ottla.coordinator.controller.brokers import BrokerDifference, compare_brokers
from ottla.coordinator.controller.events import (
    BrokersRead,
    ConfigRead,
    ControllerDecision,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    DirectoryFailed,
    Event,
    Identity,
    ReplicasAwaited,
    ReplicasBack,
    ReplicasFailed,
    RolesRefused,
    StatesRead,
    TopicsRead,
    World,
    Write,
)
from ottla.coordinator.controller.requests import RequestWriter
from ottla.coordinator.controller.settlement import Settlement
from ottla.coordinator.controller.topics import ConfigCheck, TopicPlan
from ottla.coordinator.controller.writes import WriteList, topic_data
from ottla.coordinator.metadata.changes import (
    BrokerChanged,
    BrokerGone,
    Change,
    ConfigChanged,
    ConfigGone,
    PartitionChanged,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.delta import apply_changes, next_image
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, Operation, Replace
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.coordinator.controller.specs import ControllerSettings, TopicResult
    from ottla.coordinator.metadata.image import MetadataImage


class Controller:
    """One controllership: made after an election, thrown away at resignation (C-04)."""

    def __init__(
        self,
        identity: Identity,
        settings: ControllerSettings,
        world: World,
        check_configs: ConfigCheck,
    ) -> None:
        self.identity = identity
        self.image = world.image
        self._settings = settings
        self._check_configs = check_configs
        self._seen = dict(world.seen_generations)
        self._deleting = set(world.deleting)
        self._without_id = world.without_id
        self._offline: dict[int, set[TopicPartition]] = {}
        self._settlement = Settlement(settings, identity.epoch, self._deleting, self._offline)

    def start(self) -> ControllerDecision:
        """Settle every partition, then tell every live broker everything."""
        live = tuple(self.image.brokers.values())
        difference = compare_brokers(self.image.brokers, live, self._seen)
        writes = WriteList()
        for name in sorted(self._without_id):
            topic = self.image.topics[name]
            writes.add([Replace(paths.topic(name), topic_data(topic))])
        self._settlement.settle(writes, self.image, _every_partition(self.image), difference)
        self._mark_seen(writes, difference)
        done = writes.finish()
        writer = self._writer(self._after(done))
        messages = [
            request for node_id in sorted(self.image.brokers) for request in writer.welcome(node_id)
        ]
        return ControllerDecision(done, tuple(messages), reason="elected")

    def handle(self, event: Event, now_ms: float) -> ControllerDecision:
        """Answer one event. ``now_ms`` is not looked at: nothing here waits."""
        del now_ms
        match event:
            case BrokersRead():
                return self._on_brokers(event)
            case TopicsRead():
                return self._on_topics(event)
            case StatesRead():
                return self._on_states(event)
            case ConfigRead():
                return self._on_config(event)
            case ReplicasFailed(node_id, partitions):
                offline = self._offline.setdefault(node_id, set())
                # What is known is not told again: the broker would refuse that as well, and so on.
                news = [item for item in partitions if item not in offline and self._has(item)]
                offline.update(partitions)
                return self._settled(news, None, f"broker {node_id} lost replicas")
            case ReplicasBack(node_id, partitions):
                return self._on_replicas_back(node_id, partitions)
            case DirectoryFailed(node_id):
                held = [one for one in _every_partition(self.image) if self._is_on(node_id, one)]
                lost = self.offline_on(node_id)
                return self._ask(node_id, [item for item in held if item not in lost])
            case ReplicasAwaited(node_id):
                return self._ask(node_id, sorted(self.offline_on(node_id)))
            case RolesRefused(partitions):
                known = [item for item in partitions if self._has(item)]
                messages = tuple(self._writer(self.image).announce(known)) if known else ()
                return ControllerDecision(messages=messages, reason="roles were refused")
            case CreateTopics(specs, validate_only):
                plan = self._plan()
                for spec in specs:
                    plan.create(spec)
                return self._carry_out(plan, validate_only, "create topics")
            case CreatePartitions(additions, validate_only):
                plan = self._plan()
                for addition in additions:
                    plan.enlarge(addition)
                return self._carry_out(plan, validate_only, "create partitions")
            case DeleteTopics(deletions):
                plan = self._plan()
                for deletion in deletions:
                    plan.delete(deletion)
                return self._carry_out(plan, False, "delete topics")
            case _:
                assert_never(event)

    def replay(self, write: Write) -> None:
        """Take in what the store has accepted."""
        delta = apply_changes(self.image, write.changes)
        self.image = delta.after
        for topic in delta.gone_topics:
            for offline in self._offline.values():
                offline.difference_update([item for item in offline if item.topic == topic.name])
        for operation in write.operations:
            path = operation.path
            if path.startswith(paths.DELETE_TOPICS + "/"):
                name = path.removeprefix(paths.DELETE_TOPICS + "/")
                if isinstance(operation, Create):
                    self._deleting.add(name)
                else:
                    self._deleting.discard(name)
            elif path.startswith(paths.SEEN_GENERATIONS + "/"):
                assert isinstance(operation, Create | Replace)
                node_id = int(path.rpartition("/")[2])
                self._seen[node_id] = int(operation.data)
                # A broker that has just started says anew what it cannot serve.
                self._offline.pop(node_id, None)

    @property
    def deleting(self) -> frozenset[str]:
        """Topics whose deletion has begun and not ended."""
        return frozenset(self._deleting)

    def offline_on(self, node_id: int) -> frozenset[TopicPartition]:
        """The replicas that a live broker cannot serve."""
        return frozenset(self._offline.get(node_id, ()))

    def _ask(self, node_id: int, items: list[TopicPartition]) -> ControllerDecision:
        if node_id not in self.image.brokers:
            return ControllerDecision(reason="the broker has gone")
        known = [item for item in items if self._has(item)]
        messages = tuple(self._writer(self.image).ask(node_id, known))
        return ControllerDecision(messages=messages, reason=f"what can broker {node_id} serve")

    def _on_replicas_back(
        self, node_id: int, partitions: Iterable[TopicPartition]
    ) -> ControllerDecision:
        back = self.offline_on(node_id).intersection(partitions)
        if not back:
            return ControllerDecision(reason="nothing was missing")
        self._offline[node_id].difference_update(back)
        items = [item for item in sorted(back) if self._has(item)]
        return self._settled(items, None, f"broker {node_id} has replicas back")

    def _on_brokers(self, event: BrokersRead) -> ControllerDecision:
        difference = compare_brokers(self.image.brokers, event.brokers, self._seen)
        changes: list[Change] = [BrokerGone(node_id) for node_id in difference.gone]
        changes += [BrokerChanged(one) for one in (*difference.started, *difference.moved)]
        if not changes:
            return ControllerDecision(reason="the same brokers")
        touched = difference.restarted_ids | set(difference.gone)
        image = next_image(self.image, changes)
        writes = WriteList()
        writes.add([], changes)
        affected = [
            item
            for item in _every_partition(image)
            if touched.intersection(image.topics[item.topic].partitions[item.partition].replicas)
        ]
        changed = self._settlement.settle(writes, image, affected, difference)
        self._mark_seen(writes, difference)
        done = writes.finish()
        writer = self._writer(self._after(done), restarted=difference.restarted_ids)
        messages = [
            request
            for request in writer.announce(changed, self._new(changed))
            if request.node_id not in difference.restarted_ids
        ]
        for node_id in sorted(difference.restarted_ids):
            messages += writer.welcome(node_id)
        return ControllerDecision(done, tuple(messages), reason="brokers changed")

    def _on_topics(self, event: TopicsRead) -> ControllerDecision:
        gone = [
            topic for name, topic in sorted(self.image.topics.items()) if name not in event.names
        ]
        changes: list[Change] = [TopicGone(topic.name) for topic in gone]
        touched: list[TopicPartition] = []
        writes = WriteList()
        for topic in event.topics:
            known = self.image.topics.get(topic.name)
            if known == topic:
                continue
            if known is not None and known.topic_id != topic.topic_id:
                gone.append(known)
            changes.append(TopicChanged(topic))
            touched += [TopicPartition(topic.name, index) for index in sorted(topic.partitions)]
            if topic.name in event.without_id:
                writes.add([Replace(paths.topic(topic.name), topic_data(topic))])
        writes.add([], changes)
        image = next_image(self.image, changes)
        changed = self._settlement.settle(writes, image, touched, None)
        done = writes.finish()
        new = self._new(changed)
        writer = self._writer(self._after(done))
        messages = [*writer.farewell(gone)] if gone else []
        messages += writer.announce(touched, new) if touched else []
        return ControllerDecision(done, tuple(messages), reason="topics changed")

    def _on_states(self, event: StatesRead) -> ControllerDecision:
        """Others may only change the ISR of what they lead, so the roles stay as they are."""
        changes = [
            PartitionChanged(item.topic, item.partition, state)
            for item, state in sorted(event.states.items())
            if self._has(item)
            and state.partition_epoch
            > self.image.topics[item.topic].partitions[item.partition].partition_epoch
        ]
        if not changes:
            return ControllerDecision(reason="the same states")
        done = (Write((), tuple(changes)),)
        changed = [TopicPartition(change.topic, change.partition) for change in changes]
        messages = tuple(self._writer(self._after(done)).update(changed))
        return ControllerDecision(done, messages, reason="leaders changed ISRs")

    def _on_config(self, event: ConfigRead) -> ControllerDecision:
        change: Change = ConfigGone(event.entity)
        if event.values is not None:
            change = ConfigChanged(event.entity, event.values)
        writes = WriteList()
        writes.add([], [change])
        image = next_image(self.image, [change])
        topic = image.topics.get(event.entity.name)
        if event.entity.entity_type != "topics" or topic is None:
            return ControllerDecision(writes.finish(), reason="settings changed")
        # An unclean election may have become allowed for a topic without leader.
        touched = [TopicPartition(topic.name, index) for index in sorted(topic.partitions)]
        changed = self._settlement.settle(writes, image, touched, None)
        done = writes.finish()
        messages = tuple(self._writer(self._after(done)).announce(changed)) if changed else ()
        return ControllerDecision(done, messages, reason=f"settings of {topic.name} changed")

    def _settled(
        self, items: list[TopicPartition], difference: BrokerDifference | None, reason: str
    ) -> ControllerDecision:
        writes = WriteList()
        changed = self._settlement.settle(writes, self.image, items, difference)
        done = writes.finish()
        # Also those whose leadership stays are told about: their list of offline replicas changed.
        messages = tuple(self._writer(self._after(done)).announce(items, self._new(changed)))
        return ControllerDecision(done, messages, reason=reason)

    def _mark_seen(self, writes: WriteList, difference: BrokerDifference) -> None:
        """The last of the writes: a controller that dies before it leaves all to be done again."""
        for broker in difference.started:
            path = paths.seen_generation(broker.node_id)
            data = paths.build_number(broker.generation)
            operation: Operation = Create(path, data)
            if broker.node_id in self._seen:
                operation = Replace(path, data)
            writes.add([operation])

    def _plan(self) -> TopicPlan:
        return TopicPlan(
            self.image, self._settings, self._check_configs, self.identity.epoch, self.deleting
        )

    def _carry_out(self, plan: TopicPlan, validate_only: bool, reason: str) -> ControllerDecision:
        reply: tuple[TopicResult, ...] = tuple(plan.results)
        if validate_only:
            return ControllerDecision(reply=reply, reason=f"{reason}: validate only")
        done = plan.writes.finish()
        writer = self._writer(self._after(done))
        messages = [*writer.announce(plan.new, frozenset(plan.new))] if plan.new else []
        messages += writer.farewell(plan.gone) if plan.gone else []
        return ControllerDecision(done, tuple(messages), reply, reason)

    def _writer(
        self, image: MetadataImage, restarted: frozenset[int] = frozenset()
    ) -> RequestWriter:
        offline = {
            node_id: lost for node_id, lost in self._offline.items() if node_id not in restarted
        }
        return RequestWriter(self.identity, image, offline)

    def _after(self, writes: Iterable[Write]) -> MetadataImage:
        changes = [change for write in writes for change in write.changes]
        return next_image(self.image, changes)

    def _new(self, changed: Iterable[TopicPartition]) -> frozenset[TopicPartition]:
        """Those that had no state before this decision."""
        return frozenset(item for item in changed if not self._has_state(item))

    def _has(self, item: TopicPartition) -> bool:
        return self.image.partition(item.topic, item.partition) is not None

    def _is_on(self, node_id: int, item: TopicPartition) -> bool:
        state = self.image.partition(item.topic, item.partition)
        return state is not None and node_id in state.replicas

    def _has_state(self, item: TopicPartition) -> bool:
        state = self.image.partition(item.topic, item.partition)
        return state is not None and state.has_state


def _every_partition(image: MetadataImage) -> list[TopicPartition]:
    return [
        TopicPartition(name, index)
        for name in sorted(image.topics)
        for index in sorted(image.topics[name].partitions)
    ]
