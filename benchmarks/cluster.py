"""Three brokers and a ZooKeeper: failover, replication, and what many partitions cost."""

from __future__ import annotations

import itertools
import statistics
import tempfile
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from confluent_kafka import KafkaException, Producer

from benchmarks.harness import cpu_seconds, resident_bytes
from tests.cluster.support.load import QUIET
from tests.cluster.support.real import RealCluster
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.support.broker_process import BrokerProcess

Figures = dict[str, float]
TOPIC = "measured"
FAILOVERS = 20
SEND_EVERY_S = 0.005
MANY = 2_000
# A controller looks at everything again every 30 s.
SETTLE_S, IDLE_S = 15.0, 60.0
IDLE_AIM_PERCENT = 0.5
RECORD = b"x" * 1024
REPLICATED_S = 6.0
OPTIONS = {"log.segment.bytes": str(256 << 20), "zookeeper.session.timeout.ms": "18000"}


@contextmanager
def running(count: int = 3) -> Iterator[RealCluster]:
    """A cluster of so many brokers, with Kafka's own session timeout."""
    with (
        tempfile.TemporaryDirectory() as folder,
        ZooKeeperServer() as zookeeper,
        RealCluster(Path(folder), zookeeper.address, count, options=OPTIONS) as cluster,
    ):
        yield cluster


class Pulse:
    """A record every few milliseconds with acks=all, and when each was acknowledged."""

    def __init__(self, bootstrap: str) -> None:
        self.acked_at: list[float] = []
        self.failed: list[Any] = []
        self._stop = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap,
                "enable.idempotence": True,
                "linger.ms": 0,
                "message.timeout.ms": 120_000,
                "retry.backoff.ms": 20,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 200,
                "error_cb": lambda _error: None,
            },
            logger=QUIET,
        )
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._stop.is_set():
            self._producer.produce(TOPIC, b"pulse", partition=0, on_delivery=self._on_delivery)
            self._producer.poll(0)
            time.sleep(SEND_EVERY_S)

    def _on_delivery(self, error: Any, _message: Any) -> None:
        if error is None:
            self.acked_at.append(time.monotonic())
        else:
            self.failed.append(error)

    def gap_around(self, moment: float) -> float:
        """Wait until records are acknowledged again, a second later than the moment at least; the
        longest time without any from then on."""
        while time.monotonic() < moment + 1.0 or self.acked_at[-1] < moment + 1.0:
            time.sleep(0.01)
        times = [at for at in self.acked_at if at > moment - 0.5]
        return max(later - earlier for earlier, later in itertools.pairwise(times))

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()
        self._producer.flush(60)
        assert not self.failed, self.failed[0]


def _gaps(end: Callable[[BrokerProcess], object]) -> Figures:
    gaps = []
    with running() as cluster:
        cluster.create_topic(TOPIC, 1)
        pulse = Pulse(cluster.bootstrap)
        time.sleep(2)
        for _ in range(FAILOVERS):
            broker = cluster.brokers[cluster.leaders(TOPIC)[0]]
            moment = time.monotonic()
            end(broker)
            gaps.append(pulse.gap_around(moment))
            if not broker.is_running:
                broker.start()
            cluster.wait_until_whole(TOPIC, 60)
        pulse.stop()
    return {
        "unavailable_p50_s": statistics.median(gaps),
        "unavailable_p99_s": max(gaps),
        "failovers": float(FAILOVERS),
    }


def failover_planned() -> Figures:
    """A leader is stopped: how long nothing is acknowledged (aims 0.2 and 1 s)."""
    return _gaps(lambda broker: broker.stop())


def failover_killed() -> Figures:
    """A leader is killed with SIGKILL: how long nothing is acknowledged (aims 1.5 and 3 s)."""
    return _gaps(lambda broker: broker.kill())


def replicated() -> Figures:
    """acks=all with three replicas beside acks=1 in the same run, 1 KiB records."""
    figures: Figures = {}
    with running() as cluster:
        for name, acks in (("acks_1", "1"), ("acks_all", "all")):
            topic = f"{TOPIC}-{name}"
            cluster.create_topic(topic, 3)
            cpu_before = sum(cpu_seconds(one.process_id) for one in cluster.brokers.values())
            rate = _pour(cluster.bootstrap, topic, acks)
            cpu = sum(cpu_seconds(one.process_id) for one in cluster.brokers.values()) - cpu_before
            figures |= {
                f"{name}_mb_per_s": rate,
                f"{name}_broker_cpu_s_per_gb": cpu / (rate * REPLICATED_S / 1000),
            }
            slow = _round_trips(cluster.bootstrap, topic, acks)
            figures |= {
                f"{name}_p50_ms": statistics.median(slow),
                f"{name}_p99_ms": statistics.quantiles(slow, n=100)[98],
            }
    figures["all_to_1_rate"] = figures["acks_all_mb_per_s"] / figures["acks_1_mb_per_s"]
    return figures


def _pour(bootstrap: str, topic: str, acks: str) -> float:
    """MB/s of acknowledged records while as many as fit are sent."""
    acked = [0]

    def on_delivery(error: Any, _message: Any) -> None:
        assert error is None, error
        acked[0] += 1

    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 5}, logger=QUIET
    )
    begun = time.monotonic()
    while time.monotonic() - begun < REPLICATED_S:
        try:
            producer.produce(topic, RECORD, on_delivery=on_delivery)
            producer.poll(0)
        except BufferError:
            producer.poll(0.01)
    assert producer.flush(60) == 0
    took = time.monotonic() - begun
    return acked[0] * len(RECORD) / took / 1e6


def _round_trips(bootstrap: str, topic: str, acks: str) -> list[float]:
    """Milliseconds from sending to acknowledgement, one record at a time."""
    producer = Producer(
        {"bootstrap.servers": bootstrap, "acks": acks, "linger.ms": 0}, logger=QUIET
    )
    found = []
    for number in range(1_100):
        sent = time.monotonic()
        producer.produce(topic, RECORD, partition=0)
        producer.flush(10)
        if number >= 100:
            found.append((time.monotonic() - sent) * 1000)
    return found


def many_partitions() -> Figures:
    """2,000 partitions of three replicas: creation, failover, controller failover, memory."""
    with running() as cluster:
        before = sum(resident_bytes(one.process_id) for one in cluster.brokers.values())
        begun = time.monotonic()
        cluster.create_topic(TOPIC, MANY, limit_s=120)
        _wait(cluster, lambda leaders: len(leaders) == MANY and -1 not in leaders.values())
        created_s = time.monotonic() - begun
        whole_s = created_s + cluster.wait_until_whole(TOPIC, 120)
        used = sum(resident_bytes(one.process_id) for one in cluster.brokers.values()) - before
        controller_id = cluster.controller_id()
        other = next(node for node in cluster.brokers if node != controller_id)
        lost_s = _lose(cluster, other)
        controller_s = _lose(cluster, controller_id)
    return {
        "partitions": float(MANY),
        "created_s": created_s,
        "whole_s": whole_s,
        "failover_s": lost_s,
        "controller_failover_s": controller_s,
        "kib_per_replica": used / 1024 / (3 * MANY),
    }


def _lose(cluster: RealCluster, node_id: int) -> float:
    """Kill a broker; seconds until every partition has another leader."""
    begun = time.monotonic()
    cluster.brokers[node_id].kill()
    _wait(cluster, lambda leaders: not {-1, node_id} & set(leaders.values()))
    took = time.monotonic() - begun
    cluster.brokers[node_id].start()
    cluster.wait_until_whole(TOPIC, 120)
    return took


def _wait(cluster: RealCluster, holds: Callable[[dict[int, int]], bool]) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        try:
            if holds(cluster.leaders(TOPIC)):
                return
        except KafkaException:
            pass
        time.sleep(0.02)
    raise AssertionError(cluster.stories())


def partitions_at_rest() -> Figures:
    """Idle CPU with 2,000 partitions, per cent of a core: of the busiest of three, and of one."""
    figures: Figures = {"partitions": float(MANY), "aim_percent": IDLE_AIM_PERCENT}
    for name, count in (("of_three", 3), ("alone", 1)):
        with running(count) as cluster:
            cluster.wait_for("all brokers are known", lambda: cluster.controller_id() > 0)
            figures[f"{name}_empty_percent"] = _idle_percent(cluster)
            cluster.create_topic(TOPIC, MANY, replicas=count, limit_s=120)
            cluster.wait_until_whole(TOPIC, 120)
            figures[f"{name}_percent"] = _idle_percent(cluster)
    return figures


def _idle_percent(cluster: RealCluster) -> float:
    """Of the broker that uses most, while no client asks for anything."""
    time.sleep(SETTLE_S)
    processes = [one.process_id for one in cluster.brokers.values()]
    before = [cpu_seconds(one) for one in processes]
    time.sleep(IDLE_S)
    used = [cpu_seconds(one) - then for one, then in zip(processes, before, strict=True)]
    return 100 * max(used) / IDLE_S


CLUSTER_MEASUREMENTS = {
    "failover_planned": failover_planned,
    "failover_killed": failover_killed,
    "replicated": replicated,
    "many_partitions": many_partitions,
    "partitions_at_rest": partitions_at_rest,
}
