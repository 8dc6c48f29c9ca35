"""``ottla cluster``, ``reassign`` and ``elect`` against three real brokers in one process."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.cluster.cluster import problem_text
from ottla.client.cluster.metadata import PartitionView, TopicView
from tests.client.cli import command
from tests.client.cli.command import Ottla, is_one_sentence
from tests.support.broker_process import BrokerProcess
from tests.support.cluster import running_cluster

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

DONE_WITHIN_S = 90.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The first broker's address."""
    directory: Path = tmp_path_factory.mktemp("cluster")
    with BrokerProcess(directory / "data", extra=["--brokers", "3"]) as process:
        yield process.address


def test_the_cluster_is_described(cluster: str, ottla: Ottla) -> None:
    """An operator sees brokers and leaders without a tool of another project."""
    ottla("topics", "create", "seen", "-p", "3", "-r", "3", "-b", cluster)

    text = ottla("cluster", "describe", "-b", cluster)
    found = json.loads(ottla("cluster", "describe", "-b", cluster, "--format", "json").output)

    assert [row["broker"] for row in found["brokers"]] == [1, 2, 3]
    assert found["controller"] in (1, 2, 3)
    assert sum(row["controller"] for row in found["brokers"]) == 1
    assert all(row["leads"] >= 1 and row["replicas"] >= 3 for row in found["brokers"])
    assert found["under_replicated"] == []
    assert b"every partition has its leader and all its replicas in sync" in text.output


async def test_a_broker_that_does_not_answer_is_marked() -> None:
    """A killed broker is listed until its session ends, and an operator may look before that."""
    async with running_cluster() as running:
        network = running[3].network
        assert network is not None
        network.stop_accepting()
        text = await command.ottla("cluster", "describe", "-b", str(running[1].address))
        document = await command.ottla(
            "cluster", "describe", "-b", str(running[1].address), "--format", "json"
        )

    lines = text.output.decode().splitlines()
    assert [line.split()[0] for line in lines if "(not reachable)" in line] == ["3"]
    assert [row["reachable"] for row in json.loads(document.output)["brokers"]] == [
        True,
        True,
        False,
    ]


def test_users_topics_come_first_and_internal_ones_are_counted() -> None:
    """Fifty lines about the offsets topic would hide the topic that the operator is looking for."""
    offsets = view("__consumer_offsets", 50, leader=-1, is_internal=True)
    parts = list(offsets.partitions.values())
    parts[0] = replace(parts[0], leader_id=1)
    own = view("t", 1, leader=1)
    unhealthy = [(own, own.partitions[0]), *((offsets, part) for part in parts[:17])]

    short = problem_text(unhealthy, lists_internal=False)
    whole = problem_text(unhealthy, lists_internal=True)

    assert short.splitlines()[1].split() == ["t", "0", "1", "1,2", "1"]
    assert short.splitlines()[3:] == [
        "__consumer_offsets: 17 of 50 partitions lack replicas in sync, 16 of them a leader "
        "(--internal lists them)"
    ]
    assert len(whole.splitlines()) == 19
    assert "lack replicas" not in whole


def view(name: str, count: int, *, leader: int, is_internal: bool = False) -> TopicView:
    """A topic of which one replica is missing."""
    made = TopicView(name, is_internal=is_internal)
    for number in range(count):
        made.partitions[number] = PartitionView(number, leader, 0, (1, 2), (1,))
    return made


def _replicas(described: bytes) -> list[list[int]]:
    (topic,) = json.loads(described)
    return [part["replicas"] for part in topic["partitions"]]


def test_a_plan_is_made_executed_and_verified(cluster: str, ottla: Ottla, tmp_path: Path) -> None:
    """The plan is a file that Kafka's own tool could have written."""
    ottla("topics", "create", "moved", "-p", "2", "-r", "1", "-b", cluster)
    ottla("produce", "moved", "-b", cluster, stdin=b"a\nb\nc\nd\n")
    generated = ottla("reassign", "generate", "moved", "--brokers", "3", "-b", cluster)
    plan = tmp_path / "plan.json"
    plan.write_bytes(generated.output)

    begun = ottla("reassign", "execute", str(plan), "-b", cluster)
    deadline = time.monotonic() + DONE_WITHIN_S
    verified = ottla("reassign", "verify", str(plan), "-b", cluster)
    while verified.status and time.monotonic() < deadline:
        time.sleep(0.1)
        verified = ottla("reassign", "verify", str(plan), "-b", cluster)
    described = ottla("topics", "describe", "moved", "-b", cluster, "--format", "json")
    # The controller applies the change; the broker that is asked may see it later.
    while [3, 2] in _replicas(described.output) and time.monotonic() < deadline:
        described = ottla("topics", "describe", "moved", "-b", cluster, "--format", "json")
    read = ottla("consume", "moved", "--from-beginning", "-e", "-b", cluster)

    assert json.loads(generated.output)["partitions"] == [
        {"topic": "moved", "partition": number, "replicas": [3]} for number in (0, 1)
    ]
    assert begun == (0, b"begun moved-0\nbegun moved-1\n", "")
    assert verified == (0, b"moved-0: done\nmoved-1: done\n", "")
    assert _replicas(described.output) == [[3], [3]]
    assert sorted(read.output.split()) == [b"a", b"b", b"c", b"d"]


def test_a_plan_with_a_topic_that_is_gone_is_verified_for_the_others(
    cluster: str, ottla: Ottla, tmp_path: Path
) -> None:
    """Topics are deleted while plans lie in files; the rest of a plan is still worth knowing."""
    ottla("topics", "create", "present", "-b", cluster)
    made = json.loads(ottla("reassign", "generate", "present", "-b", cluster).output)
    made["partitions"].insert(0, {"topic": "gone", "partition": 0, "replicas": [1]})
    made["partitions"].append({"topic": "present", "partition": 7, "replicas": [1]})
    plan = tmp_path / "plan.json"
    plan.write_text(json.dumps(made))

    ended = ottla("reassign", "verify", str(plan), "-b", cluster)

    assert ended.status == 1
    first, second, third = ended.output.decode().splitlines()
    assert first == "gone-0: there is no such topic"
    assert second.startswith("present-0: ")
    assert third == "present-7: there is no such partition"
    assert ended.errors == ""


def test_nothing_under_way_cannot_be_cancelled(cluster: str, ottla: Ottla, tmp_path: Path) -> None:
    """In a sentence that says what is the matter."""
    ottla("topics", "create", "still", "-b", cluster)
    plan = tmp_path / "plan.json"
    plan.write_bytes(ottla("reassign", "generate", "still", "-b", cluster).output)

    ended = ottla("reassign", "cancel", str(plan), "-b", cluster)

    assert ended == (1, b"", "ottla: still-0: no move is under way\n")


def test_leaders_are_as_they_should_be(cluster: str, ottla: Ottla) -> None:
    """Where the first replica leads, there is nothing to elect."""
    ottla("topics", "create", "led", "-p", "2", "-r", "3", "-b", cluster)

    ended = ottla("elect", "led", "-b", cluster)

    assert ended.status == 0
    assert ended.output == (
        b"led-0: has the right leader already\nled-1: has the right leader already\n"
    )


@pytest.mark.parametrize(
    ("arguments", "status", "words"),
    [
        (["reassign", "execute", "/no/such/plan"], 1, "cannot read /no/such/plan"),
        (["reassign", "generate", "nothere"], 1, "topic 'nothere' does not exist"),
        (["reassign", "generate", "t", "--brokers", "1,x"], 2, "not of the form ID,ID"),
        (["reassign", "generate", "t", "--brokers", "9"], 1, "broker 9 is not there"),
        (["elect", "--unclean"], 1, "name the partitions that may lose records"),
        (["elect", "nothere"], 1, "topic 'nothere' does not exist"),
    ],
)
def test_a_mistake_gets_one_sentence(
    cluster: str, ottla: Ottla, arguments: list[str], status: int, words: str
) -> None:
    """A person who mistyped something needs no traceback."""
    ended = ottla(*arguments, "-b", cluster)

    assert ended.status == status
    assert words in ended.errors
    assert is_one_sentence(ended.errors)
