"""The last hour of partitions is kept within bounds, and its changes are named."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.console.views.alive_view import AliveChoice, alive_document
from ottla.client.console.views.history import (
    CHANGES_MAX,
    HISTORY_MS,
    MOMENTS_MAX,
    STEP_MS,
    ClusterMoment,
    History,
)
from ottla.client.console.views.history_changes import (
    SeenBrokers,
    SeenPartition,
    broker_changes,
    partition_changes,
)
from ottla.client.console.views.paging import PageCut
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from ottla.client.console.views.asked import Document

FIRST = SeenPartition(1, 4, (1, 2, 3), (1, 2, 3), 100)
BROKERS = SeenBrokers(frozenset({1, 2, 3}), 1)
WHERE = TopicPartition("t", 0)


def _add(history: History, at_ms: int, *states: SeenPartition) -> None:
    parts = {TopicPartition("t", number): state for number, state in enumerate(states)}
    history.add(at_ms, ClusterMoment(parts, BROKERS))


def _document(history: History, now_ms: int, back_s: int) -> Document:
    return alive_document(history, AliveChoice(PageCut(), "worst", False, back_s), now_ms)


def test_changes_of_partitions_are_named() -> None:
    """What an operator looks for in the logs of three brokers."""
    assert partition_changes(FIRST, FIRST) == []
    assert partition_changes(FIRST, FIRST._replace(end=200)) == []
    assert partition_changes(FIRST, FIRST._replace(leader=2, leader_epoch=5, isr=(2, 3))) == [
        "broker 2 leads in epoch 5",
        "left the ISR: 1",
    ]
    assert partition_changes(FIRST._replace(isr=(2,)), FIRST) == ["joined the ISR: 1, 3"]
    assert partition_changes(FIRST, FIRST._replace(leader=-1)) == ["the partition has no leader"]
    assert partition_changes(FIRST, FIRST._replace(leader_epoch=5)) == ["broker 1 leads in epoch 5"]
    assert partition_changes(FIRST, FIRST._replace(replicas=(1, 2))) == ["the replicas are 1, 2"]
    assert partition_changes(FIRST, FIRST._replace(end=90)) == ["the end went back from 100 to 90"]


def test_transactions_are_named() -> None:
    """Where readers of committed records wait, and when they go on."""
    free, held = FIRST._replace(stable=100), FIRST._replace(end=130, stable=110)

    assert partition_changes(free, held) == ["an open transaction holds the stable offset at 110"]
    assert partition_changes(held, held._replace(end=140)) == []
    assert partition_changes(held, held._replace(stable=120)) == [
        "a transaction has ended; the next open one begins at 120"
    ]
    assert partition_changes(held, held._replace(stable=130)) == [
        "no transaction is open any more, the stable offset is 130"
    ]
    assert partition_changes(FIRST, held) == []


def test_changes_of_brokers_are_named() -> None:
    """Elections of controllers among them."""
    assert broker_changes(BROKERS, BROKERS) == []
    assert broker_changes(BROKERS, SeenBrokers(frozenset({2, 3, 4}), 2)) == [
        "left the cluster: broker 1",
        "joined the cluster: broker 4",
        "broker 2 is the controller",
    ]
    assert broker_changes(BROKERS, BROKERS._replace(controller=-1)) == [
        "no broker is the controller"
    ]


def test_the_slider_leads_back_to_a_moment() -> None:
    """With the changes until then, and the rate at that time."""
    history = History()
    for second in range(0, 60, 2):
        leader = 1 if second < 30 else 2
        _add(history, second * 1000, FIRST._replace(leader=leader, end=second * 10))

    now = _document(history, 58_000, 0)
    then = _document(history, 58_000, 40)

    assert (now["at"], now["first"]) == (58_000, 0)
    assert now["partitions"][0]["per_second"] == 10.0
    assert [one["sentence"] for one in now["changes"]] == ["broker 2 leads in epoch 4"]
    assert (then["at"], then["partitions"][0]["leader"], then["changes"]) == (18_000, 1, [])
    assert _document(history, 58_000, 3000)["at"] == 0
    assert _document(History(), 5, 0)["partitions"] == []


def test_an_hour_is_kept_and_no_more() -> None:
    """However long the console runs, and however often leaders change."""
    history = History()
    for step in range(MOMENTS_MAX * 2):
        _add(history, step * STEP_MS, FIRST._replace(leader_epoch=step))
    end_ms = (MOMENTS_MAX * 2 - 1) * STEP_MS

    found = _document(history, end_ms, HISTORY_MS // 1000)

    assert found["first"] >= end_ms - HISTORY_MS
    assert len(history._moments) <= MOMENTS_MAX
    assert len(history._changes) <= CHANGES_MAX
    assert history.entries <= MOMENTS_MAX + 100
    assert found["partitions"][0]["leader_epoch"] == MOMENTS_MAX


def test_a_partition_at_rest_is_kept_once() -> None:
    """Most partitions of a large cluster are."""
    history = History()
    for step in range(100):
        _add(history, step * STEP_MS, FIRST._replace())
    assert history.entries == 1
    assert history.rate_at(WHERE, 100 * STEP_MS) == 0


def test_many_busy_partitions_are_kept_less_often_but_each_election_is_kept() -> None:
    """The memory has a bound; what an incident is about must not be thinned out."""
    history = History(entries_max=1_000)
    for step in range(1_800):
        epoch = 5 if step >= 900 else 4
        state = FIRST._replace(end=step * 10, leader_epoch=epoch)
        _add(history, step * STEP_MS, *[state] * 10)
    now_ms = 1_799 * STEP_MS

    assert history.entries <= 1_100
    before = history.states_at(900 * STEP_MS - 1)[WHERE]
    after = history.states_at(900 * STEP_MS)[WHERE]
    assert (before.leader_epoch, after.leader_epoch) == (4, 5)
    last = history.states_at(now_ms)[WHERE]
    assert last.end == 17_990
    assert history.rate_at(WHERE, now_ms) == 5.0


def test_elections_without_end_are_bounded_too() -> None:
    """The older half goes."""
    history = History(entries_max=100)
    for step in range(1_000):
        _add(history, step * STEP_MS, *[FIRST._replace(leader_epoch=step)] * 10)

    assert history.entries <= 210
    assert history.states_at(999 * STEP_MS)[WHERE].leader_epoch == 999


def test_a_partition_that_is_gone_is_forgotten() -> None:
    """A topic was deleted."""
    history = History()
    _add(history, 1, FIRST, FIRST)
    _add(history, 2, FIRST)

    assert history.partitions == 1
