"""``ottla topics`` against a real broker."""

from __future__ import annotations

import json

import pytest

from tests.client.cli.command import Ottla, is_one_sentence


def test_a_topic_is_created_listed_described_altered_and_deleted(broker: str, ottla: Ottla) -> None:
    """The life of a topic, as text."""
    created = ottla("topics", "create", "life", "-p", "2", "-b", broker)
    listed = ottla("topics", "list", "-b", broker)
    altered = ottla("topics", "-b", broker, "alter", "life", "-p", "3", "-c", "retention.ms=60000")
    described = ottla("topics", "describe", "life", "-b", broker)
    deleted = ottla("topics", "delete", "life", "-b", broker)
    listed_after = ottla("topics", "list", "-b", broker)

    assert created == (0, b"created life\n", "")
    assert b"\nlife " in listed.output
    assert altered == (0, b"altered life\n", "")
    lines = [line for line in described.output.decode().splitlines() if line]
    assert lines[1].split() == [
        "PARTITION",
        "LEADER",
        "EPOCH",
        "REPLICAS",
        "ISR",
        "START",
        "END",
    ]
    assert [line.split()[0] for line in lines[2:5]] == ["0", "1", "2"]
    assert lines[-1].split() == ["retention.ms", "60000", "topic"]
    assert deleted == (0, b"deleted life\n", "")
    assert b"life" not in listed_after.output


def test_the_options_before_the_verb_count(broker: str, ottla: Ottla) -> None:
    """argparse's own parent parsers would silently use the default address instead."""
    ended = ottla("topics", "-b", broker, "--format", "json", "create", "early", "-p", "1")

    assert ended.status == 0
    assert json.loads(ended.output) == [{"topic": "early", "status": "created", "error": None}]


def test_json_tells_the_same(broker: str, ottla: Ottla) -> None:
    """Programs must not have to cut columns."""
    ottla("topics", "create", "asjson", "-p", "2", "-c", "max.message.bytes=5000", "-b", broker)
    ottla("produce", "asjson", "-p", "1", "-b", broker, stdin=b"a\nb\n")

    described = ottla("topics", "describe", "asjson", "-b", broker, "--format", "json")
    listed = ottla("topics", "list", "-b", broker, "--format=json")

    (topic,) = json.loads(described.output)
    assert [
        (part["partition"], part["start_offset"], part["end_offset"])
        for part in topic["partitions"]
    ] == [(0, 0, 0), (1, 0, 2)]
    assert topic["configs"]["max.message.bytes"] == {"value": "5000", "source": "TOPIC"}
    assert {"topic": "asjson", "partitions": 2, "replicas": 1, "internal": False} in json.loads(
        listed.output
    )


def test_setting_a_config_and_taking_it_back(broker: str, ottla: Ottla) -> None:
    """-d goes back to the default, which is not the same as setting it."""
    ottla("topics", "create", "tuned", "-c", "retention.ms=1000", "-b", broker)
    ended = ottla("topics", "alter", "tuned", "-d", "retention.ms", "-b", broker)
    described = ottla("topics", "describe", "tuned", "-b", broker)

    assert ended.status == 0
    assert b"retention.ms" not in described.output


@pytest.mark.parametrize(
    ("arguments", "status", "expected"),
    [
        (["delete", "nothere"], 1, "topic 'nothere' does not exist"),
        (["describe", "nothere"], 1, "topic 'nothere' does not exist"),
        (["alter", "nothere", "-p", "3"], 1, "topic 'nothere' does not exist"),
        (["alter", "known"], 1, "nothing to alter"),
        (["alter", "known", "-p", "1"], 1, "INVALID_PARTITIONS"),
        (["create", "known"], 1, "topic 'known' exists already"),
        (["create", "no/slash"], 1, "INVALID_TOPIC_EXCEPTION"),
        (["create", "x", "-c", "no.such.key=1"], 1, "INVALID_CONFIG"),
        (["create", "x", "-c", "novalue"], 2, "key=value"),
        (["create", "x", "-p", "0"], 2, "'0' is not a number from 1 on"),
        (["create", "x", "-r", "3"], 1, "INVALID_REPLICATION_FACTOR"),
        (["create"], 2, "TOPIC"),
        ([], 2, "VERB"),
    ],
)
def test_a_mistake_gets_one_sentence_and_a_status(
    broker: str, ottla: Ottla, arguments: list[str], status: int, expected: str
) -> None:
    """The error names the mistake, and the exit status lets scripts notice it."""
    ottla("topics", "create", "known", "--if-not-exists", "-b", broker)

    ended = ottla("topics", "-b", broker, *arguments)

    assert (ended.status, ended.output) == (status, b"")
    assert expected in ended.errors
    assert is_one_sentence(ended.errors)


def test_some_of_several_may_fail(broker: str, ottla: Ottla) -> None:
    """The output says which topics were changed and which were not."""
    ottla("topics", "create", "one", "-b", broker)
    ended = ottla("topics", "create", "one", "two", "-b", broker)

    assert ended.status == 1
    assert ended.output == b"created two\n"
    assert "'one' exists already" in ended.errors


def test_lines_go_through_a_real_broker_and_come_back(broker: str, ottla: Ottla) -> None:
    """The same as against the toy, with a broker that checks everything."""
    ottla("topics", "create", "echo", "-p", "1", "-b", broker)
    data = b"".join(b"%d\xff\r\n" % number for number in range(20_000))

    sent = ottla("produce", "echo", "-b", broker, "-z", "lz4", stdin=data)
    back = ottla("consume", "echo", "-b", broker, "--from-beginning", "-e")
    tail = ottla("consume", "echo", "-b", broker, "-o", "-1", "-e")

    assert sent == (0, b"", "")
    assert back.output == data
    assert tail.output == b"19999\xff\r\n"


@pytest.mark.parametrize(
    ("arguments", "status"), [(["--help"], 0), (["--version"], 0), ([], 2), (["-b", "x:1"], 2)]
)
def test_the_command_explains_itself(ottla: Ottla, arguments: list[str], status: int) -> None:
    """Without a verb there is nothing to do but to list the verbs."""
    ended = ottla(*arguments)

    assert ended.status == status
    text = ended.output.decode() + ended.errors
    if arguments == ["--version"]:
        assert text.startswith("ottla ")
    else:
        assert all(verb in text for verb in ("start", "topics", "produce", "consume", "log"))


def test_what_had_not_to_be_done_is_not_said_to_be_done(broker: str, ottla: Ottla) -> None:
    """A script that reads "created" would fill a topic that existed before."""
    ottla("topics", "create", "there", "-b", broker)
    made = ottla("topics", "create", "there", "here", "--if-not-exists", "-b", broker)
    gone = ottla("topics", "delete", "here", "nowhere", "--if-exists", "-b", broker, "--json")

    assert (made.status, made.output) == (0, b"exists already: there\ncreated here\n")
    assert gone.status == 0
    assert [(one["topic"], one["status"]) for one in json.loads(gone.output)] == [
        ("here", "deleted"),
        ("nowhere", "does not exist"),
    ]
