"""How long tokens live, and who may change or see them."""

from __future__ import annotations

from functools import partial

import pytest

from ottla.broker.security.token_rules import (
    TokenLifetimes,
    TokenOrder,
    created,
    expired,
    is_described,
    renewed,
)
from ottla.coordinator.store.delegation_tokens import TokenInformation
from ottla.protocol.errors import ErrorCode, KafkaError

LIMITS = TokenLifetimes(max_ms=1000, renewal_ms=400)
NOW = 10_000
TOKEN = TokenInformation(
    "id", "User:owner", "User:requester", ("User:renewer",), NOW, NOW + 400, NOW + 1000
)


@pytest.mark.parametrize(
    ("asked_ms", "expiry_ms", "max_ms"),
    [(-1, 400, 1000), (0, 400, 1000), (300, 300, 300), (700, 400, 700), (5000, 400, 1000)],
)
def test_a_token_lives_as_long_as_asked_and_allowed(
    asked_ms: int, expiry_ms: int, max_ms: int
) -> None:
    """It expires after the usual period unless its maximum is nearer."""
    order = TokenOrder("User:owner", "User:requester", ("User:renewer",), asked_ms)
    token = created("id", order, LIMITS, NOW)
    assert token == TOKEN._replace(expiry_ms=NOW + expiry_ms, max_ms=NOW + max_ms)


def test_no_limit_is_too_long_for_a_response() -> None:
    """Times are 64-bit numbers."""
    limits = TokenLifetimes(2**63 - 1, 2**63 - 1)
    token = created("id", TokenOrder("User:a", "User:a", (), 2**63 - 1), limits, NOW)
    assert token.max_ms == token.expiry_ms == 2**63 - 1


@pytest.mark.parametrize(
    ("period_ms", "expiry_ms"), [(-1, 600), (0, 200), (100, 300), (5000, 1000), (2**63 - 1, 1000)]
)
def test_a_renewal_never_goes_beyond_the_maximum(period_ms: int, expiry_ms: int) -> None:
    """And may also shorten."""
    for who in ("User:owner", "User:renewer"):
        token = renewed(TOKEN, who, period_ms, LIMITS, NOW + 200)
        assert token == TOKEN._replace(expiry_ms=NOW + expiry_ms)


@pytest.mark.parametrize(("period_ms", "expiry_ms"), [(0, 200), (100, 300), (5000, 1000)])
def test_an_expiry_moves_the_end(period_ms: int, expiry_ms: int) -> None:
    """To any moment up to the maximum."""
    token = expired(TOKEN, "User:renewer", period_ms, NOW + 200)
    assert token == TOKEN._replace(expiry_ms=NOW + expiry_ms)


def test_a_negative_period_ends_a_token_at_once() -> None:
    """Also one that has expired already."""
    assert expired(TOKEN, "User:owner", -1, NOW) is None
    assert expired(TOKEN, "User:owner", -1, NOW + 5000) is None


@pytest.mark.parametrize("who", ["User:requester", "User:Owner", "User:owner ", "Group:owner"])
def test_only_owner_and_renewers_change_a_token(who: str) -> None:
    """Not even its requester, as in Kafka."""
    with pytest.raises(KafkaError) as caught:
        renewed(TOKEN, who, 1, LIMITS, NOW)
    assert caught.value.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
    with pytest.raises(KafkaError) as caught:
        expired(TOKEN, who, -1, NOW)
    assert caught.value.code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH


def test_an_expired_token_stays_so() -> None:
    """It is valid up to and including its last millisecond."""
    assert renewed(TOKEN, "User:owner", 100, LIMITS, NOW + 400).expiry_ms == NOW + 500
    for late in (
        partial(renewed, TOKEN, "User:owner", 100, LIMITS),
        partial(expired, TOKEN, "User:owner", 100),
    ):
        with pytest.raises(KafkaError) as caught:
            late(NOW + 401)
        assert caught.value.code == ErrorCode.DELEGATION_TOKEN_EXPIRED


def test_which_clients_may_see_a_token() -> None:
    """Its owner, its renewers, and those with a right, of the owners that were asked for."""

    def is_seen(who: str, owners: list[str] | None, *, right: bool = False) -> bool:
        return is_described(TOKEN, who, owners, lambda _token: right)

    assert is_seen("User:owner", None)
    assert is_seen("User:renewer", None)
    assert not is_seen("User:requester", None)
    assert is_seen("User:stranger", None, right=True)
    assert is_seen("User:owner", ["User:x", "User:renewer"])
    assert not is_seen("User:owner", ["User:x"], right=True)
    assert not is_seen("User:owner", [], right=True)
