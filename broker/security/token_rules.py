"""Rules of delegation tokens: who may do what, and how long they are valid (KIP-48). Pure.

The rules and errors are those of Kafka's DelegationTokenManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.delegation_tokens import TokenInformation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# The largest value of a response field.
_TIME_MAX = 2**63 - 1


class TokenLifetimes(NamedTuple):
    """``max_ms``: the maximum lifetime including renewals; ``renewal_ms``: the time until the next
    renewal, unless the request gives another one."""

    max_ms: int
    renewal_ms: int


class TokenOrder(NamedTuple):
    """A client's request for a token; a lifetime of 0 or less means the longest allowed."""

    owner: str
    requester: str
    renewers: tuple[str, ...]
    max_lifetime_ms: int


def created(
    token_id: str, order: TokenOrder, lifetimes: TokenLifetimes, wall_ms: int
) -> TokenInformation:
    """A new token."""
    lifetime_ms = min(lifetimes.max_ms, _TIME_MAX - wall_ms)
    if order.max_lifetime_ms > 0:
        lifetime_ms = min(order.max_lifetime_ms, lifetime_ms)
    return TokenInformation(
        token_id,
        order.owner,
        order.requester,
        order.renewers,
        wall_ms,
        wall_ms + min(lifetime_ms, lifetimes.renewal_ms),
        wall_ms + lifetime_ms,
    )


def renewed(
    token: TokenInformation,
    principal: str,
    period_ms: int,
    lifetimes: TokenLifetimes,
    wall_ms: int,
) -> TokenInformation:
    """Return the renewed token; a negative period means the default. Raises KafkaError."""
    _check_right(token, principal)
    _check_alive(token, wall_ms)
    period_ms = lifetimes.renewal_ms if period_ms < 0 else period_ms
    return token._replace(expiry_ms=min(token.max_ms, wall_ms + period_ms))


def expired(
    token: TokenInformation, principal: str, period_ms: int, wall_ms: int
) -> TokenInformation | None:
    """Return the token with its new expiry; None if a negative period expires it at once.

    Raises KafkaError."""
    _check_right(token, principal)
    if period_ms < 0:
        return None
    _check_alive(token, wall_ms)
    return token._replace(expiry_ms=min(token.max_ms, wall_ms + period_ms))


def is_described(
    token: TokenInformation,
    principal: str,
    owners: Sequence[str] | None,
    may_describe: Callable[[TokenInformation], bool],
) -> bool:
    """Whether a client that asks for tokens of these owners (None: all) may see the token."""
    if owners is not None and not any(token.is_owner_or_renewer(one) for one in owners):
        return False
    return token.is_owner_or_renewer(principal) or may_describe(token)


def _check_right(token: TokenInformation, principal: str) -> None:
    if not token.is_owner_or_renewer(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _check_alive(token: TokenInformation, wall_ms: int) -> None:
    if token.is_expired(wall_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
