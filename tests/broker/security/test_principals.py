"""Tests of ssl.principal.mapping.rules, on the examples of Kafka's documentation and beyond."""

from __future__ import annotations

import time

import pytest

from ottla.broker.security.principals import BadRules, PrincipalRules

ALICE = "CN=Alice,OU=Sales,O=Example,C=DE"


@pytest.mark.parametrize(
    ("rules", "subject", "principal"),
    [
        ("DEFAULT", ALICE, f"User:{ALICE}"),
        ("", ALICE, f"User:{ALICE}"),
        ("RULE:^CN=(.*?),.*$/$1/", ALICE, "User:Alice"),
        ("RULE:^CN=(.*?),.*$/$1/L", ALICE, "User:alice"),
        ("RULE:^CN=(.*?),.*$/$1/U", ALICE, "User:ALICE"),
        ("RULE:^CN=(.*?),OU=(.*?),O=(.*?),.*$/$1@$2/L , DEFAULT", ALICE, "User:alice@sales"),
        (
            "RULE:^CN=(.*?),OU=ServiceUsers.*$/$1/,RULE:^CN=(.*?),.*$/x-$1/,DEFAULT",
            ALICE,
            "User:x-Alice",
        ),
        ("RULE:^CN=Bob.*$/bob/, DEFAULT", ALICE, f"User:{ALICE}"),
        ("RULE:^CN=Bob.*$/bob/", ALICE, None),
        # Anchored, whether the pattern says so or not.
        ("RULE:CN=Alice/admin/", ALICE, None),
        ("RULE:.*O=Example/admin/", ALICE, None),
        # References as in Java.
        ("RULE:CN=(.*?),.*/$0/", "CN=a,O=b", "User:CN=a,O=b"),
        ("RULE:CN=(.*?),.*/$12/", "CN=a,O=b", "User:a2"),
        ("RULE:CN=(.*?),.*/$1-$2/", "CN=a,O=b", "User:a-$2"),
        ("RULE:CN=(.*?),.*/\\$1/", "CN=a,O=b", "User:$1"),
        ("RULE:CN=a\\/b/slash/", "CN=a/b", "User:slash"),
    ],
)
def test_the_first_rule_that_matches_makes_the_name(
    rules: str, subject: str, principal: str | None
) -> None:
    """The whole subject has to match: a part of it would let other names in."""
    assert PrincipalRules(rules).principal_of(subject) == principal


@pytest.mark.parametrize(
    "rules",
    ["RULE:a/b", "RULE:a/b/X", "DEFAULT DEFAULT", "rule:a/b/", "RULE:(/x/", "RULE:a/b/L RULE:a/b/"],
)
def test_rules_that_cannot_be_meant_are_refused(rules: str) -> None:
    """A rule that is silently left out would give a client another name."""
    with pytest.raises(BadRules):
        PrincipalRules(rules)


def test_no_pattern_takes_long() -> None:
    """This one takes years with a backtracking engine."""
    begun = time.monotonic()
    assert PrincipalRules("RULE:(a+)+b/x/").principal_of("a" * 900) is None
    assert time.monotonic() - begun < 30
