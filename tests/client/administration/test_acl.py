"""Tests of access rules in short."""

from __future__ import annotations

import pytest

from ottla import Acl
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)


def test_each_operation_counts_for_the_resources_that_know_it() -> None:
    """A group knows no Write, and a rule about one would be refused by brokers."""
    rules = Acl("alice", "read, write", topic="orders", group="billing").rules()

    topic = AclPattern(AclResourceType.TOPIC, "orders")
    group = AclPattern(AclResourceType.GROUP, "billing")
    assert rules == [
        AclRule(topic, "User:alice", "*", Operation.READ, Permission.ALLOW),
        AclRule(group, "User:alice", "*", Operation.READ, Permission.ALLOW),
        AclRule(topic, "User:alice", "*", Operation.WRITE, Permission.ALLOW),
    ]


def test_prefixes_hosts_and_denial_reach_the_rule() -> None:
    """Forgotten, a denial would allow."""
    (rule,) = Acl(
        "User:eve", "all", transactional_id="etl-", prefixed=True, host="10.0.0.0/8", deny=True
    ).rules()

    pattern = AclPattern(AclResourceType.TRANSACTIONAL_ID, "etl-", PatternType.PREFIXED)
    assert rule == AclRule(pattern, "User:eve", "10.0.0.0/8", Operation.ALL, Permission.DENY)


def test_the_cluster_is_a_resource_of_its_own() -> None:
    """It has one name, which callers need not know."""
    (rule,) = Acl("bob", "describe-configs", cluster=True, prefixed=True).rules()

    assert rule.pattern == AclPattern(AclResourceType.CLUSTER, "kafka-cluster")
    assert rule.operation is Operation.DESCRIBE_CONFIGS


@pytest.mark.parametrize(
    ("acl", "sentence"),
    [
        (Acl("a", "read"), "names a topic"),
        (Acl("a", "write", group="g"), "'write' is no operation"),
        (Acl("a", "jump", topic="t"), "'jump' is no operation"),
        (Acl("a", " , ", topic="t"), "names operations"),
    ],
)
def test_an_acl_that_says_nothing_is_refused(acl: Acl, sentence: str) -> None:
    """It would make no rule, and the mistake would look like a refusal of the broker."""
    with pytest.raises(ValueError, match=sentence):
        acl.rules()
