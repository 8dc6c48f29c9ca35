"""What a rule covers, whom it concerns, and which rules a filter selects."""

from __future__ import annotations

import pytest

from ottla.protocol.acls import (
    AclFilter,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
    matches_host,
    parse_word,
    plain_host,
    spelled,
)

TOPIC = AclResourceType.TOPIC
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED


def _rule(
    name: str = "orders",
    kind: PatternType = LITERAL,
    operation: Operation = Operation.READ,
    permission: Permission = Permission.ALLOW,
) -> AclRule:
    return AclRule(AclPattern(TOPIC, name, kind), "User:me", "*", operation, permission)


@pytest.mark.parametrize(
    ("wanted", "host", "matches"),
    [
        ("*", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.1.0.0/16", "10.1.200.3", True),
        ("10.1.7.7/16", "10.1.200.3", True),
        ("10.1.0.0/16", "10.2.0.1", False),
        ("::ffff:10.1.0.0/112", "10.1.200.3", True),
        ("2001:db8::/32", "2001:db8:0:1::5", True),
        ("2001:db8::/32", "10.1.0.1", False),
        ("2001:0DB8:0::5", "2001:db8::5", True),
        ("client.example", "10.1.0.1", False),
        ("10.1.0.0/99", "10.1.0.1", False),
    ],
)
def test_a_host_is_an_address_a_network_or_all(wanted: str, host: str, matches: bool) -> None:
    """Two spellings of one address are one host; names are not resolved."""
    assert matches_host(wanted, host) is matches


def test_an_ipv4_address_over_ipv6_is_the_ipv4_address() -> None:
    """A dual-stack listener reports its IPv4 clients in the mapped form."""
    assert plain_host("::ffff:192.0.2.7") == "192.0.2.7"
    assert plain_host("fe80::1%eth0") == "fe80::1"
    assert plain_host("") == ""


@pytest.mark.parametrize("operation", list(Operation))
def test_allowing_some_operations_allows_describing(operation: Operation) -> None:
    """Kafka's implications; denying one of them does not deny describing."""
    allowing, denying = (
        _rule(operation=operation),
        _rule(operation=operation, permission=Permission.DENY),
    )
    named = operation.name
    implied = {"READ", "WRITE", "DELETE", "ALTER", "DESCRIBE", "ALL"}
    assert allowing.is_about(Operation.DESCRIBE) is (named in implied)
    assert denying.is_about(Operation.DESCRIBE) is (named in {"DESCRIBE", "ALL"})
    of_configs = {"ALTER_CONFIGS", "DESCRIBE_CONFIGS", "ALL"}
    assert allowing.is_about(Operation.DESCRIBE_CONFIGS) is (named in of_configs)
    assert allowing.is_about(Operation.WRITE) is (named in {"WRITE", "ALL"})


def test_match_selects_every_pattern_that_covers_the_name() -> None:
    """``kafka-acls --resource-pattern-type match`` asks so what is in force for a topic."""
    rules = [_rule("orders"), _rule("ord", PREFIXED), _rule("*"), _rule("orders", PREFIXED)]
    others = [_rule("order"), _rule("ordersx", PREFIXED)]

    def selected(kind: PatternType, name: str | None = "orders") -> list[AclRule]:
        wanted = AclFilter(TOPIC, name, kind)
        return [rule for rule in rules + others if wanted.selects(rule)]

    assert selected(PatternType.MATCH) == rules
    assert selected(PatternType.ANY) == [rules[0], rules[3]]
    assert selected(LITERAL) == [rules[0]]
    assert selected(PREFIXED) == [rules[3]]
    assert selected(PatternType.MATCH, None) == rules + others


def test_a_filter_selects_by_each_of_its_fields() -> None:
    """A field that is given has to be equal; hosts and principals are compared as texts."""
    rule = _rule()
    for wanted in (
        AclFilter(),
        AclFilter(principal="User:me", host="*", operation=Operation.READ),
        AclFilter(permission=Permission.ALLOW),
    ):
        assert wanted.selects(rule)
    for wanted in (
        AclFilter(AclResourceType.GROUP),
        AclFilter(principal="User:you"),
        AclFilter(host="10.0.0.1"),
        AclFilter(operation=Operation.WRITE),
        AclFilter(permission=Permission.DENY),
    ):
        assert not wanted.selects(rule)


def test_words_are_spelled_as_in_kafkas_znodes() -> None:
    """And are understood in the spelling of its command, of its enumerations and of people."""
    assert spelled(AclResourceType.TRANSACTIONAL_ID) == "TransactionalId"
    assert spelled(Operation.IDEMPOTENT_WRITE) == "IdempotentWrite"
    for text in ("TransactionalId", "TRANSACTIONAL_ID", "transactional-id"):
        assert parse_word(AclResourceType, text) is AclResourceType.TRANSACTIONAL_ID
    for text in ("", "unknown", "sing"):
        assert parse_word(Operation, text) is None


@pytest.mark.parametrize("host", ["10.1.0.0/99", "10.1.0.0/", "client.example", "10.1..0"])
def test_a_rule_whose_host_cannot_be_read_denies_everywhere_and_allows_nowhere(host: str) -> None:
    """A typing error in the metadata store must not let in whom the rule was to keep out."""
    about = "User:me", "192.0.2.1", Operation.READ

    assert _rule(permission=Permission.DENY)._replace(host=host).concerns(*about)
    assert not _rule(permission=Permission.ALLOW)._replace(host=host).concerns(*about)
    denied = _rule(permission=Permission.DENY)
    assert not denied._replace(host="10.1.0.0/16").concerns(*about)
    assert not denied._replace(host="192.0.2.2").concerns(*about)
