"""Which topics are copied, under which names, and what the target needs for it."""

from __future__ import annotations

import pytest

from ottla.client.mirror.plan import MirrorPlan, two_into_one, work
from ottla.client.mirror.selection import NOTES_TOPIC, Circle, selected
from ottla.client.mirror.settings import MirrorSettings, MirrorSource, from_document

NONE: frozenset[str] = frozenset()


def west(*topics: str, exclude: tuple[str, ...] = (), rename: str = "{topic}") -> MirrorSource:
    return MirrorSource(
        alias="west", bootstrap="w:1", topics=topics, exclude=exclude, rename=rename
    )


def test_names_patterns_and_exceptions_select_topics() -> None:
    """A wrong pattern would mirror topics that the operator did not mean."""
    names = ["orders", "orders-eu", "orders-test", "clicks", "audit"]
    source = west("^orders", "audit", "gone", exclude=("^.*-test$",))

    found = selected(source, names, NONE, is_marked=False)

    assert sorted(found) == ["audit", "orders", "orders-eu"]


def test_internal_topics_are_never_copied() -> None:
    """Positions and transactions of one cluster mean nothing in another."""
    names = ["__consumer_offsets", "__transaction_state", NOTES_TOPIC, "a"]

    assert selected(west("^.*"), names, NONE, is_marked=False) == {"a": "a"}


def test_a_topic_that_came_this_way_does_not_go_on_for_ever() -> None:
    """west.orders, then east.west.orders, then west.east.west.orders ..."""
    names = ["orders", "west.orders", "east.west.orders", "westend"]
    source = west("^.*", rename="{source}.{topic}")

    found = selected(source, names, NONE, is_marked=False)

    assert found == {"orders": "west.orders", "westend": "west.westend"}


def test_a_topic_that_comes_from_the_target_is_no_topic_for_the_target() -> None:
    """Two mirrors in opposite directions would multiply every record without end."""
    renaming = west("^.*", rename="{source}.{topic}")

    assert selected(renaming, ["central.x"], {"central.x"}, is_marked=False) == {}
    with pytest.raises(Circle):
        selected(west("^.*"), ["x"], {"x"}, is_marked=False)
    assert selected(west("^.*"), ["x"], {"x"}, is_marked=True) == {"x": "x"}


def test_the_target_gets_what_it_lacks() -> None:
    """A partition that is not there has nowhere to be preserved."""
    wanted = {"new": 4, "short": 6, "long": 2, "same": 3}
    there = {"short": 3, "long": 9, "same": 3}

    assert work(wanted, there, may_grow=True) == MirrorPlan({"new": 4}, {"short": 6}, {})
    assert work(wanted, there, may_grow=False) == MirrorPlan({"new": 4}, {}, {"short": (3, 6)})


def test_two_topics_do_not_become_one_unseen() -> None:
    """Their partitions would be mixed."""
    assert two_into_one({"a": "x", "b": "y", "c": "x"}) == ("a", "c")
    assert two_into_one({"a": "x", "b": "y"}) is None


def test_a_file_says_what_options_say() -> None:
    """Several sources do not fit on a line."""
    document = {
        "target": "t:1",
        "exactly_once": True,
        "source": {
            "west": {"bootstrap": "w:1", "topics": ["^orders"]},
            "east": {"bootstrap": "e:1", "topics": ["a"], "rename": "{source}.{topic}"},
        },
    }

    made = from_document(document)

    assert made.exactly_once
    assert [source.alias for source in made.sources] == ["west", "east"]
    assert made.group_of(made.sources[0]) == "mirror.west"


SOURCE = {"west": {"bootstrap": "w:1", "topics": ["a"]}}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"target": "t:1"}, "at least one source"),
        ({"target": "t:1", "exactly-once": True}, "did you mean 'exactly_once'"),
        ({"target": "t:1", "mark": "yes", "source": SOURCE}, "mark cannot be 'yes'"),
        ({"target": "t:1", "refresh_ms": True, "source": SOURCE}, "refresh_ms cannot be True"),
        ({"target": "t:1", "refresh_ms": 0, "source": SOURCE}, "refresh_ms has to be above 0"),
        ({"target": "t:1", "compression": "zip", "source": SOURCE}, "compression is one of"),
        ({"target": "t:1", "source": {"west": 1}}, "has to be a table"),
        ({"target": "t:1", "source": {"west": {"bootstrap": "w:1"}}}, "has no topics"),
        ({"target": "t:1", "source": {"a b": SOURCE["west"]}}, "named by letters"),
        ({"target": "t:1", "source": {"w": {**SOURCE["west"], "topics": ["^("]}}}, "expression"),
        ({"target": "t:1", "source": {"w": {**SOURCE["west"], "rename": "x"}}}, "rename is made"),
        ({"target": "t:1", "source": {"w": {**SOURCE["west"], "topics": [1]}}}, "list of texts"),
    ],
)
def test_a_mistake_in_a_file_is_one_sentence(document: dict[str, object], sentence: str) -> None:
    """A traceback of the parser does not help an operator."""
    with pytest.raises(ValueError, match=sentence):
        from_document(document)


def test_two_sources_have_two_names() -> None:
    """Their positions would be one group's."""
    with pytest.raises(ValueError, match="two sources are named 'west'"):
        MirrorSettings(target="t:1", sources=(west("a"), west("b")))
