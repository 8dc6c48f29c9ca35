"""The last hour of a topic is kept within bounds, and its changes are named."""

from __future__ import annotations

from ottla.client.console.views.history import (
    CHANGES_MAX,
    HISTORY_MS,
    MOMENTS_MAX,
    STEP_MS,
    History,
    SeenPartition,
    changes_of,
)

FIRST = SeenPartition(1, 4, (1, 2, 3), (1, 2, 3), 100)


def test_changes_are_named() -> None:
    """What an operator looks for in the logs of three brokers."""
    assert changes_of(FIRST, FIRST) == []
    assert changes_of(FIRST, FIRST._replace(end=200)) == []
    assert changes_of(FIRST, FIRST._replace(leader=2, leader_epoch=5, isr=(2, 3))) == [
        "broker 2 leads in epoch 5",
        "left the ISR: 1",
    ]
    assert changes_of(FIRST._replace(isr=(2,)), FIRST) == ["joined the ISR: 1, 3"]
    assert changes_of(FIRST, FIRST._replace(leader=-1)) == ["the partition has no leader"]
    assert changes_of(FIRST, FIRST._replace(leader_epoch=5)) == ["broker 1 leads in epoch 5"]
    assert changes_of(FIRST, FIRST._replace(replicas=(1, 2))) == ["the replicas are 1, 2"]
    assert changes_of(FIRST, FIRST._replace(end=90)) == ["the end went back from 100 to 90"]


def test_the_slider_leads_back_to_a_moment() -> None:
    """With the changes until then, and the rate at that time."""
    history = History()
    for second in range(0, 60, 2):
        leader = 1 if second < 30 else 2
        history.add(second * 1000, {0: FIRST._replace(leader=leader, end=second * 10)})

    now = history.document(58_000, 0)
    then = history.document(58_000, 40)

    assert (now["at"], now["first"]) == (58_000, 0)
    assert now["partitions"][0]["per_second"] == 10.0
    assert [one["sentence"] for one in now["changes"]] == ["broker 2 leads in epoch 4"]
    assert (then["at"], then["partitions"][0]["leader"], then["changes"]) == (18_000, 1, [])
    assert history.document(58_000, 3000)["at"] == 0
    assert History().document(5, 0)["partitions"] == []


def test_an_hour_is_kept_and_no_more() -> None:
    """However long the console runs, and however often leaders change."""
    history = History()
    for step in range(MOMENTS_MAX * 2):
        history.add(step * STEP_MS, {0: FIRST._replace(leader_epoch=step)})
    end_ms = (MOMENTS_MAX * 2 - 1) * STEP_MS

    found = history.document(end_ms, HISTORY_MS // 1000)

    assert found["first"] >= end_ms - HISTORY_MS
    assert len(history._moments) <= MOMENTS_MAX
    assert len(history._changes) <= CHANGES_MAX


def test_a_state_without_a_change_is_kept_once() -> None:
    """An idle topic takes no memory for its partitions."""
    history = History()
    history.add(1, {0: FIRST})
    history.add(2, {0: FIRST._replace()})
    history.add(2, {0: FIRST._replace(leader=9)})

    first, second = history.at(1), history.at(2)
    assert first is not None
    assert second is not None
    assert first.states[0] is second.states[0]
