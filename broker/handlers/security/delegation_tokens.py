"""CreateDelegationToken (38, versions 0-3), RenewDelegationToken (39, 0-2), ExpireDelegationToken
(40, 0-2) and DescribeDelegationToken (41, 0-3): delegation tokens are not issued here.

The answers are those of a Kafka broker without ``delegation.token.secret.key``: an anonymous
client, such as every one of a PLAINTEXT listener, gets DELEGATION_TOKEN_REQUEST_NOT_ALLOWED, an
authenticated one DELEGATION_TOKEN_AUTH_DISABLED.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_delegation_token import (
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenResponse
from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenResponse
from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenResponse

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.describe_delegation_token import DescribeDelegationTokenRequest
    from ottla.protocol.messages.expire_delegation_token import ExpireDelegationTokenRequest
    from ottla.protocol.messages.renew_delegation_token import RenewDelegationTokenRequest

_ANONYMOUS = "User:ANONYMOUS"
_NO_TIME = -1
_REQUESTER_VERSION = 3


def create(
    _services: Services, context: RequestContext, request: CreateDelegationTokenRequest
) -> CreateDelegationTokenResponse:
    """Refused, with the names of the owner and, from version 3 on, of the requester."""
    kind, _, name = context.principal.partition(":")
    owner = (kind, name)
    if request.owner_principal_name:
        owner = (request.owner_principal_type or "", request.owner_principal_name)
    response = CreateDelegationTokenResponse(
        error_code=_error_for(context),
        principal_type=owner[0],
        principal_name=owner[1],
        issue_timestamp_ms=_NO_TIME,
        expiry_timestamp_ms=_NO_TIME,
        max_timestamp_ms=_NO_TIME,
    )
    if context.api_version >= _REQUESTER_VERSION:
        response.token_requester_principal_type = kind
        response.token_requester_principal_name = name
    return response


def renew(
    _services: Services, context: RequestContext, _request: RenewDelegationTokenRequest
) -> RenewDelegationTokenResponse:
    """Refused; there is no time of expiry."""
    return RenewDelegationTokenResponse(
        error_code=_error_for(context), expiry_timestamp_ms=_NO_TIME
    )


def expire(
    _services: Services, context: RequestContext, _request: ExpireDelegationTokenRequest
) -> ExpireDelegationTokenResponse:
    """Refused; there is no time of expiry."""
    return ExpireDelegationTokenResponse(
        error_code=_error_for(context), expiry_timestamp_ms=_NO_TIME
    )


def describe(
    _services: Services, context: RequestContext, _request: DescribeDelegationTokenRequest
) -> DescribeDelegationTokenResponse:
    """Refused, without any token."""
    return DescribeDelegationTokenResponse(error_code=_error_for(context))


def _error_for(context: RequestContext) -> ErrorCode:
    if context.principal == _ANONYMOUS:
        return ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED
