"""Assignors by name."""

from __future__ import annotations

import pytest

from ottla.client.group.assignors.registry import ASSIGNORS, make_assignors
from ottla.client.group.assignors.round_robin import RoundRobinAssignor


@pytest.mark.parametrize("name", ASSIGNORS)
def test_names_are_those_that_java_and_librdkafka_use(name: str) -> None:
    """A group agrees on a name; another spelling would be another assignor."""
    (assignor,) = make_assignors([name])

    assert assignor.name == name


def test_every_member_has_its_own() -> None:
    """Some remember what their member had; two members of one process must not share that."""
    assert make_assignors(["range"])[0] is not make_assignors(["range"])[0]


def test_an_object_is_taken_as_it_is() -> None:
    """Applications bring their own."""
    mine = RoundRobinAssignor()

    assert make_assignors(["range", mine])[1] is mine


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ([], "at least one"),
        (["rang"], "range"),
        (["range", "range"], "one name"),
        (["roundrobin", RoundRobinAssignor()], "one name"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(wanted: list[str], said: str) -> None:
    """A configuration error has to be seen before the consumer joins a group."""
    with pytest.raises(ValueError, match=said):
        make_assignors(wanted)
