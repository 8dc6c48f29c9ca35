"""kill -9 of brokers of a real cluster under acks=all: nothing lost, nothing twice, in order."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest

from tests.cluster.support.load import PARTITIONS, TOPIC, Load, check
from tests.cluster.support.real import SESSION_MS, RealCluster
from tests.zookeeper.servers import Ensemble, ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path


def kill_repeatedly(folder: Path, zookeeper: str, cycles: int, seed: int) -> int:
    """Kill one broker after the other under load, then compare; how many were acknowledged."""
    chance = random.Random(seed)
    with RealCluster(folder, zookeeper) as cluster:
        cluster.create_topic(TOPIC, PARTITIONS)
        load = Load(cluster.bootstrap)
        try:
            for _ in range(cycles):
                load.wait_for_progress()
                time.sleep(chance.random() * 0.3)
                broker = cluster.brokers[chance.choice(list(cluster.brokers))]
                broker.kill()
                # Back within its session, which no other broker may notice, or long after it.
                time.sleep(chance.choice((0.0, 0.5, SESSION_MS / 1000 + 1)))
                broker.start()
                cluster.wait_until_whole(TOPIC)
        finally:
            load.finish()
        check(load, cluster.bootstrap)
        return len(load.acked)


@pytest.mark.timeout(600)
def test_a_few_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """The short form of the next test."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    with ZooKeeperServer() as zookeeper:
        assert kill_repeatedly(tmp_path, zookeeper.address, 4, seed) > 100


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_two_hundred_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """A window of a few instructions needs many tries to be hit."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    with Ensemble() as ensemble:
        assert kill_repeatedly(tmp_path, ensemble.address, 200, seed) > 10_000
