"""``ottla groups`` against a real broker."""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer

from tests.client.cli.command import Ended, Ottla, is_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def member(broker: str, group: str, topic: str, instance: str | None = None) -> Iterator[Consumer]:
    """A foreign consumer that has joined the group and reads."""
    settings = {
        "bootstrap.servers": broker,
        "group.id": group,
        "client.id": "reader",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
    }
    if instance is not None:
        settings["group.instance.id"] = instance
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    try:
        for _ in range(300):
            if consumer.assignment():
                break
            consumer.poll(0.1)
        assert consumer.assignment()
        yield consumer
    finally:
        consumer.close()


def ten_records(ottla: Ottla, broker: str, topic: str, partitions: int = 2) -> None:
    """A topic whose first partition has ten records."""
    ottla("topics", "create", topic, "-p", str(partitions), "-b", broker)
    lines = b"".join(b"%d\n" % number for number in range(10))
    assert ottla("produce", topic, "-p", "0", "-b", broker, stdin=lines).status == 0


def rows(ended: Ended) -> list[list[str]]:
    return [line.split() for line in ended.output.decode().splitlines() if line]


def test_positions_are_set_shown_and_deleted(broker: str, ottla: Ottla) -> None:
    """The life of a group that never had a member."""
    ten_records(ottla, broker, "trip")

    tried = ottla("groups", "reset-offsets", "lives", "trip", "-o", "3", "--dry-run", "-b", broker)
    unknown = ottla("groups", "describe", "lives", "-b", broker)
    moved = ottla("groups", "reset-offsets", "lives", "trip:0", "-o", "3", "-b", broker)
    described = ottla("groups", "describe", "lives", "-b", broker)
    listed = ottla("groups", "list", "-b", broker)
    again = ottla("groups", "-b", broker, "reset-offsets", "lives", "-o", "-2")
    forgotten = ottla("groups", "delete-offsets", "lives", "trip:0", "-b", broker)

    assert tried.status == 1  # Partition 1 is empty.
    assert "partition 1 is empty; it continues at offset 0, not 3" in tried.errors
    assert unknown.status == 1
    assert "group 'lives' does not exist" in unknown.errors
    assert rows(moved)[1:] == [["trip", "0", "-", "3"]]
    assert rows(described)[1:] == [
        ["TOPIC", "PARTITION", "POSITION", "END", "LAG", "MEMBER"],
        ["trip", "0", "3", "10", "7", "-"],
    ]
    assert ["lives", "classic", "Empty"] in rows(listed)
    assert rows(again)[1:] == [["trip", "0", "3", "8"]]
    assert (forgotten.status, forgotten.output) == (0, b"deleted trip:0\n")


@pytest.mark.parametrize(
    ("place", "offset"),
    [("beginning", 0), ("end", 10), ("-4", 6), ("7", 7), ("@0", 0), ("@2100-01-01T00:00:00Z", 10)],
)
def test_a_place_is_named_as_for_consume(
    broker: str, ottla: Ottla, place: str, offset: int
) -> None:
    """One language for places, in all commands."""
    topic = f"place{offset}{len(place)}"
    ten_records(ottla, broker, topic, 1)

    moved = ottla(
        "groups", "reset-offsets", "g", topic, "-o", place, "-b", broker, "--format", "json"
    )

    assert json.loads(moved.output) == [
        {"topic": topic, "partition": 0, "from": None, "to": offset}
    ]


def test_a_living_group_shows_its_members_and_refuses_to_be_changed(
    broker: str, ottla: Ottla
) -> None:
    """Moving positions under a running consumer loses or repeats records."""
    ten_records(ottla, broker, "alive")
    with member(broker, "living", "alive", "one") as consumer:
        message = consumer.poll(20)
        assert message is not None
        consumer.commit(message, asynchronous=False)
        described = ottla("groups", "describe", "living", "-b", broker, "--format", "json")
        moved = ottla("groups", "reset-offsets", "living", "alive", "-o", "end", "-b", broker)
        forgot = ottla("groups", "delete-offsets", "living", "alive", "-b", broker)
        deleted = ottla("groups", "delete", "living", "-b", broker)

    (group,) = json.loads(described.output)
    (only,) = group["members"]
    assert (group["state"], group["type"]) == ("Stable", "classic")
    assert (only["instance"], only["client"]) == ("one", "reader")
    assert only["partitions"] == ["alive:0", "alive:1"]
    assert group["positions"][0]["position"] == 1
    assert group["positions"][0]["lag"] == 9
    assert group["positions"][0]["member"] == only["member"]
    for ended in (moved, deleted):
        assert ended.status == 1
        assert "group 'living' has members; stop its members first" in ended.errors
        assert is_one_sentence(ended.errors)
    assert forgot.errors == "ottla: members of group 'living' read topic 'alive'\n"


def test_an_empty_group_is_deleted_with_its_positions(broker: str, ottla: Ottla) -> None:
    """A new group of that name begins as the reset policy says."""
    ten_records(ottla, broker, "gone", 1)
    ottla("groups", "reset-offsets", "goes", "gone", "-o", "end", "-b", broker)

    deleted = ottla("groups", "delete", "goes", "never-was", "-b", broker)
    described = ottla("groups", "describe", "goes", "-b", broker)

    assert deleted.output == b"deleted goes\n"
    assert deleted.status == 1
    assert "group 'never-was' does not exist" in deleted.errors
    assert described.status == 1


def test_the_story_of_a_group_is_told(broker: str, ottla: Ottla) -> None:
    """To diagnose a hanging consumer, an operator needs joins, leaves and their causes."""
    ten_records(ottla, broker, "tale", 1)
    with member(broker, "told", "tale"):
        pass

    told = ottla("groups", "explain", "told", "-b", broker)
    as_json = ottla("groups", "explain", "told", "-b", broker, "--format", "json")
    unknown = ottla("groups", "explain", "untold", "-b", broker)

    assert told.status == 0, told.errors
    lines = told.output.decode().splitlines()
    assert len(lines) == len(json.loads(as_json.output)) >= 3
    assert any("reader" in line and "join" in line for line in lines)
    assert any("left" in line for line in lines)
    assert unknown.status == 1
    assert is_one_sentence(unknown.errors)


def test_a_group_without_a_story_is_not_called_unknown(broker: str, ottla: Ottla) -> None:
    """After a restart of the broker a group's events are gone, but not its offsets."""
    ten_records(ottla, broker, "mute", 1)
    ottla("groups", "reset-offsets", "silent", "mute", "-o", "end", "-b", broker)

    told = ottla("groups", "explain", "silent", "-b", broker)

    assert told.status == 1
    assert is_one_sentence(told.errors)
    assert "'ottla groups describe silent' shows its committed offsets" in told.errors
