"""Invariants that must hold at every moment, checked inside the brokers and the store.

``Watchman.look`` is called every tenth of a virtual second, ``on_commit`` at every transaction of
the store. Each violation is reported once."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import inf
from typing import TYPE_CHECKING

from ottla.broker.controlling.controller import ControllerCandidate
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, Delete, Replace
from tests.simulation.cluster.committed import Committed
from tests.simulation.cluster.kept_answers import KeptAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from ottla.broker.controlling.controllership import Controllership
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.server.broker import Broker
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.coordinator.store.paths import StatePayload
    from ottla.coordinator.store.tree import StoreTransaction, Tree
    from tests.simulation.cluster.evidence import ClusterHistory
    from tests.simulation.world.node import Node

# A replica by its topic's id and its partition's number.
Replicated = tuple[bytes, int]


class Cluster:
    """The brokers' insides: the node and the latest incarnation of its program."""

    def __init__(self, tree: Tree) -> None:
        self.tree = tree
        self.nodes: dict[int, Node] = {}
        self.brokers: dict[int, Broker] = {}

    def living(self) -> Iterator[tuple[int, Node, Broker]]:
        """Those whose process exists, stopped or not."""
        for node_id, node in self.nodes.items():
            broker = self.brokers.get(node_id)
            if node.running and broker is not None:
                yield node_id, node, broker

    def state(self, topic: str, partition: int) -> StatePayload | None:
        """The partition's state in the store."""
        node = self.tree.nodes.get(paths.state(topic, partition))
        return None if node is None else _parsed(node.data)

    def leader(self, topic: str, partition: int, state: StatePayload) -> PartitionRuntime | None:
        """The partition at the leader that a state names, if it leads there in that epoch."""
        broker = self.brokers.get(state.leader)
        for runtime in () if broker is None else broker.partitions:
            replica = runtime.replica
            if runtime.partition == (topic, partition) and replica.leading is not None:
                return runtime if replica.leader_epoch == state.leader_epoch else None
        return None

    def topics(self) -> Mapping[str, paths.TopicPayload]:
        """The topics in the store, by name."""
        found = {}
        for name in self.tree.children(paths.TOPICS):
            payload = paths.parse_topic(self.tree.nodes[paths.topic(name)].data)
            if payload is not None:
                found[name] = payload
        return found

    def partitions(self) -> list[tuple[str, int]]:
        """All that the store has."""
        if paths.TOPICS not in self.tree.nodes:
            return []
        return [
            (name, number)
            for name, payload in sorted(self.topics().items())
            for number in sorted(payload.partitions)
        ]

    def expansions(self) -> list[tuple[int, int]]:
        """Leader and joiner, wherever one is being added to an in-sync set right now."""
        found: dict[tuple[int, int], None] = {}
        for node_id, _, broker in self.living():
            for runtime in broker.partitions:
                leading = runtime.replica.leading
                if leading is not None and leading.in_sync.pending is not None:
                    added = leading.in_sync.pending.added
                    found |= dict.fromkeys((node_id, joining) for joining, _ in added)
        return sorted(found)

    def seen_generation(self, node_id: int) -> int | None:
        """The life of a broker that a controller has acted upon last."""
        node = self.tree.nodes.get(paths.seen_generation(node_id))
        return None if node is None else paths.parse_number(node.data)

    def is_whole(self, but: int | None = None) -> bool:
        """Every broker runs, is registered in its latest life, and is in all its in-sync sets;
        all except one, perhaps."""
        tree = self.tree
        if paths.TOPICS not in tree.nodes:
            return False
        for node_id, node in self.nodes.items():
            if node_id == but:
                continue
            generation = tree.nodes.get(paths.generation(node_id))
            seen = tree.nodes.get(paths.seen_generation(node_id))
            broker = self.brokers.get(node_id)
            if not node.running or broker is None or generation is None or seen is None:
                return False
            if node.process is not None and node.process.domain.stopped:
                return False
            if broker.parts.receiver.broker_epoch != generation.version:
                return False
            if paths.parse_number(seen.data) != generation.version:
                return False
            if paths.broker(node_id) not in tree.nodes:
                return False
        return not self.missing(but)

    def unknown_to(self, node: Node, image: MetadataImage) -> list[str]:
        """Partitions that a broker does not know, or knows otherwise than the store."""
        found, topics = list[str](), self.topics()
        for name, number in self.partitions():
            stored, known = self.state(name, number), image.partition(name, number)
            if stored is None or known is None:
                found.append(f"{node.name} does not know {name}-{number}")
            elif image.topics[name].topic_id != topics[name].topic_id:
                found.append(f"{node.name} knows {name} of before it was created again")
            elif (known.leader, known.leader_epoch, {*known.isr}) != (
                stored.leader,
                stored.leader_epoch,
                {*stored.isr},
            ):
                found.append(f"{node.name} knows {known} of {name}-{number}, not {stored}")
        return found

    def missing(self, but: int | None = None) -> list[str]:
        """Partitions without a leader or with replicas that are not in sync."""
        found = []
        for name, payload in self.topics().items():
            for number, replicas in payload.partitions.items():
                state = self.state(name, number)
                moving = number in payload.adding or number in payload.removing
                is_led = state is not None and state.leader >= 0
                absent = {*replicas} if state is None else {*replicas} - {*state.isr}
                if moving or not is_led or absent - {but}:
                    found.append(f"{name}-{number}: {state}, replicas {replicas}, {moving=}")
        return found


class Watchman:
    """Looks, compares and remembers."""

    def __init__(
        self,
        cluster: Cluster,
        history: ClusterHistory,
        report: Callable[[str], object],
        *,
        clean: bool = True,
    ) -> None:
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self._cluster = cluster
        self._history = history
        self._report = report
        self._is_clean = clean
        self._committed = Committed(self.violation)
        self._answers = KeptAnswers(self.violation, self.counts)
        self._told: set[str] = set()
        # Who was seen leading in which epoch, and the highest watermark seen anywhere.
        self._leaders: dict[tuple[Replicated, int], int] = {}
        self._watermarks: dict[Replicated, int] = {}
        # The last watermark of a replica in one life and one leadership.
        self._own: dict[object, int] = {}
        self._states: dict[str, StatePayload] = {}
        # When a replica left the ISR in the present leader epoch, by the leader's clock.
        self._left: dict[tuple[str, int], tuple[int, float]] = {}
        self._controller_epoch = 0
        self._controllers: dict[int, int] = {}
        self._judged_writes = 0

    def violation(self, key: str, what: str) -> None:
        """Report a violation; each key is reported once."""
        if key not in self._told:
            self._told.add(key)
            self.violations.append(what)
            self._report(f"VIOLATION {what}")

    # ---- the store ----

    def on_commit(self, transaction: StoreTransaction) -> None:
        """Every transaction of the store, after it was done."""
        for step in transaction.steps:
            if isinstance(step, Replace | Create):
                if step.path.endswith("/state"):
                    self._judge_state(step.path, step.data)
                elif step.path == paths.CONTROLLER_EPOCH:
                    self._judge_controller_epoch(step.data)
            elif isinstance(step, Delete):
                self._states.pop(step.path, None)

    def _judge_controller_epoch(self, data: bytes) -> None:
        epoch = paths.parse_number(data) or 0
        if epoch < self._controller_epoch:
            self.violation("controller", f"store: controller epoch {epoch} after a later one")
        self._controller_epoch = epoch
        self.counts["controllers"] += 1

    def _judge_state(self, path: str, data: bytes) -> None:
        state = paths.parse_state(data)
        if state is None:
            self.violation(path, f"store: {path} is unreadable")
            return
        before = self._states.get(path)
        self._states[path] = state
        topic, number = _partition_of(path)
        node = self._cluster.tree.nodes.get(paths.topic(topic))
        payload = None if node is None else paths.parse_topic(node.data)
        assigned = () if payload is None else payload.partitions.get(number, ())
        if payload is not None and not {*state.isr} <= {*assigned}:
            self.violation(
                f"{path} isr", f"store: ISR {state.isr} of {topic}-{number} beyond {assigned}"
            )
        if state.leader >= 0 and state.leader not in state.isr:
            self.violation(f"{path} leader", f"store: {state} of {topic}-{number}")
        if before is None:
            return
        if state.leader_epoch < before.leader_epoch:
            self.violation(f"{path} epoch", f"store: {topic}-{number} {before}, then {state}")
        # Leaders change their in-sync sets; another epoch is always a controller's doing.
        is_new_epoch = state.leader_epoch != before.leader_epoch
        if is_new_epoch and state.controller_epoch < self._controller_epoch:
            self.violation(
                f"{path} zombie",
                f"zombie: {state} of {topic}-{number} was written in controller epoch "
                f"{self._controller_epoch}",
            )
        if state.leader != before.leader:
            self.counts["elections"] += 1
            if state.leader_epoch == before.leader_epoch:
                self.violation(f"{path} same", f"store: {topic}-{number} {before}, then {state}")
        if state.leader >= 0 and state.leader not in (*before.isr, *before.eligible_leaders):
            self.counts["unclean elections"] += 1
            if self._is_clean:
                self.violation(
                    f"{path} unclean", f"store: unclean: {topic}-{number} {before}, then {state}"
                )
        if not is_new_epoch:
            self._judge_members(path, before, state)
        self.counts["expansions"] += not {*state.isr} <= {*before.isr}
        self.counts["shrinkings"] += not {*before.isr} <= {*state.isr}

    def _judge_members(self, path: str, before: StatePayload, state: StatePayload) -> None:
        """A replica that joins the ISR has fetched from this leader, and since it left.

        So one that is cut off leaves once, and does not go in and out (R-17)."""
        topic, number = _partition_of(path)
        runtime = self._cluster.leader(topic, number, state)
        leading = None if runtime is None else runtime.replica.leading
        if runtime is None or leading is None:
            return
        epoch = state.leader_epoch
        for node_id in {*before.isr} - {*state.isr}:
            self._left[path, node_id] = epoch, runtime._clock.now_ms()
        for node_id in {*state.isr} - {*before.isr}:
            follower = leading.followers.get(node_id)
            left_epoch, left_ms = self._left.get((path, node_id), (-1, -inf))
            if follower is None:
                continue
            self.counts["returns"] += left_epoch == epoch
            was_heard = left_epoch != epoch or follower.last_fetch_ms > left_ms
            if not (follower.is_known and was_heard):
                self.violation(
                    f"{path} unheard {node_id}",
                    f"unheard: broker {node_id} joins the ISR of {topic}-{number} and has not "
                    f"fetched from its leader in epoch {epoch} since it left",
                )

    # ---- the brokers ----

    def look(self) -> None:
        """Once over all replicas of all living brokers."""
        for node_id, node, broker in self._cluster.living():
            self._look_at_controller(node_id, broker)
            self._answers.look(node_id, broker.metadata)
            for runtime in broker.partitions:
                self._look_at(node_id, node, runtime)
        self._judge_acknowledged()

    def _look_at(self, node_id: int, node: Node, runtime: PartitionRuntime) -> None:
        replica, log = runtime.replica, runtime.log
        name = f"{runtime.partition.topic}-{runtime.partition.partition}"
        where = f"broker {node_id}, {name}"
        # A log that is being cut is ahead of its replica until that is done.
        is_told = log.log_end_offset == replica.log_end_offset
        if is_told and not log.log_start_offset <= replica.high_watermark <= log.log_end_offset:
            self.violation(where, f"bounds: {where}: {log}, watermark {replica.high_watermark}")
        identity: Replicated = (log.topic_id or b"", runtime.partition.partition)
        leading = replica.leading
        if leading is not None and runtime.is_open:
            self._look_at_leader(node_id, identity, runtime, where)
        own = (node_id, node.incarnation, identity, replica.leader_epoch)
        if replica.high_watermark < self._own.get(own, 0) and leading is not None:
            self.violation(
                f"{where} back",
                f"watermark: {where}: {self._own[own]}, then {replica.high_watermark}",
            )
        self._own[own] = replica.high_watermark
        if self._is_clean:
            self._committed.compare(where, identity, node, runtime)
        known = self._watermarks.get(identity, 0)
        self._watermarks[identity] = max(known, replica.high_watermark)

    def _look_at_controller(self, node_id: int, broker: Broker) -> None:
        controllership = _controllership(broker)
        if controllership is not None:
            epoch = controllership.identity.epoch
            if self._controllers.setdefault(epoch, node_id) != node_id:
                self.violation(
                    f"controllers {epoch}",
                    f"two controllers: broker {node_id} in epoch {epoch}, "
                    f"and so was broker {self._controllers[epoch]}",
                )

    def _look_at_leader(
        self, node_id: int, identity: Replicated, runtime: PartitionRuntime, where: str
    ) -> None:
        replica = runtime.replica
        key = (identity, replica.leader_epoch)
        first = key not in self._leaders
        if self._leaders.setdefault(key, node_id) != node_id:
            self.violation(
                f"{where} two",
                f"two leaders: {where} leads in epoch {replica.leader_epoch}, "
                f"and so did broker {self._leaders[key]}",
            )
        known = self._watermarks.get(identity, 0)
        stored = self._cluster.state(*runtime.partition)
        is_current = stored is not None and stored.leader_epoch == replica.leader_epoch
        if first and self._is_clean and is_current and runtime.log.log_end_offset < known:
            self.violation(
                f"{where} lost",
                f"lost: {where} leads in epoch {replica.leader_epoch} with "
                f"{runtime.log.log_end_offset} records, {known} were committed",
            )

    def _judge_acknowledged(self) -> None:
        """Acknowledged records lie below the high watermark of the current leader.

        Only what this leader wrote itself, or must have had when it began."""
        leaders: dict[tuple[str, int], PartitionRuntime] = {}
        for _, _, broker in self._cluster.living():
            for runtime in broker.partitions:
                replica = runtime.replica
                stored = self._cluster.state(*runtime.partition)
                if (
                    replica.leading is not None
                    and runtime.is_open
                    and stored is not None
                    and stored.leader_epoch == replica.leader_epoch
                ):
                    leaders[runtime.partition] = runtime
        for partition, offset in self._history.acknowledged_since(self._judged_writes):
            found = leaders.get(partition)
            if found is None or not self._is_clean:
                continue
            leading = found.replica.leading
            assert leading is not None
            if leading.epoch_start_offset <= offset and offset >= found.replica.high_watermark:
                self.violation(
                    f"{partition} early",
                    f"early: offset {offset} of {partition} is acknowledged, the leader of epoch "
                    f"{found.leader_epoch} has its watermark at {found.replica.high_watermark}",
                )
        self._judged_writes = len(self._history.acknowledged)


@lru_cache(maxsize=1_000)
def _parsed(data: bytes) -> StatePayload | None:
    """The same few states are looked at over and over."""
    return paths.parse_state(data)


def _partition_of(path: str) -> tuple[str, int]:
    """``/brokers/topics/<t>/partitions/<p>/state``."""
    parts = path.split("/")
    return parts[3], int(parts[5])


def _controllership(broker: Broker) -> Controllership | None:
    lifecycle = broker.state.lifecycle
    followers = () if lifecycle is None else lifecycle._followers
    for one in followers:
        if isinstance(one, ControllerCandidate):
            return one.controllership
    return None
