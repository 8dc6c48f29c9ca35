"""Micro-batches that take longer than their transactions may."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.client.spark.sink_ledger import WriteRefused, name_of
from ottla.client.spark.sink_task import OnceTask
from ottla.client.spark.writer import run
from ottla.client.sync.admin import Admin
from ottla.wire.errors import RequestRefused
from tests.client.spark.test_sink_replays import FIRST, Query, batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.administration.transaction_requests import TransactionView

TIMEOUT = {"kafka.transaction.timeout.ms": "60000"}
EXPLAINED = r"longer than kafka\.transaction\.timeout\.ms=60000"
LONGER_MS = 75_000


@pytest.fixture(scope="module")
def cluster() -> Iterator[ottla.Cluster]:
    """A cluster whose clock can be moved forward."""
    with ottla.Cluster() as cluster:
        yield cluster


def query_in(cluster: ottla.Cluster, topic: str) -> Query:
    cluster.create_topic(topic, partitions=3)
    return Query(cluster.bootstrap_servers, topic, topic, **TIMEOUT)


def time_passes(cluster: ottla.Cluster, query: Query) -> None:
    """Until the coordinator has given the transaction of task 0 up."""
    cluster.faults.advance(LONGER_MS)
    name = name_of(query.options.prefix, query.topic, 0)
    with Admin(cluster.bootstrap_servers) as admin:
        while not is_given_up(admin.transactions.describe_transactions([name])[name]):
            pass


def is_given_up(found: TransactionView | RequestRefused) -> bool:
    return not isinstance(found, RequestRefused) and found.state == "CompleteAbort"


def test_what_was_open_for_too_long_is_not_committed(cluster: ottla.Cluster) -> None:
    """The rows of one task were aborted: committing the others would lose them for good."""
    query = query_in(cluster, "whole")
    told = query.write_all(0, FIRST)
    time_passes(cluster, query)

    with pytest.raises(WriteRefused, match=EXPLAINED):
        query.writer.commit(told, 0)
    query.writer.abort(told, 0)
    assert query.committed() == {}
    query.batch(0, FIRST)
    assert query.committed() == {0: [b"a", b"b", b"c"], 1: [b"d"]}


def test_a_task_that_is_too_slow_cannot_write_outside_of_its_transaction(
    cluster: ottla.Cluster,
) -> None:
    """Records sent after the end of the transaction would belong to none."""
    query = query_in(cluster, "slow")
    slow = OnceTask(query.options, query.task(0, 0))
    run(slow.open())
    rows = batches(0, [b"a", b"b", b"c"])
    run(slow.take(next(rows)))
    run(slow._writing.delivered())
    time_passes(cluster, query)

    def go_on() -> None:
        run(slow.take(next(rows)))
        run(slow.finish())

    with pytest.raises(WriteRefused, match=EXPLAINED):
        go_on()
    run(slow.close())
    assert query.committed() == {}
