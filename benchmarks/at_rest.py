"""What partitions at rest cost those that work: a small load beside them, and their one consumer.

CPU time of the brokers for each record. The clients' own cost does not count.
"""

from __future__ import annotations

import statistics
import time
from threading import Thread
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from benchmarks.cluster import running
from benchmarks.harness import cpu_seconds, started_broker
from tests.cluster.support.load import QUIET

if TYPE_CHECKING:
    from tests.cluster.support.real import RealCluster

Figures = dict[str, float]
BUSY, RESTING = "busy", "resting"
RECORDS, RECORDS_PER_S = 1_000, 100
WARM_RECORDS = 500
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


def _consumer_of(count: int) -> Figures:
    """Of records for one consumer that is assigned so many partitions: milliseconds from sending to
    receiving, and the broker's CPU, per cent of a core."""
    with started_broker({"num.partitions": "1"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address}, logger=QUIET)
        for created in admin.create_topics(
            [NewTopic(BUSY, count, 1)], operation_timeout=60
        ).values():
            created.result(120)
        consumer = Consumer(
            {
                "bootstrap.servers": broker.address,
                "group.id": "measured",
                "auto.offset.reset": "earliest",
                "enable.auto.commit": False,
            },
            logger=QUIET,
        )
        consumer.assign([TopicPartition(BUSY, index, 0) for index in range(count)])
        feeding = Thread(target=_feed, args=(broker.address, count))
        feeding.start()
        took = [_received_ms(consumer) for _ in range(WARM_RECORDS)]
        before, begun = cpu_seconds(broker.process_id), time.monotonic()
        took = [_received_ms(consumer) for _ in range(RECORDS)]
        percent = 100 * (cpu_seconds(broker.process_id) - before) / (time.monotonic() - begun)
        feeding.join()
        consumer.close()
    return {
        f"p50_ms_of_{count}": statistics.median(took),
        f"p99_ms_of_{count}": statistics.quantiles(took, n=100)[98],
        f"broker_percent_of_{count}": percent,
    }


def _feed(bootstrap: str, count: int) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "linger.ms": 0}, logger=QUIET)
    begun = time.monotonic()
    for number in range(WARM_RECORDS + RECORDS):
        producer.produce(BUSY, time.monotonic_ns().to_bytes(8), partition=number * 7919 % count)
        producer.poll(0)
        time.sleep(max(0.0, begun + (number + 1) / RECORDS_PER_S - time.monotonic()))
    assert producer.flush(30) == 0


def _received_ms(consumer: Consumer) -> float:
    while True:
        message = consumer.poll(30)
        assert message is not None, "a record has not come for half a minute"
        value = message.value()
        if isinstance(value, bytes) and message.error() is None:
            return (time.monotonic_ns() - int.from_bytes(value)) / 1e6


def consumer_of_many_partitions() -> Figures:
    """100 records/s for one consumer of 1,000 and 2,000 partitions, librdkafka, which has no fetch
    sessions (aims: 3 ms at p50, 15 % of a core)."""
    return {"aim_p50_ms": 3.0, "aim_percent": 15.0, **_consumer_of(1_000), **_consumer_of(2_000)}


def replicated_creation() -> Figures:
    """1,000 partitions of three replicas in one request, until all have a leader (aim: 0.6 s)."""
    with running() as cluster:
        cluster.create_topic(BUSY, 1)
        cluster.wait_until_whole(BUSY, 60)
        before, begun = _cpu(cluster), time.monotonic()
        cluster.create_topic(RESTING, MANY, limit_s=120)
        answered_s = time.monotonic() - begun
        while -1 in (leaders := cluster.leaders(RESTING)).values() or len(leaders) < MANY:
            time.sleep(0.01)
        led_s = time.monotonic() - begun
        cluster.wait_until_whole(RESTING, 120)
        return {
            "aim_s": 0.6,
            "answered_s": answered_s,
            "all_lead_s": led_s,
            "whole_s": time.monotonic() - begun,
            "brokers_cpu_s": _cpu(cluster) - before,
        }


AT_REST_MEASUREMENTS = {
    "beside_resting_partitions": beside_resting_partitions,
    "consumer_of_many_partitions": consumer_of_many_partitions,
    "replicated_creation": replicated_creation,
}
