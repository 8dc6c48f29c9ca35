"""SaslHandshake (17, versions 0-1) and SaslAuthenticate (36, versions 0-2) after the login.

Before it, ``broker/security/login.py`` answers both. An authenticated client of a SASL listener
asks for a handshake to log in again (KIP-368); from then on its login takes the frames of the
connection. A connection of another listener is authenticated before its first request, so both are
out of place there: ILLEGAL_SASL_STATE, as in Kafka. A client that is configured for SASL reports
that error instead of an unknown API.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateResponse
from ottla.protocol.messages.sasl_handshake import SaslHandshakeResponse

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.sasl_authenticate import SaslAuthenticateRequest
    from ottla.protocol.messages.sasl_handshake import SaslHandshakeRequest

_ERROR = ErrorCode.ILLEGAL_SASL_STATE
# Raw tokens could not be told from requests that are on their way already.
_VERSION_MIN = 1


async def handshake(
    services: Services, context: RequestContext, request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """Begin a new login on the connection; the next frame belongs to it, so this is awaited."""
    if context.api_version < _VERSION_MIN or not services.logins.begin_again(
        context.peer, request.mechanism
    ):
        return SaslHandshakeResponse(error_code=_ERROR)
    return SaslHandshakeResponse(mechanisms=[request.mechanism])


def authenticate(
    _services: Services, _context: RequestContext, _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """No login has begun on the connection."""
    return SaslAuthenticateResponse(
        error_code=_ERROR,
        error_message="No SaslHandshake came before it, or this listener does not use SASL",
    )
