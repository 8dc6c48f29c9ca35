"""Maps failures to an HTTP status and a sentence for the visitor. Pure."""

from __future__ import annotations

from ottla.client.console.views.asked import BadRequest
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import (
    AuthenticationFailed,
    ClientError,
    RequestRefused,
    TransportError,
    UnsupportedByBroker,
)

BAD_REQUEST = 400
UNAUTHORIZED = 401
FORBIDDEN = 403
NOT_FOUND = 404
CONFLICT = 409
TOO_LARGE = 413
TOO_MANY = 429
NOT_IMPLEMENTED = 501
BAD_GATEWAY = 502
MISSING = frozenset(
    {
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.INVALID_TOPIC_EXCEPTION,
        ErrorCode.GROUP_ID_NOT_FOUND,
        ErrorCode.TRANSACTIONAL_ID_NOT_FOUND,
        ErrorCode.BROKER_NOT_AVAILABLE,
    }
)


class Refused(Exception):
    """The console itself refuses a request.

    ``status`` is the HTTP status; ``retry_after_s`` says when another attempt may succeed."""

    def __init__(self, status: int, sentence: str, retry_after_s: int | None = None) -> None:
        super().__init__(sentence)
        self.status = status
        self.retry_after_s = retry_after_s


# Expected errors of a page; every other error is a bug of the console.
EXPECTED = (Refused, BadRequest, ClientError)


def status_of(error: Exception) -> int:
    """Return the HTTP status for an error."""
    if isinstance(error, Refused):
        return error.status
    if isinstance(error, ValueError):
        return BAD_REQUEST
    if isinstance(error, AuthenticationFailed):
        return UNAUTHORIZED
    if isinstance(error, RequestRefused):
        if error.code in MISSING:
            return NOT_FOUND
        return FORBIDDEN if error.code.name.endswith("AUTHORIZATION_FAILED") else CONFLICT
    return NOT_IMPLEMENTED if isinstance(error, UnsupportedByBroker) else BAD_GATEWAY


def sentence_of(error: Exception) -> str:
    """Return the error as a sentence, with what to do if that is known."""
    if isinstance(error, RequestRefused):
        if error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and error.topic is not None:
            what = f"topic {error.topic!r} "
            if error.partition is not None:
                return f"{what}has no partition {error.partition}"
            return f"{what}does not exist, or you may not see it"
        return str(error)
    if isinstance(error, AuthenticationFailed):
        return f"{error}; log in with a user of the cluster"
    if isinstance(error, TransportError):
        return f"the cluster does not answer: {error}"
    return str(error)
