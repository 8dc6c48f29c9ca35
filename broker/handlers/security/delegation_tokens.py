"""CreateDelegationToken (38, versions 0-3), RenewDelegationToken (39, 0-2), ExpireDelegationToken
(40, 0-2) and DescribeDelegationToken (41, 0-3), as a Kafka broker in ZooKeeper mode has them.

A client must have authenticated, and otherwise than by a token: a stolen token cannot be made into
new ones. Every broker writes the change itself (KIP-48). Tokens for others need CreateTokens on
their owner (KIP-373).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.security.token_rules import TokenOrder, expired, is_described, renewed
from ottla.coordinator.store.delegation_tokens import USER, is_user
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribedDelegationTokenRenewer,
    DescribeDelegationTokenResponse,
)
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.security.token_changes import TokenEdit
    from ottla.broker.security.token_store import TokenStore
    from ottla.coordinator.store.delegation_tokens import TokenInformation
    from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
    from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
    from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

_ANONYMOUS = "User:ANONYMOUS"
_NO_TIME = -1
_REQUESTER_VERSION = 3


async def create(
    services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """A new token, of the caller or of the owner that it names."""
    owner = context.principal
    if request.owner_principal_name:
        owner = f"{request.owner_principal_type or ''}:{request.owner_principal_name}"
    renewers = tuple(f"{one.principal_type}:{one.principal_name}" for one in request.renewers)
    try:
        _check_caller(services, context)
        _check_owner(services, context, owner)
        if any(one.principal_type != USER for one in request.renewers):
            raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)
        store = _store(services)
        order = TokenOrder(owner, context.principal, renewers, request.max_lifetime_ms)
        token = await store.create(order)
    except KafkaError as error:
        response = CreateDelegationTokenResponse(
            error_code=error.code,
            issue_timestamp_ms=_NO_TIME,
            expiry_timestamp_ms=_NO_TIME,
            max_timestamp_ms=_NO_TIME,
        )
    else:
        store.on_change(context, "Create", token.token_id, owner)
        response = CreateDelegationTokenResponse(
            issue_timestamp_ms=token.issue_ms,
            expiry_timestamp_ms=token.expiry_ms,
            max_timestamp_ms=token.max_ms,
            token_id=token.token_id,
            hmac=store.tokens.hmac_of(token.token_id),
        )
    response.principal_type, _, response.principal_name = owner.partition(":")
    if context.api_version >= _REQUESTER_VERSION:
        kind, _, name = context.principal.partition(":")
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


async def renew(
    services: Services, context: RequestContext, request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """The token lives on, up to its maximum."""
    clock = services.ports.clock

    def edit(token: TokenInformation) -> TokenInformation:
        period_ms, lifetimes = request.renew_period_ms, _store(services).lifetimes
        return renewed(token, context.principal, period_ms, lifetimes, clock.wall_ms())

    error, expiry_ms = await _change(services, context, bytes(request.hmac), "Renew", edit)
    return RenewDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms)


async def expire(
    services: Services, context: RequestContext, request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """The token ends at once or after a period."""
    clock = services.ports.clock

    def edit(token: TokenInformation) -> TokenInformation | None:
        return expired(token, context.principal, request.expiry_time_period_ms, clock.wall_ms())

    error, expiry_ms = await _change(services, context, bytes(request.hmac), "Expire", edit)
    return ExpireDelegationTokenResponse(error_code=error, expiry_timestamp_ms=expiry_ms)


async def _change(
    services: Services, context: RequestContext, token_hmac: bytes, verb: str, edit: TokenEdit
) -> tuple[ErrorCode, int]:
    """An error, or the new time of expiry."""
    try:
        _check_caller(services, context)
        store = _store(services)
        known = store.tokens.token_of(token_hmac)
        if known is None:
            raise KafkaError(ErrorCode.DELEGATION_TOKEN_NOT_FOUND)
        after = await store.change(known.token_id, edit)
    except KafkaError as error:
        return error.code, _NO_TIME
    store.on_change(context, verb, known.token_id, known.owner)
    now_ms = services.ports.clock.wall_ms()
    return ErrorCode.NONE, now_ms if after is None else after.expiry_ms


def describe(
    services: Services, context: RequestContext, request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """The tokens of the asked owners that the caller may see, with their HMACs as in Kafka."""
    try:
        _check_caller(services, context)
        tokens = _store(services).tokens
    except KafkaError as error:
        return DescribeDelegationTokenResponse(error_code=error.code)
    owners = None
    if request.owners is not None:
        owners = [f"{one.principal_type}:{one.principal_name}" for one in request.owners]
    authorizer = services.authorizer

    def may_describe(token: TokenInformation) -> bool:
        return authorizer.may_see(
            context, Operation.DESCRIBE, AclResourceType.DELEGATION_TOKEN, token.token_id
        ) or authorizer.may_see(
            context, Operation.DESCRIBE_TOKENS, AclResourceType.USER, token.owner
        )

    return DescribeDelegationTokenResponse(
        tokens=[
            _described(token, tokens.hmac_of(token.token_id), context.api_version)
            for token in tokens.all()
            if is_described(token, context.principal, owners, may_describe)
        ]
    )


def _described(
    token: TokenInformation, token_hmac: bytes, version: int
) -> DescribedDelegationToken:
    kind, _, name = token.owner.partition(":")
    found = DescribedDelegationToken(
        principal_type=kind,
        principal_name=name,
        issue_timestamp=token.issue_ms,
        expiry_timestamp=token.expiry_ms,
        max_timestamp=token.max_ms,
        token_id=token.token_id,
        hmac=token_hmac,
        renewers=[DescribedDelegationTokenRenewer(*_split(one)) for one in token.renewers],
    )
    if version >= _REQUESTER_VERSION:
        kind, name = _split(token.requester)
        found.token_requester_principal_type = kind
        found.token_requester_principal_name = name
    return found


def _split(principal: str) -> tuple[str, str]:
    kind, _, name = principal.partition(":")
    return kind, name


def _check_caller(services: Services, context: RequestContext) -> None:
    """Clients without authentication, and those that have logged in with a token, do nothing with
    tokens. Raises KafkaError."""
    session = services.logins.session_of(context.peer)
    if session is not None:
        is_allowed = not session.authenticated.is_token
    else:
        # A certificate; on other listeners without SASL every client is this one. On a listener
        # with SASL the connection has gone, and with it what its login was.
        is_allowed = context.principal != _ANONYMOUS and not context.peer.closed
    if not is_allowed:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED)


def _check_owner(services: Services, context: RequestContext, owner: str) -> None:
    """Raises KafkaError."""
    if owner != context.principal and not services.authorizer.is_allowed(
        context, Operation.CREATE_TOKENS, AclResourceType.USER, owner
    ):
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED)
    if not is_user(owner):
        # A login makes a User of the owner's name: Group:alice must not become User:alice.
        raise KafkaError(ErrorCode.INVALID_PRINCIPAL_TYPE)


def _store(services: Services) -> TokenStore:
    """Raises KafkaError."""
    if services.tokens is None:
        raise KafkaError(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED)
    return services.tokens
