"""OAUTHBEARER: the client's one message, and how a refused token ends."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.sasl.oauthbearer import ACKNOWLEDGEMENT, BearerClient, parse_bearer, refusal
from ottla.protocol.secret import Secret

TOKEN = Secret("eyJh.eyJz.c2ln")


def test_the_broker_reads_what_the_client_writes() -> None:
    """The token and Kafka's SASL extensions."""
    client = BearerClient(TOKEN, {"logicalCluster": "lkc-1", "pool": "p 2"})

    login = parse_bearer(client.first())

    assert login.token == TOKEN
    assert login.authorization_id == ""
    assert login.extensions == {"logicalCluster": "lkc-1", "pool": "p 2"}
    assert client.next(b"") is None


def test_an_authorization_id_is_kept_for_the_comparison_with_the_token() -> None:
    """It may only repeat the token's user."""
    login = parse_bearer(b"n,a=al=2Cice,\x01auth=Bearer abc\x01\x01")

    assert login.authorization_id == "al,ice"


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b"", "header"),
        (b"y,,\x01auth=Bearer abc\x01\x01", "header"),
        (b"p=x,,\x01auth=Bearer abc\x01\x01", "header"),
        (b"n,,auth=Bearer abc\x01\x01", "header"),
        (b"n,b=x,\x01auth=Bearer abc\x01\x01", "authorization id"),
        (b"n,a=,\x01auth=Bearer abc\x01\x01", "authorization id"),
        (b"n,,\x01auth=Bearer abc\x01", "end"),
        (b"n,,\x01auth=Bearer abc", "end"),
        (b"n,,\x01\x01", "end"),
        (b"n,,\x01\x01\x01", "key"),
        (b"n,,\x01pool=x\x01\x01", "no bearer"),
        (b"n,,\x01auth=Basic abc\x01\x01", "no bearer"),
        (b"n,,\x01auth=Bearer\x01\x01", "no bearer"),
        (b"n,,\x01auth=Bearer a b\x01\x01", "no bearer"),
        (b"n,,\x01auth=Bearer abc\x01auth=Bearer def\x01\x01", "repeated"),
        (b"n,,\x01auth=Bearer abc\x01x1=y\x01\x01", "malformed"),
        (b"n,,\x01auth=Bearer abc\x01x=\x01\x01", "malformed"),
        (b"n,,\x01auth=Bearer \xff\x01\x01", "UTF-8"),
    ],
)
def test_a_malformed_message_is_refused(message: bytes, reason: str) -> None:
    """One form, so that broker and issuer cannot read two users in it."""
    with pytest.raises(KafkaError, match=reason) as caught:
        parse_bearer(message)

    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@given(st.binary(max_size=60).map(lambda rest: b"n,,\x01auth=Bearer a" + rest))
def test_any_bytes_are_a_login_or_refused(message: bytes) -> None:
    """A stranger sends what it likes."""
    try:
        login = parse_bearer(message)
    except KafkaError as error:
        code = error.code
    else:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert login.token
    assert code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_a_client_acknowledges_a_refusal_once() -> None:
    """The broker ends the login after that; a second challenge would go on for ever."""
    client = BearerClient(TOKEN)
    client.first()

    assert client.next(refusal("invalid_token", "kafka")) == ACKNOWLEDGEMENT
    with pytest.raises(KafkaError, match="invalid_token"):
        client.next(refusal("invalid_token"))


@pytest.mark.parametrize("token", ["", "a b", "a\x01b", "a=b"])
def test_a_client_refuses_what_is_no_token(token: str) -> None:
    """It could carry more keys than the client means."""
    with pytest.raises(KafkaError, match="token"):
        BearerClient(Secret(token))


@pytest.mark.parametrize("extension", [{"auth": "x"}, {"a1": "x"}, {"a": "x\x01"}, {"a": ""}])
def test_a_client_refuses_an_extension_that_is_not_allowed(extension: dict[str, str]) -> None:
    """As Kafka's client does."""
    with pytest.raises(KafkaError, match="extension"):
        BearerClient(TOKEN, extension)
