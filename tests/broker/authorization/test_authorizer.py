"""Decisions are remembered as long as the rules stand, and told where they have to be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.authorization import authorizer as module
from ottla.broker.authorization.authorizer import AclAuthorizer, Authorizer
from ottla.broker.authorization.index import AclIndex
from ottla.protocol.acls import (
    CLUSTER_NAME,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    Permission,
)
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    import pytest

    from ottla.broker.authorization.index import AclDecision

TOPIC = AclResourceType.TOPIC
READ, WRITE, CREATE = Operation.READ, Operation.WRITE, Operation.CREATE


@dataclass(frozen=True, slots=True)
class Caller:
    """A connection, as far as decisions need it."""

    principal: str = "User:me"
    client_host: str = "10.0.0.1"
    listener: str = "PLAINTEXT"
    client_id: str = "app"


class Told:
    """What the audit log would have."""

    def __init__(self, *, is_kept: bool = True) -> None:
        self.lines: list[tuple[str, str, bool]] = []
        self.is_kept = is_kept

    def __call__(
        self, _caller: Any, operation: Operation, _kind: Any, name: str, decision: AclDecision
    ) -> bool:
        self.lines.append((operation.name, name, decision.is_allowed))
        return self.is_kept


def _allow(name: str, operation: Operation, kind: AclResourceType = TOPIC) -> AclRule:
    return AclRule(AclPattern(kind, name), "User:me", "*", operation, Permission.ALLOW)


def _authorizer(*rules: AclRule, told: Told | None = None) -> AclAuthorizer:
    made = AclAuthorizer(frozenset({"User:root"}), open_without_rules=False, tell=told or Told())
    made.take(AclIndex.of(rules))
    return made


def test_a_decision_ends_with_the_rules_that_it_was_made_by() -> None:
    """A revoked right must not live on in what is remembered."""
    authorizer = _authorizer(_allow("t", READ))
    assert authorizer.is_allowed(Caller(), READ, TOPIC, "t")
    assert authorizer.may_on_any(Caller(), READ, TOPIC)
    before = authorizer.version

    authorizer.take(AclIndex())

    assert authorizer.version > before
    assert not authorizer.is_allowed(Caller(), READ, TOPIC, "t")
    assert not authorizer.may_see(Caller(), READ, TOPIC, "t")
    assert not authorizer.may_on_any(Caller(), READ, TOPIC)


def test_a_client_id_gives_no_rights() -> None:
    """Any client can call itself what it likes, also as a super user is called."""
    authorizer = _authorizer()

    for client_id in ("root", "User:root"):
        assert not authorizer.is_allowed(Caller(client_id=client_id), READ, TOPIC, "t")
    assert authorizer.is_allowed(Caller("User:root"), READ, TOPIC, "t")


def test_a_decision_of_one_caller_is_not_that_of_another() -> None:
    """Principal, host, operation, type and name: each of them makes another question."""
    authorizer = _authorizer(_allow("t", READ))
    assert authorizer.is_allowed(Caller(), READ, TOPIC, "t")

    assert not authorizer.is_allowed(Caller("User:you"), READ, TOPIC, "t")
    assert not authorizer.is_allowed(Caller(), WRITE, TOPIC, "t")
    assert not authorizer.is_allowed(Caller(), READ, AclResourceType.GROUP, "t")
    assert not authorizer.is_allowed(Caller(), READ, TOPIC, "u")


def test_before_the_rules_are_loaded_only_super_users_get_in() -> None:
    """A broker that has just started knows no rule that denies."""
    made = AclAuthorizer(frozenset({"User:root"}), open_without_rules=True, tell=Told())

    assert not made.is_allowed(Caller(), READ, TOPIC, "t")
    assert not made.may_on_any(Caller(), READ, TOPIC)
    assert made.is_allowed(Caller("User:root"), READ, TOPIC, "t")
    made.take(AclIndex())
    assert made.is_allowed(Caller(), READ, TOPIC, "t")


def test_super_users_are_above_rules_that_deny() -> None:
    """Names are compared as they are written: user:root is another principal."""
    deny = AclRule(AclPattern(TOPIC, "*"), "User:*", "*", Operation.ALL, Permission.DENY)
    authorizer = _authorizer(deny)

    assert authorizer.is_allowed(Caller("User:root"), WRITE, TOPIC, "t")
    assert authorizer.may_on_any(Caller("User:root"), WRITE, TOPIC)
    assert not authorizer.is_allowed(Caller("user:root"), WRITE, TOPIC, "t")


def test_refusals_and_changes_are_told_each_time_and_reads_never() -> None:
    """Also when the decision is remembered; what a list leaves out is no event."""
    told = Told()
    authorizer = _authorizer(_allow("t", READ), _allow("t", CREATE), told=told)
    for _ in range(2):
        authorizer.is_allowed(Caller(), READ, TOPIC, "t")
        authorizer.may_see(Caller(), READ, TOPIC, "hidden")
        authorizer.is_allowed(Caller(), CREATE, TOPIC, "t")
        authorizer.is_allowed(Caller(), WRITE, TOPIC, "t")
        authorizer.topic_operations(Caller(), "t")

    assert told.lines == [("CREATE", "t", True), ("WRITE", "t", False)] * 2


def test_a_change_that_leaves_no_line_is_refused() -> None:
    """The audit log has both lines if it can be written in between; reads leave no line anyway."""
    told = Told(is_kept=False)
    authorizer = _authorizer(_allow("t", READ), _allow("t", CREATE), told=told)

    assert not authorizer.is_allowed(Caller(), CREATE, TOPIC, "t")
    assert not authorizer.may_create_topic(Caller(), "t")
    assert not authorizer.is_allowed(Caller("User:root"), CREATE, TOPIC, "t")
    assert authorizer.is_allowed(Caller(), READ, TOPIC, "t")
    assert told.lines == [("CREATE", "t", True), ("CREATE", "t", False)] * 3


def test_a_decision_that_fails_is_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A fault in the evaluation must not open the cluster."""

    def broken(*_args: object, **_options: object) -> None:
        raise RuntimeError("planted")

    authorizer = _authorizer(_allow("t", READ))
    monkeypatch.setattr(module, "decide", broken)

    assert not authorizer.is_allowed(Caller(), READ, TOPIC, "t")


def test_only_so_many_decisions_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that asks for ever new names must not fill the memory."""
    monkeypatch.setattr(module, "REMEMBERED_MAX", 10)
    authorizer = _authorizer(_allow("t", READ))
    for number in range(1000):
        authorizer.may_see(Caller(), READ, TOPIC, f"t{number}")
        authorizer.may_on_any(Caller(f"User:{number}"), READ, TOPIC)

    assert len(authorizer._remembered) <= 10
    assert len(authorizer._remembered_any) <= 11
    assert authorizer.is_allowed(Caller(), READ, TOPIC, "t")


def test_decisions_about_very_long_names_are_not_remembered() -> None:
    """Names have up to 32 KiB: a client without rights would fill 3 GB with made-up ones."""
    authorizer = _authorizer(_allow("t", READ))
    long = "t" * (module.NAME_CHARS_MAX + 1)
    assert not authorizer.is_allowed(Caller(), READ, TOPIC, long)
    assert not authorizer.may_see(Caller(), READ, TOPIC, long)

    assert not authorizer._remembered


def test_operations_are_listed_as_kafkas_bit_field() -> None:
    """Of a topic that the caller may read: Read and the implied Describe."""
    authorizer = _authorizer(_allow("t", READ))

    assert authorizer.topic_operations(Caller(), "t") == 1 << 3 | 1 << 8
    assert authorizer.topic_operations(Caller(), "u") == 0
    assert Authorizer().cluster_operations(Caller()) == sum(
        1 << bit for bit in (5, 7, 8, 9, 10, 11, 12)
    )
    assert Authorizer().is_allowed(Caller(), READ, AclResourceType.CLUSTER, CLUSTER_NAME)
    assert Authorizer().may_on_any(Caller(), WRITE, TOPIC)
