"""SASL/OAUTHBEARER (RFC 7628): one token from the client, which a third party has signed.

What the token says is checked elsewhere. A broker that refuses it answers in JSON, the client
acknowledges that with one byte, and only then the login has failed.
"""

from __future__ import annotations

import json
import re

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.sasl.exchange import OAUTHBEARER, failed
from ottla.protocol.secret import Secret

ACKNOWLEDGEMENT = b"\x01"
_SEPARATOR = "\x01"
_AUTHORIZATION = "auth"
_BEARER = re.compile(r"[Bb][Ee][Aa][Rr][Ee][Rr] +([-_~+/.a-zA-Z0-9]+=*)", re.ASCII)
_KEY = re.compile(r"[A-Za-z]+", re.ASCII)
_VALUE = re.compile(r"[\x21-\x7e \t\r\n]+")
_AUTHORIZATION_ID = re.compile(r"(?:[^\0=,]|=2C|=3D)+")


class BearerLogin(NamedTuple):
    """A client's token, and the user that it claims to be; empty for the user in the token."""

    token: Secret
    authorization_id: str
    extensions: dict[str, str]


def parse_bearer(message: bytes) -> BearerLogin:
    """Parse the client's first message. Raises KafkaError."""
    try:
        text = bytes(message).decode("utf-8", "strict")
    except UnicodeDecodeError:
        raise failed("the OAUTHBEARER message is not UTF-8") from None
    header, separator, rest = text.partition(_SEPARATOR)
    if not header.startswith("n,") or not header.endswith(",") or not separator:
        raise failed("the OAUTHBEARER message has no GS2 header without channel binding")
    written = header[2:-1]
    if written and not (written.startswith("a=") and _AUTHORIZATION_ID.fullmatch(written[2:])):
        raise failed("the OAUTHBEARER message has a malformed authorization id")
    authorization_id = written[2:].replace("=2C", ",").replace("=3D", "=")
    if not rest.endswith(_SEPARATOR * 2):
        raise failed("the OAUTHBEARER message does not end where it should")
    pairs: dict[str, str] = {}
    for pair in rest[:-2].split(_SEPARATOR):
        key, _, value = pair.partition("=")
        if not _KEY.fullmatch(key) or not _VALUE.fullmatch(value) or key in pairs:
            raise failed("the OAUTHBEARER message has a malformed or repeated key")
        pairs[key] = value
    match = _BEARER.fullmatch(pairs.pop(_AUTHORIZATION, ""))
    if match is None:
        raise failed("the OAUTHBEARER message has no bearer token")
    return BearerLogin(Secret(match[1]), authorization_id, pairs)


def refusal(status: str, scope: str = "") -> bytes:
    """Return the answer of the broker to a token that it refuses."""
    said = {"status": status, "scope": scope} if scope else {"status": status}
    return json.dumps(said).encode()


class BearerClient:
    """The client's side.

    Args:
        token: The token that its issuer has given to the client.
        extensions: More keys and values for the broker, which Kafka calls SASL extensions.
    """

    mechanism = OAUTHBEARER

    def __init__(self, token: Secret, extensions: dict[str, str] | None = None) -> None:
        if not _BEARER.fullmatch(f"Bearer {token.reveal()}"):
            raise failed("the token is empty or has characters that a bearer token cannot have")
        for key, value in (extensions or {}).items():
            if key == _AUTHORIZATION or not _KEY.fullmatch(key) or not _VALUE.fullmatch(value):
                raise failed(f"the SASL extension {key!r} has a name or value that is not allowed")
        self._token = token
        self._extensions = dict(extensions or {})
        self._refusal = ""

    def first(self) -> bytes:
        """The token and the extensions."""
        pairs = {_AUTHORIZATION: f"Bearer {self._token.reveal()}", **self._extensions}
        body = "".join(f"{key}={value}{_SEPARATOR}" for key, value in pairs.items())
        return f"n,,{_SEPARATOR}{body}{_SEPARATOR}".encode()

    def next(self, challenge: bytes) -> bytes | None:
        """None if the broker accepts the token. What it says of a refused one is acknowledged,
        after which the broker ends the login. Raises KafkaError."""
        if not challenge:
            return None
        if self._refusal:
            raise failed(f"the broker refuses the token: {self._refusal}")
        self._refusal = bytes(challenge[:200]).decode("utf-8", "replace")
        return ACKNOWLEDGEMENT
