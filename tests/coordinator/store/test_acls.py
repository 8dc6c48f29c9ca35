"""Rules in the store have the form of Kafka's AclAuthorizer."""

from __future__ import annotations

import json

import pytest

from ottla.coordinator.store import acls
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)

LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
PATTERN = AclPattern(AclResourceType.TRANSACTIONAL_ID, "tx-1", LITERAL)
RULE = AclRule(PATTERN, "User:alice", "*", Operation.IDEMPOTENT_WRITE, Permission.DENY)


def test_the_znodes_are_kafkas() -> None:
    """``kafka-acls --authorizer-properties`` and Kafka itself read and write the same tree."""
    prefixed = AclPattern(AclResourceType.TOPIC, "orders-", PREFIXED)

    assert acls.path_of(PATTERN) == "/kafka-acl/TransactionalId/tx-1"
    assert acls.path_of(prefixed) == "/kafka-acl-extended/prefixed/Topic/orders-"
    assert acls.change_path(LITERAL) == "/kafka-acl-changes/acl_changes_"
    assert acls.change_path(PREFIXED) == "/kafka-acl-extended-changes/acl_changes_"
    assert acls.build_change(PATTERN) == b"TRANSACTIONAL_ID:tx-1"
    assert json.loads(acls.build_change(prefixed)) == {
        "version": 1,
        "resourceType": "TOPIC",
        "name": "orders-",
        "patternType": "PREFIXED",
    }
    assert json.loads(acls.build_rules([RULE])) == {
        "version": 1,
        "acls": [
            {
                "principal": "User:alice",
                "permissionType": "Deny",
                "operation": "IdempotentWrite",
                "host": "*",
            }
        ],
    }


def test_what_is_written_is_read() -> None:
    """Rules and announcements; names have colons and quotation marks."""
    for name in ('a:b"c', "Käse", "%2F", " x "):
        for kind in (LITERAL, PREFIXED):
            pattern = AclPattern(AclResourceType.GROUP, name, kind)
            rules = (
                RULE._replace(pattern=pattern),
                RULE._replace(pattern=pattern, host="10.0.0.1"),
            )
            assert acls.parse_rules(pattern, acls.build_rules(rules)) == rules
            assert acls.parse_change(kind, acls.build_change(pattern)) == pattern


def test_an_empty_znode_has_no_rules() -> None:
    """Kafka leaves one when it creates parents; that is no damage."""
    assert acls.parse_rules(PATTERN, b"") == ()


GOOD = {"principal": "User:a", "permissionType": "Allow", "operation": "Read", "host": "*"}


@pytest.mark.parametrize(
    "data",
    [
        b"{",
        b"\xff\xfe",
        b"[]",
        b'{"version":1}',
        b'{"version":1,"acls":7}',
        b'{"version":2,"acls":[]}',
        b'{"version":1,"acls":[7]}',
        b"[" * 100_000,
        *(
            json.dumps({"version": 1, "acls": [GOOD, {**GOOD, field: value}]}).encode()
            for field, value in (
                ("principal", "alice"),
                ("principal", None),
                ("permissionType", "Perhaps"),
                ("permissionType", "Any"),
                ("operation", "Sing"),
                ("operation", "Any"),
                ("host", None),
            )
        ),
    ],
)
def test_what_is_not_understood_in_full_is_unreadable(data: bytes) -> None:
    """A rule that is left out could be the one that denies."""
    assert acls.parse_rules(PATTERN, data) is None


def test_names_that_would_be_another_path_are_not_stored() -> None:
    """Nor those that ZooKeeper refuses."""
    for name in ("", ".", "..", "a/b", "a\0b", "a\nb", "\ufffe"):
        assert not acls.is_storable(name)
    for name in ("...", "a b", "*", "User:alice"):
        assert acls.is_storable(name)


@pytest.mark.parametrize("data", [b"", b"TOPIC", b"SONG:x", b"TOPIC:a/b", b"\xff:x"])
def test_an_announcement_of_something_else_is_none(data: bytes) -> None:
    """It is reported and left alone."""
    assert acls.parse_change(LITERAL, data) is None
    assert acls.parse_change(PREFIXED, data) is None
