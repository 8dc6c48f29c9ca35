"""A fault with a count strikes so often, however many brokers there are, and no more."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from ottla.broker.testing.cluster import Cluster
from ottla.protocol.errors import ErrorCode
from tests.broker.testing.clients import QUIET, send

if TYPE_CHECKING:
    from typing import Any

PARTITIONS = 12


def produce_everywhere(cluster: Cluster) -> list[str | None]:
    """A record to each partition at once, so that all brokers are asked in the same moment; the
    name of the error of each."""
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 50}, logger=QUIET
    )
    outcomes: list[str | None] = []

    def on_delivery(error: Any, _: object) -> None:
        outcomes.append(None if error is None else error.name())

    for partition in range(PARTITIONS):
        producer.produce("many", b"v", partition=partition, on_delivery=on_delivery)
    producer.flush(30)
    return outcomes


@pytest.mark.parametrize("subprocess", [False, True], ids=["here", "processes"])
def test_brokers_share_the_count_of_a_fault(subprocess: bool) -> None:
    """Each broker in a process of its own counted for itself: one error became three."""
    with Cluster(brokers=3, subprocess=subprocess) as cluster:
        cluster.create_topic("many", PARTITIONS)
        cluster.faults.fail_request("Produce", "TOPIC_AUTHORIZATION_FAILED", count=2)
        first = produce_everywhere(cluster)
        struck = [one for one in cluster.injected if "refused PRODUCE" in str(one)]

        assert len(struck) == 2
        # One request of a broker holds all partitions that it leads.
        assert 2 <= sum(outcome is not None for outcome in first) < PARTITIONS
        assert produce_everywhere(cluster) == [None] * PARTITIONS


def test_a_reply_is_lost_by_one_broker_only() -> None:
    """The same for faults that let the work be done."""
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("many", PARTITIONS)
        cluster.faults.lose_reply("Produce")

        assert produce_everywhere(cluster) == [None] * PARTITIONS
        assert sum("lost a reply" in str(one) for one in cluster.injected) == 1


def test_a_broker_that_starts_again_gets_what_is_left() -> None:
    """One of two faults is used up before the restart."""
    with Cluster() as cluster:
        cluster.create_topic("many", PARTITIONS)
        cluster.faults.fail_request("Produce", "TOPIC_AUTHORIZATION_FAILED", count=2)
        first = send(cluster, "many", [b"a"])
        cluster.faults.kill(1)
        cluster.faults.restart(1)
        second = send(cluster, "many", [b"b"])

        assert first.errors == second.errors == [ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        assert send(cluster, "many", [b"c"]).offsets == [0]
