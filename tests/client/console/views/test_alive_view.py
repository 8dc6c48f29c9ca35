"""Which partitions the page shows, and their picture."""

from __future__ import annotations

import pytest

from ottla.client.console.views.alive_view import chosen, read_choice, trouble_of
from ottla.client.console.views.asked import BadRequest, Question
from ottla.client.console.views.history_changes import SeenPartition
from ottla.client.console.views.picture import LABEL_WIDTH, TEXT_WIDTH, WIDTH, picture_of
from ottla.protocol.ids import TopicPartition

WELL = SeenPartition(1, 4, (1, 2), (1, 2), 100, 100)
STATES = {
    TopicPartition("a", 0): WELL,
    TopicPartition("a", 1): WELL._replace(stable=90),
    TopicPartition("a", 2): WELL._replace(isr=(1,)),
    TopicPartition("a", 3): WELL._replace(leader=-1, isr=()),
    TopicPartition("b", 0): WELL,
}
ROW = {
    "topic": "a",
    "partition": 0,
    "leader": 1,
    "leader_epoch": 4,
    "replicas": [1, 2, 3],
    "isr": [1, 2],
    "end": 990,
    "stable": 980,
    "log_ends": [1000, 990, None],
}


def _names(query: dict[str, str]) -> list[str]:
    found, _facts = chosen(STATES, read_choice(Question({}, query)))
    return [f"{where.topic}-{where.partition}" for where in found]


def test_the_worst_come_first() -> None:
    """Among ten thousand partitions, the one without a leader is the one that is looked for."""
    assert _names({}) == ["a-3", "a-2", "a-1", "a-0", "b-0"]
    assert _names({"order": "name"}) == ["a-0", "a-1", "a-2", "a-3", "b-0"]
    assert [trouble_of(one) for one in STATES.values()] == [3, 2, 1, 0, 3]


def test_partitions_are_searched_chosen_and_paged() -> None:
    """Any number of them can be reached."""
    assert _names({"search": "b-"}) == ["b-0"]
    assert _names({"troubled": "1"}) == ["a-3", "a-2", "a-1"]
    assert _names({"rows": "2", "page": "2"}) == ["a-1", "a-0"]
    with pytest.raises(BadRequest, match="order is one of"):
        _names({"order": "best"})
    with pytest.raises(BadRequest, match="must be from 1 to 100"):
        _names({"rows": "101"})


def test_the_picture_shows_ends_in_their_order() -> None:
    """A bar is longer where the log ends later; the lines stand where the offsets are."""
    picture = picture_of(ROW)
    first, second, third = picture["lanes"]

    assert [one["role"] for one in picture["lanes"]] == ["leader", "follower", "behind"]
    assert first["width"] == WIDTH - LABEL_WIDTH - TEXT_WIDTH
    assert 0 < second["width"] < first["width"]
    assert third["width"] is None
    assert [one["text"] for one in picture["lanes"]] == ["1000", "−10", "?"]
    assert picture["watermark_x"] == LABEL_WIDTH + second["width"]
    assert LABEL_WIDTH < picture["stable_x"] < picture["watermark_x"]


def test_the_picture_has_words() -> None:
    """A screen reader says what the picture shows."""
    assert picture_of(ROW)["sentence"] == (
        "a-0: broker 1 leads in epoch 4; in sync: 1, 2; not in sync: 3; high watermark 990; log of "
        "broker 1 ends at 1000; log of broker 2 ends at 990; an open transaction holds the stable "
        "offset at 980."
    )
    lost = {**ROW, "leader": None, "isr": [], "end": None, "stable": None, "log_ends": [None] * 3}
    assert picture_of(lost)["sentence"] == "a-0: no leader; in sync: none; not in sync: 1, 2, 3."
    assert picture_of(lost)["watermark_x"] is None


def test_a_log_far_behind_stays_in_the_picture() -> None:
    """However far: the window grows."""
    picture = picture_of({**ROW, "log_ends": [10**12, 0, 5]})

    assert all(one["width"] > 0 for one in picture["lanes"])
    assert picture["lanes"][1]["text"] == "−1000000000000"
