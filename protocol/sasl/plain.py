"""SASL/PLAIN (RFC 4616): one token with the user's name and password.

The token is UTF-8: authorization id, user and password, separated by NUL. An authorization id may
only repeat the user: a client that could name another one would be that user (CVE-2017-12610).
"""

from __future__ import annotations

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.exchange import CREDENTIAL_BYTES_MAX, PLAIN, failed
from ottla.protocol.secret import Secret

_PARTS = 3


class PlainLogin(NamedTuple):
    """The user that the client claims to be, and its password."""

    user: str
    password: Secret


def parse_plain(token: bytes) -> PlainLogin:
    """Parse the client's token. Raises KafkaError."""
    if len(token) > _PARTS * CREDENTIAL_BYTES_MAX + _PARTS - 1:
        raise failed("the PLAIN token is too long")
    parts = token.split(b"\0")
    if len(parts) != _PARTS:
        raise failed(f"the PLAIN token has {len(parts)} parts instead of {_PARTS}")
    try:
        authorization_id, user, password = (part.decode("utf-8", "strict") for part in parts)
    except UnicodeDecodeError:
        raise failed("the PLAIN token is not UTF-8") from None
    if not user or not password:
        raise failed("the PLAIN token lacks a user or a password")
    if any(len(part) > CREDENTIAL_BYTES_MAX for part in parts):
        raise failed(f"the PLAIN token has a part of more than {CREDENTIAL_BYTES_MAX} bytes")
    if authorization_id and authorization_id != user:
        raise failed("the client asks for an authorization id that is not its user")
    return PlainLogin(user, Secret(password))


class PlainClient:
    """The client's side.

    Args:
        user: Without NUL.
        password: Without NUL.
    """

    mechanism = PLAIN

    def __init__(self, user: str, password: Secret) -> None:
        if "\0" in user or "\0" in password.reveal():
            raise failed("a user or a password contains a NUL character")
        self._token = Secret(f"\0{user}\0{password.reveal()}")

    def first(self) -> bytes:
        """The only token."""
        return self._token.reveal().encode()

    def next(self, challenge: bytes) -> bytes | None:
        """None: the broker's answer ends the exchange."""
        if challenge:
            raise failed("the broker sends a challenge, which PLAIN does not have")
        return None
