"""Each fault does what it says, and what is seen of it is gone without it."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.broker.testing.cluster import Cluster
from ottla.broker.testing.members import ClusterError, ProcessState
from ottla.protocol.errors import ErrorCode
from tests.broker.testing.clients import QUIET, read, send

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

TIMED_OUT = -192  # librdkafka's _MSG_TIMED_OUT
SHORT_MS = 1_500


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as running:
        running.create_topic("t")
        yield running


def refused(cluster: Cluster) -> bool:
    """Whether a record finds no way into the topic within a short time."""
    return send(cluster, "t", [b"x"], message_timeout_ms=SHORT_MS).errors == [TIMED_OUT]


def until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    """Ask until it is so."""
    end = time.monotonic() + timeout_s
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_what_was_acknowledged_survives_the_death_of_the_leader(cluster: Cluster) -> None:
    """This is the promise of acks=all."""
    values = [b"%d" % number for number in range(100)]
    first = send(cluster, "t", values[:50])
    victim = cluster.leader("t")

    cluster.faults.kill(victim)

    second = send(cluster, "t", values[50:])
    assert first.offsets + second.offsets == list(range(100))
    assert cluster.leader("t") != victim
    assert read(cluster, "t", 100) == values


def test_a_dead_broker_refuses_and_comes_back_on_its_port_with_its_records() -> None:
    """Clients know the addresses of the first life."""
    with Cluster() as cluster:
        send(cluster, "t", [b"a"])
        address = cluster.bootstrap_servers

        cluster.faults.kill(1)
        assert refused(cluster)
        cluster.faults.restart(1)

        assert cluster.bootstrap_servers == address
        assert read(cluster, "t", 1) == [b"a"]


def test_a_paused_broker_answers_when_it_is_resumed(cluster: Cluster) -> None:
    """A long garbage collection of a broker, or a virtual machine that was moved."""
    victim = cluster.leader("t")
    cluster.faults.pause(victim)
    assert refused(cluster)
    assert cluster.leader("t") == victim

    cluster.faults.resume(victim)

    assert send(cluster, "t", [b"a"]).errors == []


def test_a_broker_that_is_paused_for_long_loses_its_partitions(cluster: Cluster) -> None:
    """And must find out itself, when it wakes up, that others have taken over."""
    victim = cluster.leader("t")
    cluster.faults.pause(victim)

    cluster.faults.advance(20_000)

    until(lambda: cluster.leader("t") != victim)
    assert send(cluster, "t", [b"a"]).errors == []
    cluster.faults.resume(victim)
    assert send(cluster, "t", [b"b"]).errors == []
    assert cluster.brokers[victim].state is ProcessState.RUNNING


def test_a_follower_that_is_cut_off_holds_acks_all_up_until_it_leaves_the_isr(
    cluster: Cluster,
) -> None:
    """Time that is advanced counts for the lag of replicas."""
    leader = cluster.leader("t")
    others = {1, 2, 3} - {leader}
    cluster.faults.partition({leader}, others)
    assert refused(cluster)

    cluster.faults.advance(60_000)

    until(lambda: not refused(cluster), 20)
    cluster.faults.heal()


def test_a_partition_lets_through_again_what_it_held_up(cluster: Cluster) -> None:
    """When it heals within the timeouts, clients see only a delay."""
    leader = cluster.leader("t")
    cluster.faults.partition({leader}, {1, 2, 3} - {leader})
    sent: list[object] = []
    sender = threading.Thread(target=lambda: sent.append(send(cluster, "t", [b"a"]).offsets))
    sender.start()
    sender.join(1.0)
    assert sent == []

    cluster.faults.heal()

    sender.join(20)
    assert sent == [[0]]


def test_clients_can_be_cut_off_while_the_brokers_talk(cluster: Cluster) -> None:
    """A firewall rule that was meant for something else."""
    cluster.faults.partition({1, 2, 3}, {"clients"})
    assert refused(cluster)

    cluster.faults.heal()

    assert read(cluster, "t", 0) == []
    assert send(cluster, "t", [b"a"]).errors == []


def test_a_slow_disk_delays_what_is_produced(cluster: Cluster) -> None:
    """Latency is what a dying disk shows first."""
    assert send(cluster, "t", [b"a"]).errors == []
    leader = cluster.leader("t")

    def took_s() -> float:
        begun = time.monotonic()
        assert send(cluster, "t", [b"a"]).errors == []
        return time.monotonic() - begun

    cluster.faults.slow_disk(leader, 1_200)
    slow_s = took_s()
    cluster.faults.mend_disk(leader)

    assert slow_s >= 1.2
    # One of them, on a machine that is busy with something else.
    until(lambda: took_s() < 1.2)


def test_a_full_disk_takes_nothing_until_it_is_mended() -> None:
    """Retriable: a producer with patience loses nothing."""
    with Cluster() as cluster:
        cluster.create_topic("t")
        cluster.faults.full_disk(1)
        assert refused(cluster)
        assert cluster.brokers[1].state is ProcessState.RUNNING
        cluster.faults.mend_disk(1)

        assert send(cluster, "t", [b"a"]).errors == []


def test_others_lead_while_a_disk_is_full(cluster: Cluster) -> None:
    """A producer notices a pause, no more."""
    leader = cluster.leader("t")
    cluster.faults.full_disk(leader)
    until(lambda: cluster.leader("t") != leader)
    assert send(cluster, "t", [b"a"]).errors == []


def test_a_torn_write_kills_and_is_cut_off_at_the_next_start() -> None:
    """Half a batch at the end of a log must neither be served nor stop the broker."""
    with Cluster() as cluster:
        cluster.create_topic("t")
        send(cluster, "t", [b"a"])
        cluster.faults.torn_write(1)

        assert refused(cluster)
        assert cluster.brokers[1].state is ProcessState.DEAD
        assert "in the middle of a write to t-0/" in cluster.report()
        cluster.faults.restart(1)

        assert send(cluster, "t", [b"b"]).offsets == [1]
        assert read(cluster, "t", 2) == [b"a", b"b"]


def test_a_lost_reply_makes_a_producer_repeat_itself(cluster: Cluster) -> None:
    """The reason why idempotence exists: without it the record is there twice."""
    cluster.faults.lose_reply("Produce")
    plain = send(cluster, "t", [b"plain"], enable_idempotence=False)
    cluster.faults.lose_reply("PRODUCE")
    idempotent = send(cluster, "t", [b"idempotent"], enable_idempotence=True)

    assert plain.errors == idempotent.errors == []
    assert read(cluster, "t", 3) == [b"plain", b"plain", b"idempotent"]
    hits = [one.what for one in cluster.injected if "lost a reply" in one.what]
    assert len(hits) == 2


def test_a_failed_request_has_the_error_that_was_wanted(cluster: Cluster) -> None:
    """How a program takes an error that it cannot produce by itself."""
    cluster.faults.fail_request("Produce", ErrorCode.TOPIC_AUTHORIZATION_FAILED)

    assert send(cluster, "t", [b"a"]).errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    assert send(cluster, "t", [b"b"]).offsets == [0]


def test_an_error_that_can_be_repeated_is_repeated(cluster: Cluster) -> None:
    """So many times and no more, whichever broker is asked."""
    cluster.faults.fail_request("Produce", "NOT_LEADER_OR_FOLLOWER", count=3)

    assert send(cluster, "t", [b"a"]).offsets == [0]
    assert sum("refused PRODUCE" in one.what for one in cluster.injected) == 3


def test_a_fault_for_one_broker_spares_the_others(cluster: Cluster) -> None:
    """Tests aim at the leader, or just not at it."""
    leader = cluster.leader("t")
    for other in {1, 2, 3} - {leader}:
        cluster.faults.fail_request("Produce", "TOPIC_AUTHORIZATION_FAILED", 9, broker=other)

    assert send(cluster, "t", [b"a"]).errors == []


def test_a_broker_whose_session_expired_registers_anew(cluster: Cluster) -> None:
    """What a stall of the network towards the store leads to."""
    leader = cluster.leader("t")
    cluster.faults.expire_session(leader)

    until(lambda: cluster.leader("t") != leader)
    assert send(cluster, "t", [b"a"]).errors == []
    assert cluster.brokers[leader].state is ProcessState.RUNNING


def test_retention_deletes_when_its_time_has_come() -> None:
    """A week within a second."""
    configs = {
        "retention.ms": 7 * 86_400_000,
        # The clocks of clients do not move with those of the brokers.
        "message.timestamp.type": "LogAppendTime",
    }
    with Cluster() as cluster:
        cluster.create_topic("t", configs=configs)
        send(cluster, "t", [b"old"])
        cluster.faults.advance(3 * 86_400_000)
        assert low_watermark(cluster) == 0

        cluster.faults.advance(5 * 86_400_000)
        send(cluster, "t", [b"young"])
        cluster.faults.advance(600_000)

        until(lambda: low_watermark(cluster) == 1)


def test_a_member_that_was_silent_for_its_session_loses_its_partitions() -> None:
    """A program that crashed: its place is free when its time is up, and not before."""
    with Cluster() as cluster:
        cluster.create_topic("t")
        # A static member leaves its group without a word.
        crashed = static_member(cluster, "a")
        until(lambda: crashed.poll(0.1) is None and bool(crashed.assignment()))
        crashed.close()
        heir = static_member(cluster, "b")
        for _attempt in range(8):
            heir.poll(0.1)
        assert heir.assignment() == []

        cluster.faults.advance(50_000)

        until(lambda: heir.poll(0.1) is None and bool(heir.assignment()))
        heir.close()


def test_a_date_that_jumps_is_seen_in_records_and_spares_timeouts() -> None:
    """An administrator's slip; consumers and retention see it, sessions do not."""
    with Cluster() as cluster:
        cluster.create_topic("t", configs={"message.timestamp.type": "LogAppendTime"})
        cluster.faults.jump_clock(-86_400_000)
        send(cluster, "t", [b"yesterday"])
        cluster.faults.jump_clock(86_400_000)
        send(cluster, "t", [b"today"])

        first, second = timestamps(cluster)
        assert 86_000_000 < second - first < 87_000_000


def test_clear_undoes_what_lasts(cluster: Cluster) -> None:
    """What a fixture does between two tests of one cluster."""
    leader = cluster.leader("t")
    cluster.faults.partition({leader})
    cluster.faults.full_disk(leader)
    cluster.faults.fail_request("Produce", "TOPIC_AUTHORIZATION_FAILED", count=1_000)
    cluster.faults.pause(1 + leader % 3)
    assert refused(cluster)

    cluster.faults.clear()

    assert send(cluster, "t", [b"a"]).errors == []
    assert {broker.state for broker in cluster.brokers.values()} == {ProcessState.RUNNING}


@pytest.mark.parametrize(
    ("inject", "words"),
    [
        (lambda faults: faults.kill(4), "there is no broker 4, only 1, 2, 3"),
        (lambda faults: faults.kill("1"), "there is no broker '1', only 1, 2, 3"),
        (lambda faults: faults.partition({1}, {"clint"}), "'clint' is neither a broker's number"),
        (lambda faults: faults.resume(1), "broker 1 is not paused"),
        (lambda faults: faults.partition({1}, {1, 2}), "on one side of a partition only"),
        (lambda faults: faults.fail_request("Nothing", "NONE"), "there is no API 'Nothing'"),
        (lambda faults: faults.fail_request("Produce", "OOPS"), "there is no error 'OOPS'"),
        (lambda faults: faults.lose_reply("Produce", 0), "from 1"),
        (lambda faults: faults.advance(-1), "time does not go back"),
        (lambda faults: faults.advance("1h"), "a number of milliseconds, not '1h'"),
        (lambda faults: faults.jump_clock("1h"), "a number of milliseconds, not '1h'"),
        (lambda faults: faults.slow_disk(1, "x"), "a number of milliseconds, not 'x'"),
        (lambda faults: faults.slow_disk(1, -5), "a delay is 0 ms or more, not -5"),
        (lambda faults: faults.partition(), "a partition has sides"),
        (lambda faults: faults.partition(1), "a partition has sides"),
        (lambda faults: faults.fail_request(0, "NONE"), "an API is called by its name"),
        (lambda faults: faults.fail_request("Fetch", "NONE"), "NONE is no error"),
        (lambda faults: faults.lose_reply("Produce", "x"), "from 1"),
        (lambda faults: faults.kill([1]), r"there is no broker \[1\], only 1, 2, 3"),
        (lambda faults: faults.partition([[1], [2]]), "a partition has sides"),
        (lambda faults: faults.advance(float("inf")), "a time has an end: inf is none"),
        (lambda faults: faults.advance(1e300), "lead out of the years that have dates"),
        (lambda faults: faults.slow_disk(1, float("inf")), "a time has an end: inf is none"),
        (lambda faults: faults.jump_clock(float("nan")), "a time has an end: nan is none"),
        (lambda faults: faults.jump_clock(0.5), r"by whole milliseconds, not 0\.5"),
        (lambda faults: faults.jump_clock(-(10**15)), "out of the years 1970 to 9999"),
        (lambda faults: faults.jump_clock(10**15, 1), "out of the years 1970 to 9999"),
    ],
)
def test_what_makes_no_sense_is_said_in_a_sentence(
    cluster: Cluster, inject: Callable[[object], None], words: str
) -> None:
    """A fault that silently does nothing makes a test that shows nothing."""
    with pytest.raises(ClusterError, match=words):
        inject(cluster.faults)
    assert cluster.injected == []


def test_the_dead_and_the_paused_cannot_be_disturbed(cluster: Cluster) -> None:
    """The order of two faults is a slip that a test should hear of."""
    cluster.faults.kill(1)
    cluster.faults.pause(2)

    for inject in (cluster.faults.kill, cluster.faults.pause, cluster.faults.full_disk):
        with pytest.raises(ClusterError, match="broker 1 is not running"):
            inject(1)
    with pytest.raises(ClusterError, match="broker 2 is paused"):
        cluster.faults.full_disk(2)


def static_member(cluster: Cluster, name: str) -> Consumer:
    """A member of the group that may be away for 45 seconds."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap_servers,
            "group.id": "g",
            "group.instance.id": name,
            "session.timeout.ms": 45_000,
        },
        logger=QUIET,
    )
    consumer.subscribe(["t"])
    return consumer


def low_watermark(cluster: Cluster) -> int:
    """The first offset that is kept."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "w"}, logger=QUIET
    )
    low, _high = consumer.get_watermark_offsets(TopicPartition("t", 0), timeout=60)
    consumer.close()
    return int(low)


def timestamps(cluster: Cluster) -> list[int]:
    """The timestamps of the first two records."""
    consumer = Consumer(
        {"bootstrap.servers": cluster.bootstrap_servers, "group.id": "w"}, logger=QUIET
    )
    consumer.assign([TopicPartition("t", 0, 0)])
    found: list[int] = []
    while len(found) < 2:
        message = consumer.poll(1.0)
        assert message is not None
        found.append(message.timestamp()[1])
    consumer.close()
    return found
