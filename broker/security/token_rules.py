"""What may be done with delegation tokens, and for how long they are valid (KIP-48). Pure.

The rules and errors are those of Kafka's DelegationTokenManager.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.store.delegation_tokens import TokenInformation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

# What a field of a response can hold.
_TIME_MAX = 2**63 - 1


class TokenLifetimes(NamedTuple):
    """``max_ms``: however often a token is renewed; ``renewal_ms``: from one renewal to the next,
    unless the request says otherwise."""

    max_ms: int
    renewal_ms: int


class TokenOrder(NamedTuple):
    """What a client asks for; with 0 or less the lifetime is the longest that is allowed."""

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
    """The token after its renewal; a negative period is the usual one. Raises KafkaError."""
    _check_right(token, principal)
    _check_alive(token, wall_ms)
    period_ms = lifetimes.renewal_ms if period_ms < 0 else period_ms
    return token._replace(expiry_ms=min(token.max_ms, wall_ms + period_ms))


def expired(
    token: TokenInformation, principal: str, period_ms: int, wall_ms: int
) -> TokenInformation | None:
    """The token after its end was moved; None if it ends at once, by a negative period.

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
    """Whether a client that asks for tokens of these owners (None: of all) may see the token."""
    if owners is not None and not any(token.is_owner_or_renewer(one) for one in owners):
        return False
    return token.is_owner_or_renewer(principal) or may_describe(token)


def _check_right(token: TokenInformation, principal: str) -> None:
    if not token.is_owner_or_renewer(principal):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH)


def _check_alive(token: TokenInformation, wall_ms: int) -> None:
    if token.is_expired(wall_ms):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_EXPIRED)
