"""kill -9 under load: nothing acknowledged is lost, nothing is written twice.

The page cache survives the death of a process, so every acknowledged record must be there. The
producer is librdkafka with idempotence: what it repeats after each restart the broker must
recognise from its log alone.
"""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from tests.cluster.support.load import PARTITIONS, TOPIC, Load, check
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path


def kill_repeatedly(folder: Path, cycles: int, seed: int) -> int:
    """Kill and restart under load, then compare; how many records were acknowledged."""
    chance = random.Random(seed)
    options = {"log.segment.bytes": "262144"}
    broker = BrokerProcess(folder / "data", options=options).start()
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(60)
    load = Load(broker.address)
    try:
        for _ in range(cycles):
            load.wait_for_progress()
            time.sleep(chance.random() * 0.3)
            broker.kill()
            broker.start()
        time.sleep(0.3)
    finally:
        load.finish()
    try:
        check(load, broker.address)
    finally:
        broker.stop()
    return len(load.acked)


@pytest.mark.requirement("IDM-09", "IDM-10", "ARC-10", "FMT-35", "LOG-10")
def test_five_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """The short form of the next test."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    assert kill_repeatedly(tmp_path, 5, seed) > 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_two_hundred_kills_lose_and_repeat_nothing(tmp_path: Path) -> None:
    """A window of a few instructions needs many tries to be hit."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    assert kill_repeatedly(tmp_path, 200, seed) > 4_000
