"""PLAIN: what a token may be, and that no client becomes another user with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.sasl.plain import PlainClient, parse_plain
from ottla.protocol.secret import Secret

if TYPE_CHECKING:
    from ottla.protocol.sasl.exchange import ClientExchange

NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)


@given(
    NAMES.filter(lambda text: len(text.encode()) <= 255), st.text("aä€", min_size=1, max_size=80)
)
def test_the_broker_reads_what_the_client_writes(user: str, password: str) -> None:
    """Any name and password, in UTF-8."""
    client: ClientExchange = PlainClient(user, Secret(password))

    login = parse_plain(client.first())

    assert login.user == user
    assert login.password.reveal() == password
    assert client.next(b"") is None


def test_an_authorization_id_may_repeat_the_user() -> None:
    """Some clients send one."""
    assert parse_plain(b"alice\0alice\0secret").user == "alice"


@pytest.mark.parametrize(
    ("token", "reason"),
    [
        (b"", "1 parts"),
        (b"alice\0secret", "2 parts"),
        (b"\0alice\0secret\0", "4 parts"),
        (b"\0alice\0sec\0ret", "4 parts"),
        (b"\0\0secret", "lacks"),
        (b"\0alice\0", "lacks"),
        (b"root\0alice\0secret", "authorization id"),
        (b"Alice\0alice\0secret", "authorization id"),
        (b"alice \0alice\0secret", "authorization id"),
        (b"\0al\xc0\x80ice\0secret", "UTF-8"),
        (b"\0alice\0\xff", "UTF-8"),
        (b"\0" + b"a" * 256 + b"\0secret", "255 bytes"),
        (b"\0alice\0" + b"a" * 256, "255 bytes"),
        (b"\0alice\0" + b"a" * 100_000, "too long"),
    ],
)
def test_a_malformed_token_is_refused(token: bytes, reason: str) -> None:
    """A client that could name another authorization id would be that user (CVE-2017-12610)."""
    with pytest.raises(KafkaError, match=reason) as caught:
        parse_plain(token)

    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


@given(st.binary(max_size=40))
def test_any_bytes_are_a_login_or_refused(token: bytes) -> None:
    """A stranger sends what it likes."""
    try:
        login = parse_plain(token)
    except KafkaError as error:
        code = error.code
    else:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert login.user
        assert login.password
    assert code is ErrorCode.SASL_AUTHENTICATION_FAILED


@pytest.mark.parametrize(("user", "password"), [("a\0b", "c"), ("a", "b\0c")])
def test_a_client_refuses_a_nul_character(user: str, password: str) -> None:
    """It would end a part early and make a token of another user."""
    with pytest.raises(KafkaError, match="NUL"):
        PlainClient(user, Secret(password))


def test_a_client_does_not_answer_a_challenge() -> None:
    """PLAIN has none; what asks for one is not a broker."""
    client = PlainClient("a", Secret("b"))
    client.first()

    with pytest.raises(KafkaError, match="challenge"):
        client.next(b"more")


def test_a_password_is_not_shown() -> None:
    """The login is what a failing handler has at hand."""
    assert "secret" not in repr(parse_plain(b"\0alice\0secret"))
