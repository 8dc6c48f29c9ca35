"""``ottla trace produce`` and ``fetch``: one request, step by step, on three brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Cluster
from ottla.client.administration.request_tracing import ClockOffset, SentRequest, TracedWay
from ottla.client.cli.records.waterfall import picture, steps_of, unflushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla


def told(node: int, **more: Any) -> dict[str, Any]:
    return {"node_id": node, "is_leader": node == 1, "steps": {}, "requests": []} | more


def way(**brokers: dict[str, Any]) -> TracedWay:
    """A request that was sent at 100 ms; the clock of broker N is N seconds ahead."""
    nodes = {int(name[1:]): one for name, one in brokers.items()}
    clocks = {node: ClockOffset(1000.0 * node, 0.5) for node in nodes}
    return TracedWay(SentRequest(7, 100.0, 110.0, 80), clocks, nodes)


def test_times_of_brokers_are_turned_into_those_of_the_client() -> None:
    """Each broker's clock has a beginning of its own."""
    found = way(
        b1=told(
            1,
            steps={"log end": 1102.0, "follower 2": 1106.0, "high watermark": 1106.5},
            requests=[
                ["taken up", "Produce", 1101.0],
                ["handled", "Produce", 1103.0],
                ["answered", "Produce", 1107.0],
            ],
        ),
        b2=told(2, steps={"log end": 2105.0}),
    )
    steps = steps_of(found, "Produce")

    assert [(one.at_ms, one.node) for one in steps] == [
        (0.0, None),
        (1.0, 1),
        (2.0, 1),
        (3.0, 1),
        (5.0, 2),
        (6.0, 1),
        (6.5, 1),
        (7.0, 1),
        (10.0, None),
    ]
    assert steps[3].what == "is done with it; the answer waits in the purgatory"
    assert "follower 2 has the record" in steps[5].what
    lines = picture(steps, found).splitlines()
    assert len(lines) == 1 + len(steps) + 2
    assert lines[-1] == "times of broker 2 are right to 0.500 ms"
    assert unflushed(found) == [1, 2]


def test_a_step_that_was_not_measured_is_not_shown() -> None:
    """A line with a guess would be believed."""
    steps = steps_of(way(b1=told(1)), "Produce")

    assert [one.what for one in steps] == ["sends the Produce request", "gets the answer"]


def test_an_answer_that_did_not_wait_shows_no_wait() -> None:
    """With acks=1 the handler itself answers, and returns afterwards."""
    requests = [
        ["taken up", "Produce", 1101.0],
        ["answered", "Produce", 1102.0],
        ["handled", "Produce", 1103.0],
    ]
    steps = steps_of(way(b1=told(1, requests=requests)), "Produce")

    assert not any("purgatory" in one.what for one in steps)


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Three brokers without any setting for traces."""
    with Cluster(brokers=3) as cluster:
        cluster.create_topic("traced", 2, replication_factor=3)
        yield cluster.bootstrap_servers


def _what(found: dict[str, Any]) -> set[str]:
    return {one["what"] for one in found["steps"]}


def test_a_produce_is_followed_through_each_replica(brokers: str, ottla: Ottla) -> None:
    """Which broker it waited for is what an operator wants to know of a slow producer."""
    found = json.loads(
        ottla("trace", "produce", "traced", "-p", "1", "--json", "-b", brokers).output
    )
    as_text = ottla("trace", "produce", "traced", "-p", "1", "-v", "x", "-b", brokers)
    read = ottla("consume", "traced", "-o", "beginning", "-e", "-b", brokers)

    what = _what(found)
    assert {
        "sends the Produce request",
        "a handler takes the request up",
        "appends the record",
        "appends the record, as a follower",
        "is done with it; the answer waits in the purgatory",
        "raises the high watermark: consumers see it",
        "hands the answer to the connection",
        "gets the answer",
    } <= what
    followers = [one for one in found["steps"] if one["what"].endswith("as a follower")]
    assert len({one["broker"] for one in followers}) == 2
    assert sum("has the record" in one for one in what) == 2
    assert len(found["clocks"]) == 3
    own = {one["what"]: one["at_ms"] for one in found["steps"]}
    assert own["a handler takes the request up"] <= own["appends the record"]
    assert own["appends the record"] <= own["hands the answer to the connection"]
    assert "traced-1 offset 1: Produce answered after" in as_text.output.decode()
    assert read.output == b"sent by ottla trace\nx\n"


def test_a_fetch_that_waits_shows_the_wait(brokers: str, ottla: Ottla) -> None:
    """The time in the purgatory is the consumer's fetch.max.wait.ms, and no fault of the broker."""
    found = json.loads(
        ottla(
            "trace", "fetch", "traced", "-o", "0", "--timeout", "1", "--json", "-b", brokers
        ).output
    )

    at = {one["what"]: one["at_ms"] for one in found["steps"]}
    waited = at["hands the answer to the connection"]
    assert waited - at["is done with it; the answer waits in the purgatory"] >= 900
    assert found["record_bytes"] == 0


def test_a_partition_that_is_not_there_is_a_sentence(brokers: str, ottla: Ottla) -> None:
    """Nothing is sent, and no topic is created."""
    ended = ottla("trace", "produce", "absent", "-b", brokers)
    beyond = ottla("trace", "produce", "traced", "-p", "9", "-b", brokers)

    assert (ended.status, beyond.status) == (1, 1)
    assert "there is no partition 0 of a topic 'absent'" in ended.errors
    assert "there is no partition 9 of a topic 'traced'" in beyond.errors
