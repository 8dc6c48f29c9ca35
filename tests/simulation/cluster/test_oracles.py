"""Each oracle of the cluster sees what is planted for it, and lets its near miss pass."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from ottla.broker.handlers.metadata_topics import kept_topics
from ottla.broker.metadata.metadata import MetadataCache
from ottla.coordinator.metadata.changes import BrokerChanged, PartitionChanged, TopicChanged
from ottla.coordinator.metadata.image import (
    BrokerRegistration,
    Endpoint,
    PartitionState,
    TopicImage,
)
from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Create, Delete, Operation, Replace
from ottla.coordinator.store.tree import StoreTransaction, Tree
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.builder import encode_batch
from tests.broker.support.node import HandClock
from tests.simulation.cluster.committed import Committed
from tests.simulation.cluster.evidence import ClusterHistory, judge_cluster
from tests.simulation.cluster.oracles import Cluster, Watchman
from tests.simulation.history import Fate, FinalLog, Watermarks, Write

PARTITION = TopicPartition("t", 0)
STATE = paths.state("t", 0)


class Stage:
    """A store's tree, brokers made of what the watchman looks at, and the watchman."""

    def __init__(self, *, clean: bool = True) -> None:
        self.tree = Tree()
        self.cluster = Cluster(self.tree)
        self.history = ClusterHistory()
        self.watchman = Watchman(self.cluster, self.history, lambda _: None, clean=clean)
        self.files: dict[str, bytearray] = {}
        self.now_ms = 0.0
        for path in (*paths.PERMANENT_PATHS, paths.topic("t"), paths.partitions("t")):
            if path not in self.tree.nodes:
                self.write(Create(path))
        payload = paths.TopicPayload(b"i" * 16, {0: (0, 1, 2)})
        self.write(Replace(paths.topic("t"), paths.build_topic(payload)))
        self.write(Create(paths.partition("t", 0)))

    def write(self, *operations: Operation) -> None:
        transaction = StoreTransaction(self.tree.last_zxid + 1, 0, 0, operations)
        self.tree.apply(transaction)
        self.watchman.on_commit(transaction)

    def state(self, *, leader: int = 0, epoch: int = 0, **more: Any) -> None:
        isr = more.get("isr", (0, 1, 2))
        payload = paths.StatePayload(
            leader, epoch, isr, more.get("controller", 1), False, more.get("eligible", ())
        )
        data = paths.build_state(payload)
        self.write(Replace(STATE, data) if STATE in self.tree.nodes else Create(STATE, data))

    def broker(self, node_id: int, **what: Any) -> SimpleNamespace:
        """A broker with one replica of the partition; returns the replica's runtime."""
        end, epoch = what.get("end", 10), what.get("epoch", 0)
        watermark = what.get("watermark", end)
        leading = SimpleNamespace(epoch_start_offset=what.get("start", 0), followers={})
        path = f"/{node_id}.log"
        self.files[path] = bytearray(what.get("data", b""))
        segment = SimpleNamespace(
            path=path,
            base_offset=0,
            next_offset=end,
            size_bytes=len(self.files[path]),
            starts={},
        )
        log = SimpleNamespace(
            log_start_offset=0, log_end_offset=end, topic_id=b"i" * 16, segments=(segment,)
        )
        replica = SimpleNamespace(
            high_watermark=watermark,
            log_end_offset=end,
            leader_epoch=epoch,
            leading=leading if what.get("leads") else None,
        )
        settings = SimpleNamespace(append_rules=SimpleNamespace(is_compacted=False))
        runtime = SimpleNamespace(
            settings=settings,
            partition=PARTITION,
            log=log,
            replica=replica,
            is_open=True,
            leader_epoch=epoch,
            _clock=SimpleNamespace(now_ms=lambda: self.now_ms),
        )
        broker: Any = SimpleNamespace(
            partitions=[runtime],
            state=SimpleNamespace(lifecycle=None),
            metadata=MetadataCache(HandClock()),
        )
        files = SimpleNamespace(file=lambda path: SimpleNamespace(data=self.files[path]))
        node: Any = SimpleNamespace(
            name=f"broker-{node_id}", incarnation=1, running=True, files=files
        )
        self.cluster.brokers[node_id], self.cluster.nodes[node_id] = broker, node
        return runtime

    def found(self) -> list[str]:
        """The first words of the violations so far."""
        self.watchman.look()
        return [violation.split(":")[0] for violation in self.watchman.violations]


def test_two_leaders_of_one_epoch_are_seen_and_of_two_epochs_are_not() -> None:
    """REP: one epoch has one leader, for ever."""
    stage = Stage()
    stage.state()
    stage.broker(0, leads=True)
    other = stage.broker(1, leads=True, epoch=1)
    assert stage.found() == []
    other.replica.leader_epoch = 0
    assert stage.found() == ["two leaders"]


def test_an_old_answer_about_a_topic_is_seen() -> None:
    """A client that is sent to a former leader comes back and is sent there again."""
    stage = Stage()
    stage.state()
    stage.broker(0)
    metadata = stage.cluster.brokers[0].metadata
    ends = (Endpoint("A", "host", 9092, "PLAINTEXT"),)
    states = [PartitionState((1, 2), leader, epoch, (1, 2)) for epoch, leader in enumerate((1, 2))]
    topic = TopicImage("t", b"i" * 16, {0: states[0]})
    brokers = [BrokerChanged(BrokerRegistration(one, ends)) for one in (1, 2)]
    metadata.take([*brokers, TopicChanged(topic)])
    kept = kept_topics(metadata)
    old = kept.one(metadata, 9, "A", topic)
    assert stage.found() == []
    metadata.take([PartitionChanged("t", 0, states[1])])
    assert stage.found() == []
    form = kept._forms[9, "A"]
    form.topics["t"] = old

    assert stage.found() == ["metadata"]


def test_deleted_records_that_come_back_are_seen() -> None:
    """DeleteRecords promises for ever, also where a log has been moved (S-19)."""
    history = ClusterHistory(may_trim=True)
    final = FinalLog(5, 5, [])
    history.finals["t", 0] = final
    for promised, start in ((True, 5), (False, 7), (True, 4)):
        history.watermarks.append(Watermarks(1, 2, ("t", 0), start, -1, promised=promised))
    assert judge_cluster(history, clean=True) == []
    history.watermarks.append(Watermarks(3, 4, ("t", 0), 6, -1, promised=True))
    assert [one.split(":")[0] for one in judge_cluster(history, clean=True)] == ["back"]


def test_bounds_are_judged_unless_the_log_is_being_cut() -> None:
    """R-26."""
    stage = Stage()
    stage.state()
    runtime = stage.broker(0, leads=True)
    runtime.log.log_end_offset = 5
    assert stage.found() == []
    runtime.replica.log_end_offset = 5
    assert stage.found() == ["bounds"]


def test_a_leaders_watermark_never_goes_back() -> None:
    """A reader may have acted upon records that it was shown."""
    stage = Stage()
    stage.state()
    runtime = stage.broker(0, leads=True)
    assert stage.found() == []
    runtime.replica.high_watermark = 9
    assert stage.found() == ["watermark"]


def test_a_leader_without_what_was_committed_is_seen() -> None:
    """Before any client notices; in a seed with unclean elections it is no news."""
    for clean in (True, False):
        stage = Stage(clean=clean)
        stage.state()
        stage.broker(0, leads=True, end=10)
        assert stage.found() == []
        stage.state(leader=1, epoch=1)
        stage.broker(1, leads=True, end=9, epoch=1)
        assert stage.found() == (["lost"] if clean else [])


def test_an_acknowledgement_above_the_watermark_is_early() -> None:
    """acks=all means replicated; what an earlier leader confirmed may still lie above."""
    stage = Stage()
    stage.state()
    stage.broker(0, leads=True, end=10, watermark=8, start=5)
    stage.history.acknowledged.append((("t", 0), 7))
    assert stage.found() == []
    stage.history.acknowledged.append((("t", 0), 4))
    assert stage.found() == []
    stage.history.acknowledged.append((("t", 0), 8))
    assert stage.found() == ["early"]


def test_states_are_judged_as_they_are_written() -> None:
    """Each rule of the store with a near miss before it."""
    rules: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
        ({"isr": (0, 1)}, {"leader": 1, "epoch": 1, "isr": (1,)}, []),
        ({"isr": (0, 1)}, {"leader": 2, "epoch": 1, "isr": (2,)}, ["store"]),
        (
            {"isr": (0, 1), "eligible": (2,)},
            {"leader": 2, "epoch": 1, "isr": (2,)},
            [],
        ),
        ({}, {"leader": 1}, ["store"]),
        ({"epoch": 3}, {"epoch": 2}, ["store"]),
        ({}, {"isr": (0, 3)}, ["store"]),
        ({}, {"leader": 0, "isr": (1, 2)}, ["store"]),
    ]
    for before, after, expected in rules:
        stage = Stage()
        stage.state(**before)
        stage.state(**after)
        assert stage.found() == expected, (before, after)


def test_a_replica_that_joins_without_a_fetch_since_it_left_is_seen() -> None:
    """R-17: a follower that was cut off is in the leader's memory and nowhere else."""
    stage = Stage()
    stage.state(isr=(0, 1))
    followers = stage.broker(0, leads=True).replica.leading.followers
    followers[1] = SimpleNamespace(is_known=True, last_fetch_ms=5.0)
    followers[2] = SimpleNamespace(is_known=True, last_fetch_ms=5.0)
    stage.state(isr=(0, 1, 2))
    stage.now_ms = 10.0
    stage.state(isr=(0, 2))
    followers[1].last_fetch_ms = 11.0
    stage.state(isr=(0, 1, 2))
    assert stage.found() == []
    stage.now_ms = 20.0
    stage.state(isr=(0, 1))
    stage.state(isr=(0, 1, 2))
    assert stage.found() == ["unheard"]


def test_a_replica_that_joins_without_any_fetch_is_seen() -> None:
    """Fetches from an earlier leader do not count."""
    stage = Stage()
    stage.state(isr=(0, 1))
    followers = stage.broker(0, leads=True).replica.leading.followers
    followers[2] = SimpleNamespace(is_known=False, last_fetch_ms=5.0)
    stage.state(isr=(0, 1, 2))
    assert stage.found() == ["unheard"]


def test_an_election_by_a_controller_that_was_replaced_is_seen() -> None:
    """C-02; leaders keep the controller epoch they know when they change their in-sync set."""
    stage = Stage()
    stage.write(Create(paths.CONTROLLER_EPOCH, b"1"))
    stage.state()
    stage.write(Replace(paths.CONTROLLER_EPOCH, b"2"))
    stage.state(isr=(0, 1), controller=1)
    assert stage.found() == []
    stage.state(leader=1, epoch=1, isr=(0, 1), controller=1)
    assert stage.found() == ["zombie"]


def test_a_topic_that_was_deleted_may_begin_anew() -> None:
    """Its namesake starts at epoch 0 (C-22)."""
    stage = Stage()
    stage.state(epoch=5)
    stage.write(Delete(STATE))
    stage.state(epoch=0)
    assert stage.found() == []


def batches(*values: bytes, leader_epoch: int = 0) -> bytes:
    found = bytearray()
    for offset, value in enumerate(values):
        batch = bytearray(encode_batch([(0, None, value, ())]))
        batch[:8] = offset.to_bytes(8)
        batch[12:16] = leader_epoch.to_bytes(4)
        found += batch
    return bytes(found)


def test_replicas_differ_only_above_their_watermarks() -> None:
    """A batch that differs only in its leader epoch counts as different."""
    for data, expected in (
        (batches(b"a", b"b", b"c"), []),
        (batches(b"a", b"b", b"x"), []),
        (batches(b"a", b"x", b"c"), ["replicas differ"]),
        (batches(b"a", b"b", leader_epoch=1), ["replicas differ"]),
    ):
        stage = Stage()
        stage.state()
        stage.broker(0, leads=True, data=batches(b"a", b"b", b"c"), end=3, watermark=2)
        stage.broker(1, data=data, end=3, watermark=2)
        assert stage.found() == expected


def test_what_is_committed_is_remembered_when_no_replica_has_it_any_more() -> None:
    """The life that showed it may be over."""
    stage = Stage()
    stage.state()
    stage.broker(0, leads=True, data=batches(b"a", b"b"), end=2)
    assert stage.found() == []
    stage.state(leader=1, epoch=1)
    del stage.cluster.brokers[0]
    stage.broker(1, leads=True, epoch=1, data=batches(b"a", b"x"), end=2)
    assert stage.found() == ["replicas differ"]
    assert len(Committed(lambda *_: None).batches((b"", 0))) == 0


def story(*values: bytes, lost: bytes | None = None) -> ClusterHistory:
    """All acknowledged in their order, all in the final log but one."""
    history = ClusterHistory()
    kept = []
    for number, value in enumerate(values):
        write = Write("p", number, ("t", 0), value, history.tick())
        write.attempted = write.invoked
        write.settle(Fate.ACKNOWLEDGED, history.tick(), number)
        history.writes.append(write)
        if value != lost:
            kept.append((number, value))
    history.finals["t", 0] = FinalLog(0, len(values), kept)
    return history


def test_the_verdict_of_a_clean_seed_is_stricter() -> None:
    """An unclean election may drop records, and nothing else."""
    assert judge_cluster(story(b"a", b"b"), clean=True) == []
    lost = story(b"a", b"b", lost=b"b")
    lost.finals["t", 0] = FinalLog(0, 1, [(0, b"a")])
    assert judge_cluster(lost, clean=True)
    assert judge_cluster(lost, clean=False) == []
    twice = story(b"a", b"b")
    twice.finals["t", 0] = FinalLog(0, 3, [(0, b"a"), (1, b"b"), (2, b"a")])
    assert judge_cluster(twice, clean=False)


def test_a_whole_cluster_has_all_replicas_in_every_isr() -> None:
    """The next unclean stop waits until the cluster is whole."""
    stage = Stage()
    stage.state(isr=(0, 1))
    assert [text.split(":")[0] for text in stage.cluster.missing()] == ["t-0"]
    stage.state()
    assert stage.cluster.missing() == []
    assert stage.cluster.partitions() == [("t", 0)]
