"""What partitions at rest cost those that work: a small load beside 10 and beside 1,000 of them.

CPU time of the brokers for each record. The clients' own cost does not count.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from confluent_kafka import Producer

from benchmarks.cluster import running
from benchmarks.harness import cpu_seconds
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from tests.cluster.support.real import RealCluster

Figures = dict[str, float]
BUSY, RESTING = "busy", "resting"
RECORDS, RECORDS_PER_S = 1_000, 100
FEW, MANY = 10, 1_000
SETTLE_S = 5.0


def _cpu(cluster: RealCluster) -> float:
    return sum(cpu_seconds(one.process_id) for one in cluster.brokers.values())


def _ms_per_record(cluster: RealCluster) -> float:
    """CPU of all brokers for each record of a small load with acks=all, milliseconds."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0}, logger=QUIET
    )
    for _ in range(10):
        producer.produce(BUSY, b"warm", partition=0)
        producer.flush(30)
    time.sleep(SETTLE_S)
    idle = _cpu(cluster)
    time.sleep(SETTLE_S)
    idle_per_s = (_cpu(cluster) - idle) / SETTLE_S
    before, begun = _cpu(cluster), time.monotonic()
    for number in range(RECORDS):
        producer.produce(BUSY, b"x" * 100, partition=0)
        assert producer.flush(30) == 0
        time.sleep(max(0.0, begun + (number + 1) / RECORDS_PER_S - time.monotonic()))
    used = _cpu(cluster) - before - idle_per_s * (time.monotonic() - begun)
    return 1000 * used / RECORDS


def beside_resting_partitions() -> Figures:
    """CPU of three brokers for each record, acks=all, beside 10 and 1,000 partitions at rest
    (aim: 0.05 ms more)."""
    with running() as cluster:
        cluster.create_topic(BUSY, 1)
        cluster.create_topic(f"{RESTING}-few", FEW)
        cluster.wait_until_whole(f"{RESTING}-few", 60)
        few = _ms_per_record(cluster)
        cluster.create_topic(RESTING, MANY - FEW, limit_s=120)
        cluster.wait_until_whole(RESTING, 120)
        many = _ms_per_record(cluster)
    return {
        "aim_ms": 0.05,
        "ms_beside_10": few,
        "ms_beside_1000": many,
        "ms_more": many - few,
    }


AT_REST_MEASUREMENTS = {"beside_resting_partitions": beside_resting_partitions}
