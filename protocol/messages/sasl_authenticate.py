"""SaslAuthenticate (key 36), versions 0-2: one step of a SASL exchange (KIP-152).

1 tells how long the session lasts (KIP-368), 2 is flexible.
"""

from ottla.protocol.schema import blob, int16, int64, message, string


@message("0-2", flexible="2+")
class SaslAuthenticateRequest:
    auth_bytes: bytes = blob()


@message("0-2", flexible="2+")
class SaslAuthenticateResponse:
    error_code: int = int16()
    error_message: str | None = string(nullable="0+")
    auth_bytes: bytes = blob()
    session_lifetime_ms: int = int64("1+", ignorable=True)
