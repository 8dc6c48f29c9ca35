"""Delegation tokens in the store's tree, in Kafka's form (KIP-48, KIP-373). Pure.

A token is one znode, ``/delegation_token/tokens/<id>``, which does not contain its HMAC: brokers
derive that from the id and the secret that they share. A sequential znode announces each change.
"""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import quote, unquote

from ottla.coordinator.store import znode
from ottla.protocol.named_tuples import NamedTuple

TOKENS = "/delegation_token/tokens"
CHANGES = "/delegation_token/token_changes"
CHANGE_PREFIX = "token_change_"

# Created by brokers with a secret for tokens, parents first.
PERMANENT_PATHS = ("/delegation_token", TOKENS, CHANGES)
# Long lists of renewers must not fill the store.
TOKEN_BYTES_MAX = 64 * 1024
USER = "User"
_VERSION = 3
_REQUESTER_VERSION = 3
_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_TIME_MAX = 2**63 - 1


class TokenInformation(NamedTuple):
    """A token without its HMAC. Principals are texts such as ``User:alice``; times are wall time.

    ``owner`` logs in with the token, ``requester`` has created it."""

    token_id: str
    owner: str
    requester: str
    renewers: tuple[str, ...]
    issue_ms: int
    expiry_ms: int
    max_ms: int

    def is_expired(self, wall_ms: float) -> bool:
        """Whether the token has expired, by Kafka's comparison."""
        return min(self.expiry_ms, self.max_ms) < wall_ms

    def is_owner_or_renewer(self, principal: str) -> bool:
        """Whether the principal may renew and expire it."""
        return principal == self.owner or principal in self.renewers


def is_token_id(name: str) -> bool:
    """Whether a token can have this id, which becomes a path."""
    return _ID.fullmatch(name) is not None


def path_of(token_id: str) -> str:
    """Return the path of a token."""
    return f"{TOKENS}/{token_id}"


def build_token(token: TokenInformation) -> bytes:
    """Return the payload of a token's znode."""
    return znode.build(
        {
            "version": _VERSION,
            "owner": _quoted(token.owner),
            "tokenRequester": _quoted(token.requester),
            "renewers": [_quoted(one) for one in token.renewers],
            "issueTimestamp": token.issue_ms,
            "maxTimestamp": token.max_ms,
            "expiryTimestamp": token.expiry_ms,
            "tokenId": token.token_id,
        }
    )


def parse_token(token_id: str, data: bytes) -> TokenInformation | None:
    """Parse the token of that id; None if it must not give access."""
    if len(data) > TOKEN_BYTES_MAX or not is_token_id(token_id):
        return None
    try:
        value = znode.parse(data)
        version = _number(value["version"])
        owner = _principal(value["owner"])
        requester = owner
        if version >= _REQUESTER_VERSION:
            requester = _principal(value["tokenRequester"])
        token = TokenInformation(
            token_id,
            owner,
            requester,
            _principals(value["renewers"]),
            _number(value["issueTimestamp"]),
            _number(value["expiryTimestamp"]),
            _number(value["maxTimestamp"]),
        )
    except (KeyError, ValueError, TypeError, RecursionError):
        return None
    is_usable = 1 <= version <= _VERSION and value.get("tokenId") == token_id
    return token if is_usable and is_user(token.owner) else None


def is_user(principal: str) -> bool:
    """Whether a token may have this owner: a login with a token always becomes a ``User``."""
    kind, _, name = principal.partition(":")
    return kind == USER and bool(name)


def build_change(token_id: str) -> bytes:
    """Return the payload of an announcement."""
    return token_id.encode()


def parse_change(data: bytes) -> str | None:
    """Return the id of the token that an announcement names."""
    text = data.decode("ascii", "replace")
    return text if is_token_id(text) else None


def _quoted(principal: str) -> str:
    """Quote a principal as Kafka does here."""
    return quote(principal, safe="").replace("~", "%7E")


def _principal(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("a principal is a text")
    text = unquote(value, errors="strict")
    if ":" not in text:
        raise ValueError("a principal has a type")
    return text


def _principals(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise TypeError("renewers are a list")
    return tuple(_principal(one) for one in value)


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _TIME_MAX:
        raise TypeError("a time is a number")
    return value
