"""``ottla broker``, moves with a throttle, and sizes of topics, on four brokers."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ottla import Cluster
from tests.client.cli.command import is_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.client.cli.command import Ottla

RATE = "follower.replication.throttled.rate"
REPLICAS = "leader.replication.throttled.replicas"


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Their addresses."""
    with Cluster(brokers=4) as cluster:
        yield cluster.bootstrap_servers


def test_a_drained_broker_holds_no_replica(brokers: str, ottla: Ottla) -> None:
    """All records are on other brokers, and no limit of the move stays behind."""
    ottla("topics", "create", "goods", "-p", "6", "-r", "3", "-b", brokers)
    ottla("produce", "goods", "-b", brokers, stdin=b"record\n" * 500)

    planned = ottla("broker", "drain", "2", "--dry-run", "-b", brokers)
    done = ottla("broker", "drain", "2", "--throttle", "20M", "-b", brokers)

    assert all(2 not in one["replicas"] for one in json.loads(planned.output)["partitions"])
    assert (done.status, done.errors) == (0, "")
    assert b"broker 2 has none any more" in done.output
    told = json.loads(ottla("topics", "describe", "goods", "--json", "-b", brokers).output)[0]
    assert all(2 not in one["replicas"] for one in told["partitions"])
    assert all(len(one["isr"]) == 3 for one in told["partitions"])
    assert {one["source"] for one in told["configs"].values()} == {"DEFAULT"}
    shown = ottla("broker", "config", "1", RATE, "--json", "-b", brokers)
    assert json.loads(shown.output)[0]["source"] == "DEFAULT"
    again = ottla("broker", "drain", "2", "--json", "-b", brokers)
    assert json.loads(again.output) == {"broker": 2, "moved": 0}


def test_a_move_is_limited_until_it_is_verified(brokers: str, ottla: Ottla, tmp_path: Path) -> None:
    """As with Kafka's own tool."""
    ottla("topics", "create", "slow", "-p", "1", "-r", "1", "-b", brokers)
    told = json.loads(ottla("topics", "describe", "slow", "--json", "-b", brokers).output)[0]
    old = told["partitions"][0]["leader"]
    new = 1 if old != 1 else 3
    file = tmp_path / "plan.json"
    move = {"topic": "slow", "partition": 0, "replicas": [new]}
    file.write_text(json.dumps({"version": 1, "partitions": [move]}))

    begun = ottla("reassign", "execute", str(file), "--throttle", "5M", "-b", brokers)
    rate = ottla("broker", "config", str(new), RATE, "--json", "-b", brokers)
    replicas = ottla("configs", "describe", "topic", "slow", REPLICAS, "--json", "-b", brokers)
    while ottla("reassign", "verify", str(file), "-b", brokers).status:
        pass
    after = ottla("configs", "describe", "topic", "slow", REPLICAS, "--json", "-b", brokers)

    assert (begun.status, begun.errors) == (0, "")
    assert json.loads(rate.output)[0]["value"] == str(5 * 1024 * 1024)
    assert json.loads(replicas.output)[0]["value"] == f"0:{old}"
    assert json.loads(after.output)[0]["value"] == ""


def test_topics_are_listed_with_their_sizes(brokers: str, ottla: Ottla) -> None:
    """One copy, and all replicas; the largest topic first in text."""
    ottla("topics", "create", "large", "-p", "2", "-r", "2", "-b", brokers)
    ottla("produce", "large", "--acks", "all", "-b", brokers, stdin=b"x" * 900_000)

    text = ottla("topics", "list", "--sizes", "-b", brokers)
    document = ottla("topic", "list", "-s", "--json", "-b", brokers)

    assert text.output.splitlines()[1].split()[0] == b"large"
    (one,) = [each for each in json.loads(document.output) if each["topic"] == "large"]
    assert 900_000 < one["size_bytes"] < 901_000
    assert one["replicas_bytes"] == 2 * one["size_bytes"]


def test_log_levels_are_changed_while_a_broker_runs(brokers: str, ottla: Ottla) -> None:
    """And go back to what they were."""
    before = json.loads(ottla("broker", "log-level", "1", "--json", "-b", brokers).output)
    words = ("broker", "-b", brokers, "log-level", "1")

    changed = ottla(*words, "ottla.log=debug")
    back = ottla(*words, "-d", "ottla.log", "--json")

    assert changed.errors == ""
    assert changed.output.splitlines()[1].split() == [b"ottla.log", b"DEBUG"]
    assert json.loads(back.output) == {"ottla.log": before["ottla.log"]}


def test_options_may_stand_between_arguments(brokers: str, ottla: Ottla) -> None:
    """In any order: a person adds -b where the cursor is."""
    for words in (
        ("log-level", "1", "-b", brokers, "ottla.log"),
        ("log-level", "-b", brokers, "1", "ottla.log"),
        ("-b", brokers, "log-level", "1", "ottla.log"),
        ("log-level", "1", "ottla.log", "-b", brokers),
    ):
        found = ottla("broker", *words, "--json")

        assert (found.status, found.errors) == (0, ""), words
        assert list(json.loads(found.output)) == ["ottla.log"]


@pytest.mark.parametrize(
    ("words", "status", "part"),
    [
        (("log-level", "1", "ottla.none"), 1, "has no logger ottla.none; "),
        (
            ("log-level", "1", "ottla.none=INFO"),
            1,
            "ottla.none; 'ottla broker log-level 1' lists all",
        ),
        (("log-level", "1", "ottla.log=LOUD"), 1, "LOUD is no level"),
        (("log-level", "1", "ottla.log", "ottla.network=INFO"), 2, "write ottla.log=DEBUG"),
        (("log-level", "9"), 1, "the cluster has no broker 9; it has 1, 2, 3, 4"),
        (("drain", "9"), 1, "the cluster has no broker 9; it has 1, 2, 3, 4"),
        (("drain", "1", "--brokers", "8"), 1, "broker 8 is not there"),
        (("drain", "1", "--brokers", "1"), 1, "can take it; add a broker"),
        (("drain", "1", "--throttle", "fast"), 2, "'fas"),
        (("config", "1", "no.such.setting"), 1, "there is no setting no.such.setting"),
    ],
)
def test_a_mistake_gets_one_sentence(
    brokers: str, ottla: Ottla, words: tuple[str, ...], status: int, part: str
) -> None:
    """With what there is instead."""
    ottla("topics", "create", "some", "-p", "4", "-r", "2", "-b", brokers)

    ended = ottla("broker", *words, "-b", brokers)

    assert (ended.status, ended.output) == (status, b"")
    assert part in ended.errors
    assert is_one_sentence(ended.errors)
