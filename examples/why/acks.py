"""acks=all and acks=1: what an acknowledgement costs, and what it is worth when the leader dies.

    python -m examples.why.acks [--quick]

Three brokers. First each setting sends records one by one, in turns, and the time until each
acknowledgement is measured. Then the two followers fall behind for a moment, because the network to
them is cut; records are sent, the leader dies, and the program looks which acknowledged records the
next leader has. The cut only makes the moment between a leader's append and its followers' fetch
long enough to be hit every time.
"""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, NamedTuple

import ottla
import ottla.sync
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, percentile, run, table

if TYPE_CHECKING:
    from ottla.client.settings.config import Acks

SETTINGS: tuple[Acks, ...] = ("all", 1)
TOPIC = "orders"


class Setting(NamedTuple):
    """Latencies in milliseconds, and records before and after the leader's death."""

    acks: Acks
    p50_ms: float
    p99_ms: float
    acknowledged: int
    found: int

    @property
    def lost(self) -> int:
        return self.acknowledged - self.found


def measure(quick: bool) -> list[Setting]:
    """Latency of both, then the loss of each in a cluster of its own."""
    latencies = measure_latencies(200 if quick else 2_000, in_processes=not quick)
    found = []
    for acks in SETTINGS:
        acknowledged, stored = kill_leader(acks, 50 if quick else 500)
        found.append(
            Setting(
                acks,
                percentile(latencies[acks], 0.5),
                percentile(latencies[acks], 0.99),
                len(acknowledged),
                len(acknowledged & stored),
            )
        )
    return found


def producer_of(cluster: ottla.Cluster, acks: Acks) -> ottla.sync.Producer[bytes, bytes]:
    """One that sends each record at once."""
    return ottla.sync.Producer(
        cluster.bootstrap_servers,
        acks=acks,
        linger_ms=0,
        request_timeout_ms=2_000,
        connect_timeout_ms=1_000,
    )


def measure_latencies(count: int, *, in_processes: bool) -> dict[Acks, list[float]]:
    """Milliseconds from ``send`` to the acknowledgement, one record at a time, in turns."""
    latencies: dict[Acks, list[float]] = {acks: [] for acks in SETTINGS}
    with ottla.Cluster(brokers=3, subprocess=in_processes) as cluster:
        cluster.create_topic(TOPIC)
        with producer_of(cluster, "all") as safe, producer_of(cluster, 1) as quick:
            turns: tuple[tuple[Acks, ottla.sync.Producer[bytes, bytes]], ...]
            turns = (("all", safe), (1, quick))
            for number in range(count + 10):
                for acks, producer in turns:
                    began = time.perf_counter()
                    producer.send(TOPIC, b"x" * 100).result()
                    # The first ones connect.
                    if number >= 10:
                        latencies[acks].append(1_000 * (time.perf_counter() - began))
    return latencies


def kill_leader(acks: Acks, count: int) -> tuple[set[bytes], set[bytes]]:
    """The acknowledged values, and those that the next leader has."""
    with ottla.Cluster(brokers=3) as cluster:
        cluster.create_topic(TOPIC)
        leader = cluster.leader(TOPIC)
        with producer_of(cluster, acks) as producer:
            producer.send(TOPIC, b"first").result()
            cluster.faults.partition({leader, "clients"}, {1, 2, 3} - {leader})
            if acks == 1:
                # Each follower waited at the leader with one fetch, which this record answers.
                producer.send(TOPIC, b"to the waiting fetches").result()
            values = [b"record %d" % number for number in range(count)]
            deliveries = [producer.send(TOPIC, value) for value in values]
            if acks == 1:
                for delivery in deliveries:
                    delivery.result()
            cluster.faults.kill(leader)
            cluster.faults.heal()
            for delivery in deliveries:
                delivery.result()
        return set(values), read(cluster)


def read(cluster: ottla.Cluster) -> set[bytes]:
    """All that the topic has under its leader of now."""
    while cluster.leader(TOPIC) < 1:
        time.sleep(0.05)
    where = ottla.TopicPartition(TOPIC, 0)
    with ottla.sync.Consumer(cluster.bootstrap_servers, offset_reset="earliest") as consumer:
        end = consumer.end_offsets([where])[where]
        consumer.assign([where])
        found: set[bytes] = set()
        while (consumer.position(where) or 0) < end:
            found |= {record.value or b"" for record in consumer.poll(500)}
    return found


def show(settings: list[Setting]) -> Shown:
    """A row for each setting, and bars of latency and loss."""
    rows = [
        (
            f"acks={one.acks}",
            f"{one.p50_ms:.2f} ms",
            f"{one.p99_ms:.2f} ms",
            one.acknowledged,
            one.found,
            one.lost,
        )
        for one in settings
    ]
    safe, quick = settings
    bars = [
        Bar("latency p50, acks=all (ms)", safe.p50_ms, f"{safe.p50_ms:.2f} ms"),
        Bar("latency p50, acks=1 (ms)", quick.p50_ms, f"{quick.p50_ms:.2f} ms", 1),
    ]
    return Shown(
        table(["", "p50", "p99", "acknowledged", "found", "lost"], rows),
        bar_chart(
            f"Time to the acknowledgement; lost with the leader: {safe.lost} and {quick.lost}", bars
        ),
        holds=safe.lost == 0 and quick.lost > 0 and safe.p50_ms > quick.p50_ms,
    )


if __name__ == "__main__":
    sys.exit(run("acks", measure, show))
