"""Election: one surviving in-sync replica goes on, where a majority would have stopped.

    python -m examples.why.election [--quick]

Three brokers, ``acks=all``. The leader is killed, then the next leader. After each death the
program sends on and looks whether all that was acknowledged is still there.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

import ottla
import ottla.sync
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

TOPIC = "orders"
REPLICAS = 3


class Step(NamedTuple):
    """With so many brokers alive: what was acknowledged so far, and what of it is there."""

    alive: int
    leader: int
    acknowledged: int
    found: int

    @property
    def majority_goes_on(self) -> bool:
        return self.alive > REPLICAS // 2


def measure(quick: bool) -> list[Step]:
    """Send, kill the leader, and again until one broker is left."""
    count = 50 if quick else 500
    steps: list[Step] = []
    with ottla.Cluster(brokers=REPLICAS) as cluster:
        cluster.create_topic(TOPIC, configs={"min.insync.replicas": 1})
        for alive in range(REPLICAS, 0, -1):
            with ottla.sync.Producer(cluster.bootstrap_servers, acks="all") as producer:
                for number in range(count):
                    producer.send(TOPIC, b"record %d" % number)
            acknowledged = count * (REPLICAS + 1 - alive)
            leader = cluster.leader(TOPIC)
            steps.append(Step(alive, leader, acknowledged, end_offset(cluster)))
            if alive > 1:
                cluster.faults.kill(leader)
    return steps


def end_offset(cluster: ottla.Cluster) -> int:
    """How many records the leader has. Each was acknowledged, since closing a producer waits."""
    where = ottla.TopicPartition(TOPIC, 0)
    with ottla.sync.Consumer(cluster.bootstrap_servers) as consumer:
        return consumer.end_offsets([where])[where]


def show(steps: list[Step]) -> Shown:
    """A row and a bar for each step."""
    rows = [
        (
            f"{one.alive} of {REPLICAS}",
            one.leader,
            one.acknowledged,
            one.found,
            "accepts" if one.majority_goes_on else "refuses",
        )
        for one in steps
    ]
    bars = [
        Bar(
            f"{one.alive} of {REPLICAS} alive",
            one.found,
            f"{one.found} of {one.acknowledged}",
            0 if one.majority_goes_on else 2,
        )
        for one in steps
    ]
    return Shown(
        table(["alive", "leader", "acknowledged", "found", "a majority"], rows),
        bar_chart("Acknowledged records that the leader has", bars),
        holds=[one.alive for one in steps] == [3, 2, 1]
        and all(one.found == one.acknowledged for one in steps)
        and not steps[-1].majority_goes_on,
    )


if __name__ == "__main__":
    sys.exit(run("election", measure, show))
