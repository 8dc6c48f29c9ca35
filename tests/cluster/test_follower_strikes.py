"""kill -9 and SIGTERM of followers under acks=all: the leader leads on, and stores nothing twice.

A producer without sequence numbers may send again what was refused, and only that: a code that says
"not stored" for a record that is stored shows as a duplicate.
"""

from __future__ import annotations

import os
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import KafkaError

from tests.cluster.support.load import (
    PARTITIONS,
    TOPIC,
    Load,
    NumberedLoad,
    check,
    read_partition,
)
from tests.cluster.support.real import RealCluster
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

LEADER, FOLLOWERS = 1, (2, 3)
STRIKES = int(os.environ.get("FOLLOWER_STRIKES", "100"))
CYCLES = int(os.environ.get("FOLLOWER_CYCLES", "1000"))
# Error codes for a record that was not stored. librdkafka retries after the other codes of that
# meaning, as NOT_LEADER_OR_FOLLOWER, however few retries it has.
NOT_STORED = (KafkaError.NOT_ENOUGH_REPLICAS, KafkaError.KAFKA_STORAGE_ERROR)


class PlainLoad(NumberedLoad):
    """Load without sequence numbers.

    A record that was refused is sent again; one with an unknown outcome is not.
    """

    def __init__(self, address: str) -> None:
        self.acked: set[int] = set()
        self.in_doubt: dict[int, str] = {}
        self.refused = 0
        settings = {
            "enable.idempotence": False,
            "acks": "all",
            "retries": 0,
            "linger.ms": 1,
            "batch.num.messages": 5,
        }
        super().__init__(address, settings)

    @property
    def acked_count(self) -> int:
        return len(self.acked)

    def on_delivery(self, error: Any, message: Any) -> None:
        number = int(message.value())
        if error is None:
            self.acked.add(number)
        elif error.code() in NOT_STORED:
            self.refused += 1
            self.again.append(number)
        else:
            self.in_doubt[number] = error.name()


def strike(cluster: RealCluster, load: NumberedLoad, count: int) -> None:
    """Stop one follower after the other, by either signal, and have it join again; as often as not
    within a moment of the last one's return to the ISR."""
    chance = random.Random()
    for number in range(count):
        load.wait_for_progress(20)
        time.sleep(chance.choice((0.0, 0.3, 1.0)) * chance.random())
        node_id = FOLLOWERS[number % len(FOLLOWERS)]
        follower = cluster.brokers[node_id]
        if chance.random() < 0.5:
            cluster.tell(f"kill -9 of follower {node_id}")
            follower.kill()
        else:
            cluster.tell(f"SIGTERM to follower {node_id}")
            assert follower.stop() == 0
        load.wait_for_progress(20)
        follower.start()
        cluster.wait_until_whole(TOPIC)


def strike_plain(folder: Path, count: int) -> PlainLoad:
    """Under a producer without sequence numbers; every record is there once, or in doubt."""
    with ZooKeeperServer() as zookeeper, RealCluster(folder, zookeeper.address) as cluster:
        cluster.create_placed(TOPIC, (LEADER, *FOLLOWERS), partitions=PARTITIONS)
        load = PlainLoad(cluster.bootstrap)
        try:
            strike(cluster, load, count)
        finally:
            load.finish()
        print(
            f"{count} strikes: {load.sent} records, {load.refused} refused, "
            f"in doubt: {load.in_doubt}"
        )
        found = [
            number
            for partition in range(PARTITIONS)
            for _offset, number in read_partition(cluster.bootstrap, partition)
        ]
    assert len(found) == len(set(found)), "stored twice"
    assert load.acked <= set(found), "acknowledged and lost"
    assert set(found) <= load.acked | load.in_doubt.keys()
    return load


@pytest.mark.timeout(600)
def test_a_follower_that_dies_fails_no_write_of_the_leader(tmp_path: Path) -> None:
    """The leader has what it was given, and two of three are in sync all the time."""
    load = strike_plain(tmp_path, 3)

    assert load.in_doubt == {}
    assert len(load.acked) == load.sent > 100


@pytest.mark.soak
@pytest.mark.timeout(14_400)
def test_a_hundred_strikes_at_followers_store_nothing_twice(tmp_path: Path) -> None:
    """FOLLOWER_STRIKES says how many."""
    load = strike_plain(tmp_path, STRIKES)

    assert load.in_doubt == {}
    assert len(load.acked) == load.sent > 100


@pytest.mark.soak
@pytest.mark.timeout(43_200)
def test_a_thousand_strikes_under_idempotent_load_store_nothing_twice(tmp_path: Path) -> None:
    """librdkafka must not renumber records that are stored. FOLLOWER_CYCLES says how many."""
    with ZooKeeperServer() as zookeeper, RealCluster(tmp_path, zookeeper.address) as cluster:
        cluster.create_placed(TOPIC, (LEADER, *FOLLOWERS), partitions=PARTITIONS)
        load = Load(cluster.bootstrap)
        try:
            strike(cluster, load, CYCLES)
        finally:
            load.finish()
        check(load, cluster.bootstrap)
        print(f"{CYCLES} strikes: {len(load.acked)} records, each stored once")
