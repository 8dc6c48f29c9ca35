"""``ottla trace record`` on three brokers, and how commits of groups are read."""

from __future__ import annotations

import json
import struct
import time
from typing import TYPE_CHECKING, Any

import pytest

from ottla.broker.testing.cluster import Cluster
from ottla.client.cli.records.committed_past import CommitPast, CommitsPast, read_commit
from ottla.client.cli.records.trace import report
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla

WHERE = TopicPartition("orders", 1)


def text(value: str) -> bytes:
    """A string with its length."""
    return struct.pack(">h", len(value)) + value.encode()


def commit(group: str, offset: int, time_ms: int, version: int = 3) -> tuple[bytes, bytes]:
    """A record of the topic of commits."""
    key = struct.pack(">h", 1) + text(group) + text("orders") + struct.pack(">i", 1)
    epoch = struct.pack(">i", 7) if version >= 3 else b""
    value = struct.pack(">hq", version, offset) + epoch + text("note") + struct.pack(">q", time_ms)
    return key, value


def test_the_first_commit_past_the_record_counts() -> None:
    """A group that has gone back reads the record again."""
    past = CommitsPast(WHERE, 10)
    commits = [("a", 5, 1), ("a", 12, 2), ("a", 15, 3), ("b", 11, 4), ("c", 20, 5), ("c", 3, 6)]
    for one in commits:
        found = read_commit(*commit(*one))
        assert found is not None
        past.add(found)

    assert past.groups == {
        "a": CommitPast(12, 2, is_first=True),
        "b": CommitPast(11, 4, is_first=False),
    }


def test_other_records_of_the_topic_are_no_commits() -> None:
    """Groups, removed commits, and versions to come are in the same topic."""
    key, value = commit("g", 1, 2, version=1)

    assert read_commit(key, value) is not None
    assert read_commit(key, None) is None
    assert read_commit(struct.pack(">h", 2) + key[2:], value) is None
    assert read_commit(key[:9], value) is None
    assert read_commit(key, value[:5]) is None


def test_what_is_not_known_is_said_with_what_to_do() -> None:
    """A line that is missing would be read as: it never came there."""
    document = {"topic": "t", "partition": 0, "offset": 1, "brokers": [], "remembering": []}

    said = report(document | {"groups": [], "groups_error": "no right"})

    assert "set ottla.trace.interval.ms" in said
    assert "cannot be read: no right" in said


@pytest.fixture(scope="module")
def traced() -> Iterator[str]:
    """Three brokers that remember the progress of replicas."""
    with Cluster(brokers=3, settings={"ottla.trace.interval.ms": "20"}) as cluster:
        yield cluster.bootstrap_servers


def _is_whole(broker: dict[str, Any]) -> bool:
    """Whether the leader has seen the record everywhere."""
    return len(broker["replicas"]) == 3 and broker["visible"] is not None


def test_a_record_is_followed_from_the_leader_to_the_groups(traced: str, ottla: Ottla) -> None:
    """What support is asked after an incident: was it there, and who has read it."""
    ottla("topics", "create", "orders", "-p", "1", "-r", "3", "-b", traced)
    ottla("produce", "orders", "-b", traced, stdin=b"a\nb\n")
    ottla("groups", "seek", "billing", "orders", "--to", "end", "-b", traced)

    deadline = time.monotonic() + 30
    found: dict[str, Any] = {"brokers": []}
    while not any(_is_whole(one) for one in found["brokers"]):
        # A broker looks every 20 ms, or later on a busy machine.
        assert time.monotonic() < deadline, found
        found = json.loads(
            ottla("trace", "record", "orders", "0", "1", "--json", "-b", traced).output
        )
    as_text = ottla("trace", "record", "orders", "0", "1", "-b", traced)
    beyond = ottla("trace", "record", "orders", "0", "2", "-b", traced)
    deleted = ottla("trace", "record", "orders", "7", "1", "-b", traced)

    (leader,) = (one for one in found["brokers"] if one["replicas"])
    times = [one["by_ms"] for one in leader["replicas"].values()]
    assert len(times) == 3
    assert leader["replicas"][str(leader["node_id"])]["by_ms"] <= leader["visible"]["by_ms"]
    assert [(one["group"], one["offset"]) for one in found["groups"]] == [("billing", 2)]
    assert found["groups"][0]["time_ms"] >= (leader["visible"]["after_ms"] or 0)
    said = as_text.output.decode()
    assert "visible: below the high watermark of broker" in said
    assert "committed past by group billing" in said
    assert (deleted.status, "no partition 7" in deleted.errors) == (1, True)
    assert (beyond.status, beyond.output) == (1, b"")
    assert "there is no offset 2, the end is 2" in beyond.errors
