"""The values of members' znodes, in both written forms."""

from __future__ import annotations

import json

import pytest

from ottla.client.classic.registry import layout
from ottla.client.classic.registry.layout import RegistryLayout, RegistrySlot, slots_of
from ottla.client.classic.registry.subscription import (
    TopicCount,
    build,
    filtered,
    parse,
    static,
)
from ottla.client.classic.registry.topic_filter import blacklist, whitelist

COUNTS = [
    static({"t": 2, "u": 1}),
    filtered(whitelist("a.*|b\\d"), 3),
    filtered(blacklist("a.*"), 1),
]


@pytest.mark.parametrize("form", list(RegistryLayout))
@pytest.mark.parametrize("count", COUNTS)
def test_both_forms_are_read_as_they_were_written(form: RegistryLayout, count: TopicCount) -> None:
    """Members of both kinds read each other."""
    assert parse(build(count, form, 1234)) == count


def test_the_values_are_those_of_the_documents() -> None:
    """Other programs parse them."""
    new = [json.loads(build(count, RegistryLayout.V08, 1234)) for count in COUNTS]
    old = [build(count, RegistryLayout.V07, 1234) for count in COUNTS]

    assert new[0] == {
        "version": 1,
        "subscription": {"t": 2, "u": 1},
        "pattern": "static",
        "timestamp": "1234",
    }
    assert [one["pattern"] for one in new] == ["static", "white_list", "black_list"]
    assert new[1]["subscription"] == {"a.*|b\\d": 3}
    assert old == [b'{"t":2,"u":1}', b"*3*a.*|b\\d", b"!1!a.*"]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"7",
        b"{",
        b"[]",
        b"{}",
        b'{"t":0}',
        b'{"t":"x"}',
        b'{"pattern":"static"}',
        b'{"pattern":"other","subscription":{"t":1}}',
        b'{"pattern":"white_list","subscription":{"(":1}}',
    ],
)
def test_an_unreadable_znode_is_no_subscription(data: bytes) -> None:
    """A foreign znode must not end every rebalance of the group."""
    assert parse(data) is None


@pytest.mark.parametrize("wrong", [{}, {"t": 0}, {"t": True}, {"t": -1}])
def test_a_topic_has_at_least_one_stream(wrong: dict[str, int]) -> None:
    """The mistake is told where it is made, not after a rebalance."""
    with pytest.raises(ValueError, match="at least one"):
        static(wrong)


def test_partitions_have_the_names_of_their_layout() -> None:
    """0.7 counts the partitions of each broker from 0; 0.8 counts those of the topic."""
    replicas = {0: (2, 1), 1: (1, 2), 2: (2, 1), 3: ()}

    new = slots_of("t", replicas, RegistryLayout.V08)
    old = slots_of("t", replicas, RegistryLayout.V07)

    assert [one.name for one in new] == ["0", "1", "2", "3"]
    assert [(one.name, one.partition) for one in old] == [
        ("-1-0", 3),
        ("1-0", 1),
        ("2-0", 0),
        ("2-1", 2),
    ]
    assert layout.owner("g", RegistrySlot("t", "1-0", 1)) == "/consumers/g/owners/t/1-0"
    assert layout.offset("g", new[2]) == "/consumers/g/offsets/t/2"


def test_an_offset_is_decimal_text() -> None:
    """What is none counts as missing, and the offset reset decides."""
    assert [layout.parse_offset(one) for one in (b"17", b" 3\n", b"", b"-1", b"x")] == [
        17,
        3,
        None,
        None,
        None,
    ]
