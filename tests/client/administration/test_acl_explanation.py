"""The explanation of rules says what a broker decides."""

from __future__ import annotations

from ottla.broker.authorization.index import AclIndex, decide
from ottla.client.administration.acl_explanation import explain, judge
from ottla.protocol.acls import (
    OPERATIONS,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)

TOPIC = AclResourceType.TOPIC
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ALLOW, DENY = Permission.ALLOW, Permission.DENY
ORDERS = AclPattern(TOPIC, "orders")
PREFIX = AclPattern(TOPIC, "ord", PatternType.PREFIXED)
OTHER = AclPattern(TOPIC, "other")
RULES = [
    AclRule(ORDERS, "User:app", "*", READ, ALLOW),
    AclRule(PREFIX, "User:ops", "10.0.0.0/8", WRITE, ALLOW),
    AclRule(PREFIX, "User:ops", "10.0.0.9", WRITE, DENY),
    AclRule(ORDERS, "User:*", "*", DESCRIBE, ALLOW),
    AclRule(OTHER, "User:eve", "*", READ, ALLOW),
]


def test_each_principal_and_host_of_a_rule_is_judged() -> None:
    """By the rule that decides; rules about other resources are left out."""
    found = {
        (one.principal, one.host, one.operation.name): (one.is_allowed, one.rule)
        for one in explain(RULES, TOPIC, "orders")
    }

    assert found["User:app", "*", "READ"] == (True, RULES[0])
    assert found["User:ops", "10.0.0.0/8", "WRITE"] == (True, RULES[1])
    assert found["User:ops", "10.0.0.9", "WRITE"] == (False, RULES[2])
    assert found["User:*", "*", "DESCRIBE"] == (True, RULES[3])
    assert ("User:app", "*", "WRITE") not in found
    assert not any(principal == "User:eve" for principal, _host, _operation in found)


def test_a_verdict_is_what_the_broker_decides() -> None:
    """For addresses; the explanation and the decision are written down separately."""
    index = AclIndex.of(RULES)
    for user in ("User:app", "User:ops", "User:eve"):
        for host in ("10.0.0.1", "10.0.0.9", "192.0.2.1"):
            for name in ("orders", "order", "other"):
                about = [rule for rule in RULES if rule.pattern.covers(TOPIC, name)]
                for operation in OPERATIONS[TOPIC]:
                    decided = decide(index, (user, host), operation, (TOPIC, name))
                    verdict = judge(about, (user, host), operation)
                    assert verdict.is_allowed is decided.is_allowed
