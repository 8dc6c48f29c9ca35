"""SaslHandshake (key 17), versions 0-1: choose a SASL mechanism.

After version 0 raw tokens follow, after version 1 SaslAuthenticate requests (KIP-152). Never
flexible: clients send it before they know anything about the broker.
"""

from ottla.protocol.schema import WireType, array, int16, message, string


@message("0-1")
class SaslHandshakeRequest:
    mechanism: str = string()


@message("0-1")
class SaslHandshakeResponse:
    error_code: int = int16()
    mechanisms: list[str] = array(WireType.STRING)
