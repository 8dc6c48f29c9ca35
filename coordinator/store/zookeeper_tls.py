"""TLS to ZooKeeper; its files are read once, when the store is opened."""

from __future__ import annotations

import ssl

from ottla.protocol.named_tuples import NamedTuple


class Tls(NamedTuple):
    """PEM files. ``trusted``: authorities, None for the system's; ``own``: this broker's key and
    certificate; ``checks_name``: whether a server's certificate must be for its name or address."""

    trusted: str | None = None
    own: str | None = None
    password: str | None = None
    checks_name: bool = True


def tls_context(tls: Tls) -> ssl.SSLContext:
    """Return the SSL context of the connections. Raises ValueError if a file cannot be used."""
    path = tls.trusted or "the system's authorities"
    try:
        context = ssl.create_default_context(cafile=tls.trusted)
        context.check_hostname = tls.checks_name
        if tls.own is not None:
            path = tls.own
            # Without this, ssl would ask for a password at the terminal and block.
            context.load_cert_chain(path, password=tls.password or "")
    except OSError as error:
        raise ValueError(f"TLS to ZooKeeper: {path}: {error.strerror or error}") from error
    return context
