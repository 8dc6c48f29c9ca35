"""Brokers die until few replicas, or none, are left: what is promised then, on real processes."""

from __future__ import annotations

import itertools
import random
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from tests.cluster.support.real import RealCluster
from tests.cluster.support.records import put, put_for_sure, values_of
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OPTIONS = {"replica.lag.time.max.ms": "4000"}
ONE, TWO = "takes-one", "takes-two"
CLEAN, UNCLEAN = "waits", "goes-on"
# The values of topics.
Kept = dict[str, list[str]]


def wait_for_leader(cluster: RealCluster, topic: str, leader: int) -> None:
    """Until that one leads alone."""

    def is_so() -> bool:
        told = cluster.newest(topic)[0]
        return told.leader == leader and told.isr == {leader}

    cluster.wait_for(f"broker {leader} leads {topic} alone", is_so)


def lose_two(cluster: RealCluster, survivor: int, number: int) -> list[str]:
    """Kill all but one; what is in the topic that wants but one replica, of what was written."""
    others = [node_id for node_id in cluster.brokers if node_id != survivor]
    before, alone, waited = (f"{name}-{number}" for name in ("before", "alone", "waited"))
    for topic in (ONE, TWO):
        cluster.wait_until_whole(topic)
        put_for_sure(cluster, topic, before)
    cluster.tell(f"brokers {others} are killed")
    for node_id in others:
        cluster.brokers[node_id].kill()
    for topic in (ONE, TWO):
        wait_for_leader(cluster, topic, survivor)
    # No acknowledged record is missing, whichever replica led.
    assert before in values_of(cluster, ONE)
    assert put(cluster, ONE, alone) == ErrorCode.NONE
    assert put(cluster, TWO, alone) == ErrorCode.NOT_ENOUGH_REPLICAS
    assert put(cluster, TWO, waited, acks=1) == ErrorCode.NONE
    # Acknowledged by one: not committed before there are two again.
    assert waited not in values_of(cluster, TWO)
    for node_id in others:
        cluster.brokers[node_id].start()
    for topic in (ONE, TWO):
        cluster.wait_until_whole(topic)
    return [before, alone]


def lose_all_pairs(cluster: RealCluster, survivors: Sequence[int]) -> Kept:
    """One pair after the other; what is to be there in the end: all that was acknowledged."""
    expected = []
    # The records of these tests are years old: the first look at retention would remove them.
    kept = {"retention.ms": "-1"}
    cluster.create_topic(ONE, 1, config={**kept, "min.insync.replicas": "1"})
    cluster.create_topic(TWO, 1, config={**kept, "min.insync.replicas": "2"})
    for number, survivor in enumerate(survivors):
        expected += lose_two(cluster, survivor, number)
    wanted = [[f"before-{number}", f"waited-{number}"] for number in range(len(survivors))]
    return {ONE: expected, TWO: list(itertools.chain(*wanted))}


def lose_all(cluster: RealCluster) -> Kept:
    """Two replicas die one after the other; only the one that lacks records comes back.

    Returns the records that must be there in the end.
    """
    one = {"min.insync.replicas": "1"}
    cluster.create_placed(CLEAN, (1, 2), one)
    cluster.create_placed(UNCLEAN, (1, 2), {**one, "unclean.leader.election.enable": "true"})
    both = (CLEAN, UNCLEAN)
    for topic in both:
        cluster.wait_until_whole(topic)
        put_for_sure(cluster, topic, "on both")
    cluster.brokers[2].kill()
    for topic in both:
        wait_for_leader(cluster, topic, 1)
        put_for_sure(cluster, topic, "on the first")
    cluster.brokers[1].kill()
    # The death has to be noticed first: before it, broker 2 would get a leader.
    cluster.wait_for(
        "nobody leads", lambda: all(cluster.newest(topic)[0].leader == -1 for topic in both)
    )
    cluster.brokers[2].start()
    wait_for_leader(cluster, UNCLEAN, 2)
    assert values_of(cluster, UNCLEAN) == ["on both"]
    assert put(cluster, UNCLEAN, "on the second") == ErrorCode.NONE
    told = cluster.newest(CLEAN)[0]
    assert (told.leader, told.isr) == (-1, frozenset({1}))
    cluster.brokers[1].start()
    for topic in both:
        cluster.wait_until_whole(topic)
    return {CLEAN: ["on both", "on the first"], UNCLEAN: ["on both", "on the second"]}


def found(cluster: RealCluster, wanted: Kept) -> Kept:
    """The records of these topics."""
    return {topic: values_of(cluster, topic) for topic in wanted}


@pytest.mark.timeout(400)
@pytest.mark.requirement(
    "REP-18", "REP-19", "REP-20", "REP-22", "REP-23", "REP-24", "CTL-20", "CTL-29"
)
def test_the_last_replica_serves_what_was_promised_and_none_is_chosen_that_lacks_it(
    tmp_path: Path,
) -> None:
    """With f + 1 replicas f may die; when all did, the topic's setting says who may come back."""
    survivor = random.choice((1, 2, 3))
    print(f"survivor {survivor}")
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(tmp_path, zookeeper.address, options=OPTIONS) as cluster,
    ):
        kept = lose_all_pairs(cluster, [survivor])
        assert found(cluster, kept) == kept
        kept = lose_all(cluster)
        assert found(cluster, kept) == kept
        told = cluster.stories()
        assert "goes-on-0: broker 2 leads with epoch 3 though it was not in sync" in told
        assert "waits-0: broker 2 leads" not in told


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_any_two_of_three_may_die_thirty_times(tmp_path: Path) -> None:
    """Which one had led, and which one was the controller, is different every time."""
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(tmp_path, zookeeper.address, options=OPTIONS) as cluster,
    ):
        kept = lose_all_pairs(cluster, [1, 2, 3] * 10)
        assert found(cluster, kept) == kept
