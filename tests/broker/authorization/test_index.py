"""The arranged rules decide as a list of rules that is read from the first to the last."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.authorization.index import UNREADABLE, AclIndex, decide, may_on_any
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from tests.broker.authorization.naive import naively_any, naively_decided

TOPIC, GROUP = AclResourceType.TOPIC, AclResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE = Operation.READ, Operation.WRITE, Operation.DESCRIBE
ME = ("User:me", "10.0.0.1")

# Few values, so that rules and questions meet often.
NAMES = st.text(alphabet="ab", min_size=1, max_size=4)
TYPES = st.sampled_from([TOPIC, GROUP])
PRINCIPALS = st.sampled_from(["User:me", "User:you", "User:*"])
RULES = st.builds(
    AclRule,
    st.builds(
        AclPattern,
        TYPES,
        st.one_of(NAMES, st.just("*")),
        st.sampled_from([LITERAL, PREFIXED]),
    ),
    PRINCIPALS,
    st.sampled_from(["*", "10.0.0.1", "10.0.0.0/24", "10.0.0.2", "::ffff:10.0.0.1"]),
    st.sampled_from([READ, WRITE, DESCRIBE, Operation.ALTER_CONFIGS, Operation.ALL]),
    st.sampled_from([ALLOW, ALLOW, DENY]),
)
CALLERS = st.tuples(
    st.sampled_from(["User:me", "User:you"]), st.sampled_from(["10.0.0.1", "10.0.0.2", "::1"])
)
OPERATIONS = st.sampled_from([READ, WRITE, DESCRIBE, Operation.DESCRIBE_CONFIGS])


@settings(max_examples=400, deadline=None)
@given(
    rules=st.lists(RULES, max_size=40, unique=True),
    unreadable=st.lists(st.builds(AclPattern, TYPES, NAMES, st.just(PREFIXED)), max_size=1),
    questions=st.lists(st.tuples(CALLERS, OPERATIONS, TYPES, NAMES), min_size=1, max_size=20),
    is_open=st.booleans(),
)
def test_the_index_decides_as_the_naive_evaluator(
    rules: list[AclRule],
    unreadable: list[AclPattern],
    questions: list[tuple[tuple[str, str], Operation, AclResourceType, str]],
    is_open: bool,
) -> None:
    """An index that overlooks a rule lets a client in that another rule keeps out."""
    index = AclIndex.of(rules).replaced(dict.fromkeys(unreadable, UNREADABLE))
    readable = [rule for rule in rules if rule.pattern not in unreadable]

    for caller, operation, kind, name in questions:
        decided = decide(index, caller, operation, (kind, name), open_without_rules=is_open)
        expected = naively_decided(
            readable, unreadable, caller, operation, (kind, name), is_open=is_open
        )
        assert decided.is_allowed is expected
        if decided.rule is not None:
            assert decided.rule.pattern.covers(kind, name)
            assert decided.rule.permission is (ALLOW if decided.is_allowed else DENY)
        assert may_on_any(
            index, caller, operation, kind, open_without_rules=is_open
        ) is naively_any(readable, unreadable, caller, operation, kind, is_open=is_open)


@settings(max_examples=200, deadline=None)
@given(edits=st.lists(st.tuples(st.booleans(), RULES), max_size=40))
def test_an_edited_index_equals_one_that_is_made_anew(edits: list[tuple[bool, AclRule]]) -> None:
    """Of one removed rule the others of the resource, and other resources, keep theirs."""
    rules: list[AclRule] = []
    index = AclIndex()
    for adds, rule in edits:
        if adds and rule not in rules:
            rules.append(rule)
        elif not adds and rule in rules:
            rules.remove(rule)
        of_pattern = tuple(one for one in rules if one.pattern == rule.pattern)
        index = index.replaced({rule.pattern: of_pattern})

    assert sorted(index.rules()) == sorted(rules)
    assert dict(index) == dict(AclIndex.of(rules))


def _rule(name: str, kind: PatternType, operation: Operation, permission: Permission) -> AclRule:
    return AclRule(AclPattern(TOPIC, name, kind), "User:me", "*", operation, permission)


def test_a_short_prefix_counts_beside_a_longer_one() -> None:
    """A prefix between the name and a shorter prefix must not hide the shorter one."""
    index = AclIndex.of(
        [
            _rule("f", PREFIXED, READ, DENY),
            _rule("foob", PREFIXED, READ, ALLOW),
            _rule("fooa", LITERAL, READ, ALLOW),
        ]
    )

    assert not decide(index, ME, READ, (TOPIC, "foobar")).is_allowed


def test_denying_reading_leaves_describing() -> None:
    """Kafka's rule: only rules that allow imply others."""
    index = AclIndex.of([_rule("t", LITERAL, READ, DENY), _rule("t", LITERAL, WRITE, ALLOW)])

    assert not decide(index, ME, READ, (TOPIC, "t")).is_allowed
    assert decide(index, ME, DESCRIBE, (TOPIC, "t")).is_allowed


def test_a_resource_without_rules_is_open_only_if_the_setting_says_so() -> None:
    """A rule for another user is a rule about the resource: it is closed then."""
    index = AclIndex.of([_rule("t", LITERAL, READ, ALLOW)])
    other = ("User:you", "10.0.0.1")

    assert not decide(index, ME, READ, (TOPIC, "u")).is_allowed
    assert decide(index, ME, READ, (TOPIC, "u"), open_without_rules=True).is_allowed
    assert not decide(index, other, READ, (TOPIC, "t"), open_without_rules=True).is_allowed


def test_unreadable_rules_deny_everything_that_they_could_be_about() -> None:
    """Left out, a rule that denies would open the resource."""
    index = AclIndex.of([_rule("*", LITERAL, Operation.ALL, ALLOW)])
    index = index.replaced({AclPattern(TOPIC, "pay", PREFIXED): UNREADABLE})

    assert not decide(index, ME, READ, (TOPIC, "payments")).is_allowed
    assert decide(index, ME, READ, (TOPIC, "orders")).is_allowed
    assert decide(index, ME, READ, (TOPIC, "orders")).reason == "a rule allows it"
