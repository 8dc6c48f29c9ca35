"""The verbs that look at brokers, offsets and settings, against a real broker."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.cluster.health import Health, health_text, judge
from ottla.client.cluster.metadata import PartitionView, TopicView
from tests.client.cli.command import is_one_sentence

if TYPE_CHECKING:
    from tests.client.cli.command import Ended, Ottla


def rows(ended: Ended) -> list[list[str]]:
    """The cells of a table, without its headings."""
    return [line.split() for line in ended.output.decode().splitlines() if line][1:]


def test_offsets_are_shown_by_place_and_by_group(broker: str, ottla: Ottla) -> None:
    """The counterpart of kafka-get-offsets, and the committed offsets of a group."""
    ottla("topics", "create", "places", "-p", "2", "-b", broker)
    ottla("produce", "places", "-p", "1", "-b", broker, stdin=b"a\nb\nc\n")

    both = ottla("offsets", "places", "-b", broker)
    as_json = ottla("offsets", "places:1", "--json", "-b", broker)
    late = ottla("offsets", "places", "-o", "@2100-01-01", "--csv", "-b", broker)
    ottla("groups", "seek", "reader", "places", "--to", "-1", "-b", broker)
    group = ottla("offsets", "-g", "reader", "--csv", "-b", broker)

    assert rows(both) == [["places", "0", "0", "0", "0"], ["places", "1", "0", "3", "3"]]
    assert json.loads(as_json.output) == [
        {"topic": "places", "partition": 1, "start_offset": 0, "end_offset": 3, "count": 3}
    ]
    assert late.output == b"places,0,0\nplaces,1,3\n"
    assert group.output == b"places,0,0\nplaces,1,2\n"


def test_a_group_is_moved_to_a_place_another_group_and_a_file(broker: str, ottla: Ottla) -> None:
    """Three ways to say where, one way to see what became of it."""
    ottla("topics", "create", "sought", "-p", "2", "-b", broker)
    ottla("produce", "sought", "-p", "0", "-b", broker, stdin=b"a\nb\nc\n")

    tried = ottla("groups", "seek", "one", "sought", "--to", "end", "--dry-run", "-b", broker)
    unmoved = ottla("offsets", "-g", "one", "-b", broker)
    moved = ottla("groups", "seek", "one", "sought", "--to", "end", "--json", "-b", broker)
    other = ottla("groups", "seek", "two", "--to-group", "one", "-b", broker)
    some = ottla(
        "groups", "seek", "two", "sought:0", "--to-file", "-", "-b", broker, stdin=b"sought,0,1\n"
    )

    assert rows(tried) == [["sought", "0", "-", "3"], ["sought", "1", "-", "0"]]
    assert (unmoved.status, "has no position" in unmoved.errors) == (1, True)
    assert json.loads(moved.output)[0] == {
        "topic": "sought",
        "partition": 0,
        "from": None,
        "to": 3,
    }
    assert rows(other) == [["sought", "0", "-", "3"], ["sought", "1", "-", "0"]]
    assert rows(some) == [["sought", "0", "3", "1"]]


def test_old_records_are_deleted(broker: str, ottla: Ottla) -> None:
    """The first offset moves, the others stay what they were."""
    ottla("topics", "create", "trimmed", "-p", "2", "-b", broker)
    ottla("produce", "trimmed", "-p", "0", "-b", broker, stdin=b"a\nb\nc\n")

    tried = ottla("topics", "trim", "trimmed", "-o", "-1", "--dry-run", "-b", broker)
    before = ottla("consume", "trimmed", "-o", "beginning", "-e", "-b", broker)
    done = ottla("topics", "trim", "trimmed", "-o", "-1", "-b", broker)
    after = ottla("consume", "trimmed", "-o", "beginning", "-e", "-b", broker)
    missing = ottla("topics", "trim", "trimmed:7", "-o", "end", "-b", broker)

    assert rows(tried) == rows(done) == [["trimmed", "0", "0", "2"], ["trimmed", "1", "0", "0"]]
    assert (before.output, after.output) == (b"a\nb\nc\n", b"c\n")
    assert missing.status == 1
    assert "no partition 7" in missing.errors


def test_partitions_are_added_and_settings_changed_in_several_topics(
    broker: str, ottla: Ottla
) -> None:
    """One command for many topics; one that is missing does not stop the others."""
    ottla("topics", "create", "more-1", "more-2", "-p", "1", "-b", broker)

    added = ottla("topics", "add-partitions", "more-1", "none", "more-2", "-n", "2", "-b", broker)
    changed = ottla("topics", "alter-config", "more-1", "-c", "retention.ms=5", "-b", broker)
    listed = json.loads(ottla("topics", "list", "--json", "-b", broker).output)
    tried = ottla("topics", "create", "tried", "--dry-run", "-b", broker)
    gone = ottla("topics", "delete", "tried", "more-2", "--if-exists", "-b", broker)

    assert added.status == 1
    assert added.output == b"altered more-1\naltered more-2\n"
    assert "'none' does not exist" in added.errors
    assert changed == (0, b"altered more-1\n", "")
    assert {one["topic"]: one["partitions"] for one in listed}["more-2"] == 3
    assert tried.output == b"could create tried\n"
    assert gone == (0, b"does not exist: tried\ndeleted more-2\n", "")


def test_settings_are_shown_and_changed(broker: str, ottla: Ottla) -> None:
    """Of topics and of brokers; lists by their elements."""
    ottla("topics", "create", "tuned-too", "-b", broker)
    where = ("topic", "tuned-too")

    ottla("configs", "alter", *where, "-c", "retention.ms=7", "-b", broker)
    ottla("configs", "alter", *where, "--append", "cleanup.policy=compact", "-b", broker)
    made = ottla("configs", "describe", *where, "-b", broker)
    ottla("configs", "alter", *where, "-d", "retention.ms", "-b", broker)
    one = ottla("configs", "describe", *where, "retention.ms", "--json", "-b", broker)
    own = ottla("configs", "describe", "broker", "1", "--json", "-b", broker)

    assert rows(made) == [
        ["cleanup.policy", "delete,compact", "topic", "yes"],
        ["retention.ms", "7", "topic", "yes"],
    ]
    assert [(one["name"], one["source"]) for one in json.loads(one.output)] == [
        ("retention.ms", "DEFAULT")
    ]
    assert "listeners" in [one["name"] for one in json.loads(own.output)]


def test_a_setting_that_no_broker_knows_is_kept_and_told(broker: str, ottla: Ottla) -> None:
    """An unknown setting may belong to a plug-in, but is more often misspelt."""
    known = "log.cleaner.threads=1"
    ended = ottla(
        "configs", "alter", "broker", "1", "-c", "no.such=1", "-c", known, "--dry-run", "-b", broker
    )

    assert (ended.status, ended.output) == (0, b"could alter broker 1\n")
    assert is_one_sentence(ended.errors)
    assert "no.such" in ended.errors


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["configs", "describe", "topic", "nothere"], 1, "does not exist"),
        (["configs", "describe", "broker", "x"], 2, "named by its id"),
        (["configs", "describe", "broker", "77"], 1, "no broker 77"),
        (["configs", "alter", "broker", "1"], 2, "nothing to alter"),
        (["cluster", "log-dirs", "--brokers", "77"], 1, "broker 77"),
        (["cluster", "log-dirs", "nothere"], 1, "'nothere' does not exist"),
        (["offsets", "nothere"], 1, "does not exist"),
        (["offsets", "mistaken", "-o", "end", "-g", "g"], 2, "give one"),
        (["features", "upgrade", "transaction.version=99"], 1, "transaction.version"),
        (["features", "upgrade", "transaction.version"], 2, "key=value"),
        (["groups", "seek", "g", "--to-group", "nobody"], 1, "'nobody' has no positions"),
        (["groups", "seek", "g"], 2, "--to"),
        (["consume", "mistaken", "-o", "stored"], 2, "-g GROUP"),
        (["consume", "mistaken", "-o", "1", "-o", "2"], 2, "at most one start"),
        (["consume", "mistaken", "-g", "g", "-o", "e@5"], 2, "e@TIME"),
        (["consume", "mistaken", "-g", "g", "-o", "5"], 2, "groups seek"),
        (["consume", "^nothing"], 1, "no topic matches"),
        (["produce", "mistaken", "--same-partitions"], 2, "--from-json"),
        (["produce", "mistaken", "-K", ""], 2, "delimiter"),
        (["perf", "consume", "nothere"], 1, "does not exist"),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_status(
    broker: str, ottla: Ottla, arguments: list[str], status: int, said: str
) -> None:
    """2 for a command line that is wrong, 1 for what cannot be done; the same in all verbs."""
    ottla("topics", "create", "mistaken", "--if-not-exists", "-b", broker)

    ended = ottla(*arguments, "-b", broker)

    assert (ended.status, ended.output) == (status, b"")
    assert said in ended.errors
    assert is_one_sentence(ended.errors)


def test_brokers_tell_of_themselves(broker: str, ottla: Ottla) -> None:
    """An operator sees the brokers, their API versions, and the size of their logs."""
    ottla("topics", "create", "stored-here", "-p", "3", "-b", broker)
    ottla("produce", "stored-here", "-p", "0", "-b", broker, stdin=b"a record\n")

    overview = json.loads(ottla("cluster", "info", "--json", "-b", broker).output)
    health = ottla("cluster", "health", "-b", broker)
    versions = json.loads(ottla("cluster", "api-versions", "--json", "-b", broker).output)
    disks = json.loads(ottla("cluster", "log-dirs", "stored-here", "--json", "-b", broker).output)
    by_topic = ottla("cluster", "log-dirs", "stored-here", "-b", broker)
    by_partition = ottla("cluster", "log-dirs", "stored-here", "-p", "-b", broker)

    assert overview["controller"] == 1
    assert [one["address"] for one in overview["brokers"]] == [broker]
    assert (health.status, health.output[:7]) == (0, b"healthy")
    assert (18, "API_VERSIONS", 0) in [
        (one["key"], one["name"], one["first"]) for one in versions[0]["apis"]
    ]
    sizes = [one["size_bytes"] for one in disks[0]["replicas"]]
    assert [size > 0 for size in sizes] == [True, False, False]
    assert ["stored-here", "3"] in [row[2:4] for row in rows(by_topic)]
    assert len(rows(by_partition)) == len(rows(by_topic)) + 2


def test_features_are_listed_and_set(broker: str, ottla: Ottla) -> None:
    """Trying changes nothing."""
    before = ottla("features", "list", "--json", "-b", broker)
    tried = ottla("features", "disable", "transaction.version", "--dry-run", "-b", broker)
    after = ottla("features", "list", "--json", "-b", broker)

    (feature,) = [
        one for one in json.loads(before.output) if one["feature"] == "transaction.version"
    ]
    assert feature["level_max"] >= feature["level"] > 0
    assert tried.output == b"transaction.version could be set to 0\n"
    assert before.output == after.output


def _topic(*partitions: PartitionView) -> TopicView:
    view = TopicView("t", bytes(16))
    view.partitions.update({one.partition: one for one in partitions})
    return view


def test_health_names_each_kind_of_trouble() -> None:
    """A partition that cannot be written to is worse than one that lacks a copy."""
    whole = PartitionView(0, 1, 0, (1, 2, 3), (1, 2, 3))
    thin = PartitionView(1, 1, 0, (1, 2, 3), (1,))
    gone = PartitionView(2, -1, 0, (1, 2, 3), (3,))

    found = judge([_topic(whole, thin, gone)], {"t": 2}, [3], has_controller=True)

    assert found == Health(True, [3], ["t:2"], ["t:1", "t:2"], ["t:1", "t:2"], [])
    assert not found.is_healthy
    text = health_text(found)
    assert text.startswith("unhealthy\n")
    assert "do not answer: 3" in text
    assert "without a leader, neither written nor read: t:2" in text
    assert judge([_topic(whole)], {}, [], has_controller=True).is_healthy
    assert judge([_topic(whole)], {"t": 4}, [], has_controller=True).is_healthy
    assert not judge([], {}, [], has_controller=False).is_healthy
