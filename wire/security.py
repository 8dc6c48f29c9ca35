"""What a connection needs before its first request: encryption and a login."""

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
