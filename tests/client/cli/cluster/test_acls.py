"""``ottla acls`` against three brokers with an authorizer."""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

import pytest

from ottla import Cluster
from ottla.protocol.acls import (
    AclFilter,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    Permission,
)
from ottla.sync import Admin
from tests.client.cli.command import is_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.client.cli.command import Ottla

SETTINGS = {"authorizer.class.name": "ottla.acl", "super.users": "User:ANONYMOUS;User:root"}


@pytest.fixture(scope="module")
def brokers() -> Iterator[str]:
    """Their addresses. Without logins all clients and brokers are one super user."""
    with Cluster(brokers=3, settings=SETTINGS) as cluster:
        yield cluster.bootstrap_servers


def test_rules_are_added_shown_explained_and_removed(brokers: str, ottla: Ottla) -> None:
    """What a person reads; each verb asks some broker, and all brokers have the rules."""
    add = ("acls", "add", "--allow", "User:app", "-b", brokers)
    added = ottla(*add, "--operation", "read,write", "--topic", "orders", "--group", "g")
    ottla(*add, "--operation", "describe", "--topic", "ord", "--prefixed")
    ottla(
        *("acls", "add", "--deny", "User:app", "--operation", "write", "--topic", "orders"),
        *("--host", "10.0.0.0/8", "-b", brokers),
    )
    assert added.status == 0
    assert [line.split() for line in added.output.decode().splitlines()] == [
        ["RESOURCE", "PATTERN", "NAME", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION"],
        ["Topic", "literal", "orders", "User:app", "*", "Read", "Allow"],
        ["Topic", "literal", "orders", "User:app", "*", "Write", "Allow"],
        ["Group", "literal", "g", "User:app", "*", "Read", "Allow"],
    ]

    deadline = time.monotonic() + 30
    while True:
        listed = ottla("acls", "list", "--topic", "orders", "--match", "--json", "-b", brokers)
        if len(json.loads(listed.output)) == 4 or time.monotonic() > deadline:
            break
    assert {(one["name"], one["operation"]) for one in json.loads(listed.output)} == {
        ("orders", "Read"),
        ("orders", "Write"),
        ("ord", "Describe"),
    }

    told = ottla("acls", "explain", "--topic", "orders", "-b", brokers).output.decode()
    assert told.startswith("super users may do everything: User:ANONYMOUS, User:root\n")
    assert (
        "User:app may not Write topic orders from 10.0.0.0/8 "
        "(rule: Deny Write for User:app from 10.0.0.0/8 on topic orders)\n" in told
    )
    why = ("--principal", "User:eve", "--operation", "read", "-b", brokers)
    refused = ottla("acls", "explain", "--topic", "orders", *why)
    assert refused.output == b"User:eve may not Read topic orders (no rule allows it)\n"
    assert refused.status == 1
    allowed = ottla(*("acls", "explain", "--topic", "orders", "--principal", "User:app"), *why[2:])
    assert allowed.status == 0
    root = ottla(*("acls", "explain", "--topic", "orders", "--principal", "User:root"), *why[2:])
    assert (root.status, b"is a super user" in root.output) == (0, True)

    removed = ottla("acls", "remove", "--principal", "User:app", "-b", brokers)
    assert len(removed.output.splitlines()) == 6


@pytest.mark.parametrize(
    ("arguments", "status", "part"),
    [
        (["add", "--allow", "User:a", "--operation", "read"], 2, "--topic"),
        (["add", "--allow", "User:a", "--topic", "t"], 2, "--operation"),
        (["add", "--operation", "read", "--topic", "t"], 2, "--allow"),
        (["add", "--allow", "a", "--operation", "read", "--topic", "t"], 2, "User:NAME"),
        (["add", "--allow", "User:a", "--operation", "sing", "--topic", "t"], 2, "IdempotentWrite"),
        (["add", "--allow", "User:a", "--operation", "write", "--group", "g"], 2, "Write"),
        (["remove"], 2, "--principal"),
        (["explain"], 2, "--topic"),
        (
            ["add", "--allow", "User:a", "--operation", "read", "--topic", "t", "--host", "1/99"],
            1,
            "network",
        ),
    ],
)
def test_a_mistake_is_said_in_one_sentence(
    brokers: str, ottla: Ottla, arguments: list[str], status: int, part: str
) -> None:
    """With what to write instead."""
    ended = ottla("acls", *arguments, "-b", brokers)

    assert ended.status == status
    assert is_one_sentence(ended.errors)
    assert part in ended.errors


def test_a_cluster_without_an_authorizer_refuses_rules(broker: str, ottla: Ottla) -> None:
    """The refusal alone: "no rules" before it sounds like a result."""
    words = ("--allow", "User:a", "--operation", "read", "--topic", "t", "-b", broker)

    ended = ottla("acls", "add", *words)
    explained = ottla("acls", "explain", "--topic", "t", "-b", broker)

    assert (ended.status, ended.output) == (1, b"")
    assert is_one_sentence(ended.errors)
    assert explained.status == 1
    advice = "; set authorizer.class.name, or start with --secure\n"
    assert explained.errors.endswith((advice, "does not offer DescribeAcls\n"))


def test_a_rule_is_seen_by_other_clients_and_goes_again(brokers: str) -> None:
    """Three clients, each of which begins at another broker."""

    pattern = AclPattern(AclResourceType.TOPIC, "everywhere")
    rule = AclRule(pattern, "User:app", "*", Operation.READ, Permission.ALLOW)
    admins = [Admin(address) for address in brokers.split(",")]
    for admin in admins:
        admin.start()
    assert admins[0].acls.create_acls([rule]) == {rule: None}
    wanted = AclFilter(AclResourceType.TOPIC, "everywhere")
    for admin in admins:
        deadline = time.monotonic() + 30
        while admin.acls.describe_acls(wanted) != [rule] and time.monotonic() < deadline:
            time.sleep(0.01)
        assert admin.acls.describe_acls(wanted) == [rule]
    assert admins[1].acls.delete_acls([wanted]) == [rule]
    for admin in admins:
        admin.close()
