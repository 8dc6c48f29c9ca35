"""The znodes of delegation tokens are Kafka's, and a bad one lets no client in."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ottla.coordinator.store.delegation_tokens import (
    CHANGES,
    TOKEN_BYTES_MAX,
    TOKENS,
    TokenInformation,
    build_change,
    build_token,
    is_token_id,
    parse_change,
    parse_token,
    path_of,
)

ID = "Zm9vYmFyYmF6cXV4LTEyMw"
TOKEN = TokenInformation(
    ID, "User:a lice/ü*~", "User:proxy", ("User:renewer", "User:x,y"), 1000, 2000, 3000
)
# As Kafka's DelegationTokenManagerZk writes it.
KAFKAS: dict[str, Any] = {
    "version": 3,
    "owner": "User%3Aa%20lice%2F%C3%BC%2A%7E",
    "tokenRequester": "User%3Aproxy",
    "renewers": ["User%3Arenewer", "User%3Ax%2Cy"],
    "issueTimestamp": 1000,
    "maxTimestamp": 3000,
    "expiryTimestamp": 2000,
    "tokenId": ID,
}


def of(**changes: Any) -> bytes:
    """Kafka's payload with changes; None takes a field away."""
    value = {**KAFKAS, **changes}
    return json.dumps({name: one for name, one in value.items() if one is not None}).encode()


def test_a_token_is_written_and_read_as_kafka_does() -> None:
    """The names of principals are quoted, the HMAC is not there."""
    assert json.loads(build_token(TOKEN)) == KAFKAS
    assert parse_token(ID, of()) == TOKEN
    assert path_of(ID) == f"{TOKENS}/{ID}" == f"/delegation_token/tokens/{ID}"
    assert CHANGES == "/delegation_token/token_changes"


@pytest.mark.parametrize("version", [1, 2])
def test_of_older_tokens_the_owner_is_the_requester(version: int) -> None:
    """Kafka before 3.3 wrote no requester."""
    found = parse_token(ID, of(version=version, tokenRequester=None))
    assert found == TOKEN._replace(requester=TOKEN.owner)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"\xff" * 20,
        b"[" * 60_000,
        b'{"version":3,"x":"' + b"x" * TOKEN_BYTES_MAX + b'"}',
        of(version=4),
        of(version=0),
        of(version="3"),
        of(owner=None),
        of(owner="alice"),
        of(owner="User:"),
        of(owner="Group:alice"),
        of(owner="User:%ff"),
        of(owner=["User:alice"]),
        of(tokenRequester=None),
        of(renewers=None),
        of(renewers=["alice"]),
        of(renewers="User:alice")[:-3],
        of(expiryTimestamp=None),
        of(expiryTimestamp=True),
        of(expiryTimestamp=1.5),
        of(maxTimestamp="3000"),
        of(maxTimestamp=2**63),
        of(tokenId="another"),
        of(tokenId=None),
    ],
)
def test_what_no_broker_has_written_is_no_token(data: bytes) -> None:
    """Neither an exception nor a login."""
    assert parse_token(ID, data) is None


def test_ids_that_would_leave_their_folder_are_none() -> None:
    """They come from announcements, and become paths."""
    for bad in ("", ".", "..", "a/b", "a\n", "ü", "a" * 65, "../config"):
        assert not is_token_id(bad)
        assert parse_token(bad, of(tokenId=bad)) is None
        assert parse_change(bad.encode()) is None
    assert parse_change(build_change(ID)) == ID
