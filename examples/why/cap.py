"""CAP: while a network is cut, a topic either refuses writes or risks that they are lost.

    python -m examples.why.cap [--quick]

Three brokers; the leader and all clients are cut off from the other two. Two topics differ in
``min.insync.replicas`` and ``unclean.leader.election.enable``. After the cut the leader dies, and
the program looks which of the accepted records are left.
"""

from __future__ import annotations

import sys
import time
from typing import NamedTuple

import ottla
import ottla.sync
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

CONSISTENT, AVAILABLE = "consistent", "available"
CONFIGS: dict[str, dict[str, str]] = {
    CONSISTENT: {"min.insync.replicas": "2", "unclean.leader.election.enable": "false"},
    AVAILABLE: {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"},
}
LAG_MS = 1_000
# How long a producer repeats a refused record; the available topic accepts it once it is alone.
PATIENCE_MS = {CONSISTENT: 1_500, AVAILABLE: 60_000}
LEADER_TIMEOUT_S = 20


class Side(NamedTuple):
    """What came of the records of one topic: those sent during the cut, and those from before."""

    topic: str
    sent: int
    accepted: int
    refused: int
    lost: int
    lost_from_before: int


def measure(quick: bool) -> list[Side]:
    """Write, cut, write, kill, heal, read."""
    count = 20 if quick else 200
    with ottla.Cluster(brokers=3, settings={"replica.lag.time.max.ms": LAG_MS}) as cluster:
        with ottla.sync.Admin(cluster.bootstrap_servers) as admin:
            for topic, configs in CONFIGS.items():
                place = ottla.NewTopic(topic, assignment=[[1, 2, 3]], configs=configs)
                admin.create_topic(place)
            while any(cluster.leader(topic) != 1 for topic in CONFIGS):
                time.sleep(0.05)
        before = {topic: write(cluster, topic, b"before %d", count) for topic in CONFIGS}
        cluster.faults.partition({1, "clients"}, {2, 3})
        # Accepted once the leader has removed both silent followers from the in-sync replicas.
        write(cluster, AVAILABLE, b"probe %d", 1)
        accepted = {topic: write(cluster, topic, b"record %d", count) for topic in CONFIGS}
        cluster.faults.kill(1)
        cluster.faults.heal()
        left = {topic: read(cluster, topic) for topic in CONFIGS}
    return [
        Side(
            topic,
            count,
            len(accepted[topic]),
            count - len(accepted[topic]),
            len(accepted[topic] - left[topic]),
            len(before[topic] - left[topic]),
        )
        for topic in CONFIGS
    ]


def write(cluster: ottla.Cluster, topic: str, form: bytes, count: int) -> set[bytes]:
    """Send to the topic with acks=all; the values that were acknowledged."""
    accepted: set[bytes] = set()
    # The address of broker 1 alone: the others do not answer, and would be waited for.
    with ottla.sync.Producer(
        cluster.brokers[1].address,
        acks="all",
        request_timeout_ms=1_000,
        delivery_timeout_ms=PATIENCE_MS[topic],
    ) as producer:
        values = [form % number for number in range(count)]
        deliveries = [(value, producer.send(topic, value)) for value in values]
        for value, delivery in deliveries:
            try:
                delivery.result()
            except ottla.ClientError:
                continue
            accepted.add(value)
    return accepted


def read(cluster: ottla.Cluster, topic: str) -> set[bytes]:
    """All that the topic has under its new leader; nothing if it gets none."""
    end_s = time.monotonic() + LEADER_TIMEOUT_S
    while cluster.leader(topic) < 2:
        if time.monotonic() > end_s:
            return set()
        time.sleep(0.05)
    where = ottla.TopicPartition(topic, 0)
    with ottla.sync.Consumer(cluster.bootstrap_servers, offset_reset="earliest") as consumer:
        end = consumer.end_offsets([where])[where]
        consumer.assign([where])
        found: set[bytes] = set()
        while (consumer.position(where) or 0) < end:
            found |= {record.value or b"" for record in consumer.poll(500)}
    return found


def show(sides: list[Side]) -> Shown:
    """A row for each topic; three bars each."""
    bars = []
    for side in sides:
        bars.append(Bar(f"{side.topic}: accepted", side.accepted, str(side.accepted), 2))
        bars.append(Bar(f"{side.topic}: refused", side.refused, str(side.refused), 0))
        bars.append(Bar(f"{side.topic}: accepted and lost", side.lost, str(side.lost), 1))
    consistent, available = sides
    return Shown(
        table(["topic", "sent", "accepted", "refused", "lost", "lost from before the cut"], sides),
        bar_chart("Records sent while the leader is cut off", bars),
        holds=consistent.refused == consistent.sent
        and consistent.lost == consistent.lost_from_before == 0
        and available.accepted == available.sent
        and available.lost > 0,
    )


if __name__ == "__main__":
    sys.exit(run("cap", measure, show))
