"""SaslHandshake (17, versions 0-1) and SaslAuthenticate (36, versions 0-2) on a PLAINTEXT listener.

A connection here is authenticated (as anonymous) before its first request, so both are out of
place: ILLEGAL_SASL_STATE, as on Kafka's PLAINTEXT listeners. A client that is configured for SASL
reports that error instead of an unknown API.
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


def handshake(
    _services: Services, _context: RequestContext, _request: SaslHandshakeRequest
) -> SaslHandshakeResponse:
    """There is no mechanism to choose from."""
    return SaslHandshakeResponse(error_code=_ERROR)


def authenticate(
    _services: Services, _context: RequestContext, _request: SaslAuthenticateRequest
) -> SaslAuthenticateResponse:
    """The connection is authenticated already."""
    return SaslAuthenticateResponse(
        error_code=_ERROR,
        error_message="This listener does not use SASL: the connection is authenticated already",
    )
