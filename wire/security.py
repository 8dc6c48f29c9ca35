"""Security of a connection: encryption and login before its first request."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from ottla.wire.sasl import ClientSasl
    from ottla.wire.tls.client_tls import ClientTls


@dataclass(frozen=True, slots=True)
class ConnectionSecurity:
    """``tls``: None for plaintext. ``sasl``: None for no login."""

    tls: ClientTls | None = None
    sasl: ClientSasl | None = None


PLAINTEXT = ConnectionSecurity()


def protocol_of(security: ConnectionSecurity) -> str:
    """Kafka's name of it, such as SASL_SSL."""
    transport = "PLAINTEXT" if security.tls is None else "SSL"
    return transport if security.sasl is None else f"SASL_{transport}"


def not_plaintext(security: ConnectionSecurity) -> str:
    """What a client without TLS has to set, whose broker uses it; one that logs in still does."""
    is_login = security.sasl is not None
    wanted = "SASL_SSL" if is_login else "SSL, or SASL_SSL if it wants a login"
    return (
        f"it speaks TLS on this port: set security.protocol to {wanted} (and "
        "ssl.truststore.location to a PEM file with the authority of its certificate), or use the "
        f"port of a {'SASL_PLAINTEXT' if is_login else 'PLAINTEXT'} listener"
    )
