"""Exactly once: one write decides a transaction, and a dead partition has no vote.

    python -m examples.why.exactly_once [--quick]

A transaction writes to a partition on each of three brokers. One of the brokers dies before the
commit. The program looks at what readers of committed records see in the other partitions while it
is dead, and in its own one when it is back. Then it loses the acknowledgement of one record, so
that the producer sends the record twice, and counts how often it is stored.
"""

from __future__ import annotations

import sys
import threading
import time
from typing import NamedTuple

import ottla
import ottla.sync
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

TOPIC, REPEATED = "payments", "repeated"
PARTITIONS = 3


class Outcome(NamedTuple):
    """Committed records by partition, before and after the dead broker's return."""

    dead: int
    meanwhile: dict[int, int]
    afterwards: dict[int, int]
    sent_twice_stored: int


def measure(quick: bool) -> Outcome:
    """On three brokers; ``quick`` changes nothing."""
    with ottla.Cluster(brokers=3) as cluster:
        with ottla.sync.Admin(cluster.bootstrap_servers) as admin:
            admin.create_topic(ottla.NewTopic(TOPIC, assignment=[[1], [2], [3]]))
            admin.create_topic(ottla.NewTopic(REPEATED, assignment=[[1]]))
        while [cluster.leader(TOPIC, number) for number in range(PARTITIONS)] != [1, 2, 3]:
            time.sleep(0.05)
        with ottla.sync.Producer(cluster.bootstrap_servers, transactional_id="t") as producer:
            producer.init_transactions()
            producer.begin_transaction()
            for number in range(PARTITIONS):
                producer.send(TOPIC, b"payment", partition=number).result()
            dead = 3
            cluster.faults.kill(dead)
            commit = threading.Thread(target=producer.commit_transaction)
            commit.start()
            alive = [number for number in range(PARTITIONS) if number + 1 != dead]
            meanwhile = {number: wait_for_committed(cluster, number) for number in alive}
            cluster.faults.restart(dead)
            commit.join()
        afterwards = {number: wait_for_committed(cluster, number) for number in range(PARTITIONS)}
        return Outcome(dead, meanwhile, afterwards, send_twice(cluster))


def wait_for_committed(cluster: ottla.Cluster, partition: int) -> int:
    """How many records a reader of committed ones gets; waits for the first."""
    with ottla.sync.Consumer(
        cluster.bootstrap_servers,
        isolation=ottla.Isolation.READ_COMMITTED,
        offset_reset="earliest",
    ) as consumer:
        consumer.assign([ottla.TopicPartition(TOPIC, partition)])
        found = 0
        while not found:
            found += len(consumer.poll(500))
        return found


def send_twice(cluster: ottla.Cluster) -> int:
    """Lose the first acknowledgement, so that the producer repeats; how many records there are."""
    where = ottla.TopicPartition(REPEATED, 0)
    with ottla.sync.Producer(cluster.bootstrap_servers) as producer:
        producer.send(REPEATED, b"first").result()
        cluster.faults.lose_reply("Produce")
        producer.send(REPEATED, b"second").result()
    with ottla.sync.Consumer(cluster.bootstrap_servers) as consumer:
        return consumer.end_offsets([where])[where] - 1


def show(outcome: Outcome) -> Shown:
    """A row for each partition, and the record that was sent twice."""
    rows = [
        (
            f"partition {number}",
            f"broker {number + 1}",
            outcome.meanwhile.get(number, "dead"),
            outcome.afterwards[number],
        )
        for number in range(PARTITIONS)
    ]
    bars = [
        Bar(
            f"partition {number}",
            outcome.meanwhile.get(number, 0),
            "visible" if number in outcome.meanwhile else "its broker is dead: waits",
            0 if number in outcome.meanwhile else 1,
        )
        for number in range(PARTITIONS)
    ]
    lines = table(["", "on", "committed while one is dead", "when it is back"], rows)
    lines.append(f"A record that was sent twice is stored {outcome.sent_twice_stored} time(s).")
    return Shown(
        lines,
        bar_chart("A committed transaction while one of its three brokers is dead", bars),
        holds=list(outcome.meanwhile.values()) == [1, 1]
        and list(outcome.afterwards.values()) == [1, 1, 1]
        and outcome.sent_twice_stored == 1,
    )


if __name__ == "__main__":
    sys.exit(run("exactly_once", measure, show))
