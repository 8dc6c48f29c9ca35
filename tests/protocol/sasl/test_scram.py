"""SCRAM against the examples of the RFCs, and against every change of a byte."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.sasl.scram import ScramClient, ScramServer
from ottla.protocol.sasl.scram_record import (
    SCRAM_BY_NUMBER,
    SCRAM_MECHANISMS,
    SCRAM_SHA_256,
    SCRAM_SHA_512,
    ScramMechanism,
    ScramRecord,
    is_password,
    parse_record,
    record_of,
    unknown_user_record,
)
from ottla.protocol.secret import Secret

PENCIL = Secret("pencil")
SHA_1 = ScramMechanism("SCRAM-SHA-1", 0, "sha1")
# RFC 5802 section 5, RFC 7677 section 3.
EXAMPLES = {
    SHA_1: (
        "fyko+d2lbbFgONRv9qkxdawL",
        "3rfcNHYJY1ZVvWVs7j",
        "QSXCR+Q6sek8bf92",
        "v0X8v3Bz2T0CJGbJQyF0X+HI4Ts=",
        "rmF9pqV8S7suAoZWja4dJRkFsKQ=",
    ),
    SCRAM_SHA_256: (
        "rOprNGfwEbeRWgbNEkqO",
        "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0",
        "W22ZaJ0SNY7soEsUEjb6gQ==",
        "dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=",
        "6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=",
    ),
}
SALT = b"0123456789abcdef"
# Made once: each is 4096 rounds of a hash.
RECORDS = {one: record_of(one, PENCIL, SALT) for one in SCRAM_MECHANISMS.values()}


def logged_in(client: ScramClient, server: ScramServer, record: ScramRecord) -> tuple[str, bool]:
    """The messages of a whole login, and whose it was."""
    user, is_token = server.claim(client.first())
    proof = client.next(server.challenge(record, is_genuine=True))
    assert proof is not None
    assert client.next(server.finish(proof)) is None
    return user, is_token


def refused(reason: str) -> pytest.RaisesExc[KafkaError]:
    return pytest.raises(KafkaError, match=reason)


@pytest.mark.parametrize("mechanism", EXAMPLES, ids=lambda one: one.name)
def test_both_sides_send_the_messages_of_the_rfc(mechanism: ScramMechanism) -> None:
    """The examples are the only ones that no implementation of ours has made."""
    client_nonce, server_nonce, salt, proof, signature = EXAMPLES[mechanism]
    record = record_of(mechanism, PENCIL, base64.b64decode(salt), 4096)
    client = ScramClient(mechanism, "user", PENCIL, client_nonce)
    server = ScramServer(mechanism, server_nonce)
    nonce = client_nonce + server_nonce

    first = client.first()
    assert first == f"n,,n=user,r={client_nonce}".encode()
    assert server.claim(first) == ("user", False)
    challenge = server.challenge(record, is_genuine=True)
    assert challenge == f"r={nonce},s={salt},i=4096".encode()
    final = client.next(challenge)
    assert final == f"c=biws,r={nonce},p={proof}".encode()
    last = server.finish(final)
    assert last == f"v={signature}".encode()
    assert client.next(last) is None


@pytest.mark.parametrize("user", ["alice", "a,b", "a=b", "=2C", "ユーザー", "a b", "n=x,r=y"])
@pytest.mark.parametrize("mechanism", RECORDS, ids=lambda one: one.name)
def test_a_name_arrives_as_it_was_written(mechanism: ScramMechanism, user: str) -> None:
    """A name that changes on its way is another user's name."""
    client = ScramClient(mechanism, user, PENCIL, "abc")

    assert logged_in(client, ScramServer(mechanism, "xyz"), RECORDS[mechanism]) == (user, False)


def test_a_token_is_told_from_a_user() -> None:
    """The id of a token and a user of the same name are two principals."""
    client = ScramClient(SCRAM_SHA_256, "id", PENCIL, "abc", is_token=True)

    assert client.first() == b"n,,n=id,r=abc,tokenauth=true"
    assert logged_in(client, ScramServer(SCRAM_SHA_256, "xyz"), RECORDS[SCRAM_SHA_256])[1]


@pytest.mark.parametrize(
    ("first", "reason"),
    [
        (b"p=tls-unique,,n=a,r=b", "channel binding"),
        (b"x,,n=a,r=b", "channel binding"),
        (b"", "channel binding"),
        (b"n,", "ends in its header"),
        (b"n,,", "no user"),
        (b"n,,n=a", "no user"),
        (b"n,,r=b,n=a", "no user"),
        (b"n,,m=x,n=a,r=b", "no user"),
        (b"n,,n=,r=b", "empty"),
        (b"n,,n=a=2c,r=b", "escape"),
        (b"n,,n=a=41,r=b", "escape"),
        (b"n,,n=a,r=", "attribute r"),
        (b"n,,n=a,r=b c", "attribute r"),
        (b"n,,n=a,r=b,r=c", "extension"),
        (b"n,,n=a,r=b,m=c", "extension"),
        (b"n,,n=a,r=b,x=1,x=2", "extension"),
        (b"n,,n=a,r=b,", "extension"),
        (b"n,a=root,n=a,r=b", "authorization id"),
        (b"n,a=A,n=a,r=b", "authorization id"),
        (b"n,a=a ,n=a,r=b", "authorization id"),
        (b"n,a,n=a,r=b", "authorization id"),
        (b"n,,n=a\0b,r=b", "NUL"),
        (b"n,,n=\xc0\xaf,r=b", "UTF-8"),
        (b"n,,n=" + b"a" * 5000 + b",r=b", "bytes"),
    ],
)
def test_a_malformed_first_message_is_refused(first: bytes, reason: str) -> None:
    """What a lenient parser reads in two ways is how a client becomes another user."""
    with refused(reason) as caught:
        ScramServer(SCRAM_SHA_256, "xyz").claim(first)

    assert caught.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def exchange(flip: tuple[int, int, int]) -> None:
    """A login in which one byte of one message is another; raises KafkaError somewhere."""
    number, index, mask = flip
    client = ScramClient(SCRAM_SHA_256, "user", PENCIL, "clientnonce")
    server = ScramServer(SCRAM_SHA_256, "servernonce")

    def sent(message: bytes | None, this: int) -> bytes:
        assert message is not None
        if this != number:
            return message
        changed = bytearray(message)
        changed[index % len(message)] ^= mask
        return bytes(changed)

    claim = server.claim(sent(client.first(), 0))
    record = RECORDS[SCRAM_SHA_256]
    challenge = server.challenge(record, is_genuine=claim.user == "user")
    proof = client.next(sent(challenge, 1))
    assert client.next(sent(server.finish(sent(proof, 2)), 3)) is None


@pytest.mark.parametrize("number", range(4))
def test_every_flipped_byte_of_every_message_ends_the_login(number: int) -> None:
    """Without TLS the messages cross the network in the open."""
    # The client's first message has 27 bytes, the others 59, 79 and 46.
    for index in range(80):
        with pytest.raises(KafkaError):
            exchange((number, index, 1 << index % 7))


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 3), st.integers(0, 200), st.integers(1, 255))
def test_any_change_of_a_byte_ends_the_login(number: int, index: int, mask: int) -> None:
    """The same with all values of a byte."""
    with pytest.raises(KafkaError):
        exchange((number, index, mask))


@settings(max_examples=300, deadline=None)
@given(
    st.lists(
        st.sampled_from([b"n", b"y", b"p=", b"a=", b"n=", b"r=", b"m=", b"c=", b"p="])
        | st.binary(max_size=4)
        | st.just(b","),
        max_size=12,
    )
)
def test_any_bytes_are_claimed_or_refused(parts: list[bytes]) -> None:
    """A stranger sends what it likes; the broker answers with the one error."""
    message = b"".join(parts)
    try:
        claim = ScramServer(SCRAM_SHA_256, "xyz").claim(message)
    except KafkaError as error:
        code = error.code
    else:
        code = ErrorCode.SASL_AUTHENTICATION_FAILED
        assert claim.user
        assert message.startswith((b"n,", b"y,"))
    assert code is ErrorCode.SASL_AUTHENTICATION_FAILED


def proof_with(**changes: str) -> bytes:
    """A right final message, with other attributes where they are given."""
    client = ScramClient(SCRAM_SHA_256, "user", PENCIL, "abc")
    server = ScramServer(SCRAM_SHA_256, "xyz")
    server.claim(client.first())
    final = client.next(server.challenge(RECORDS[SCRAM_SHA_256], is_genuine=True))
    assert final is not None
    pairs = dict(item.split("=", 1) for item in final.decode().split(","))
    return ",".join(f"{key}={value}" for key, value in {**pairs, **changes}.items()).encode()


@pytest.mark.parametrize(
    ("final", "reason"),
    [
        (proof_with(r="abc"), "nonce"),
        (proof_with(r="xyz"), "nonce"),
        (proof_with(r="abcxy"), "nonce"),
        (proof_with(r="Xabcxyz"), "nonce"),
        (proof_with(r="abcxyzz"), "nonce"),
        (proof_with(c="eSws"), "another header"),
        (proof_with(c="biw="), "another header"),
        (proof_with(c="biwt"), "another header"),
        (proof_with(p="AAAA"), "length"),
        (proof_with(p=""), "length"),
        (proof_with(p="%"), "base64"),
        (proof_with(p="A" * 42 + "B="), "canonical"),
        (proof_with(p="A" * 43 + "="), "wrong"),
        (b"c=biws,r=abcxyz", "no proof"),
        (b"r=abcxyz,c=biws,p=AAAA", "channel binding"),
        (b"", "no proof"),
    ],
)
def test_a_wrong_final_message_is_refused(final: bytes, reason: str) -> None:
    """A nonce that merely ends in the broker's let a proof be used twice (CVE-2024-56128)."""
    server = ScramServer(SCRAM_SHA_256, "xyz")
    server.claim(b"n,,n=user,r=abc")
    server.challenge(RECORDS[SCRAM_SHA_256], is_genuine=True)

    with refused(reason):
        server.finish(final)


def test_a_recorded_login_cannot_be_repeated() -> None:
    """The broker's nonce is another one each time."""
    client = ScramClient(SCRAM_SHA_256, "user", PENCIL, "abc")
    server = ScramServer(SCRAM_SHA_256, "xyz")
    first = client.first()
    server.claim(first)
    proof = client.next(server.challenge(RECORDS[SCRAM_SHA_256], is_genuine=True))
    assert proof is not None

    again = ScramServer(SCRAM_SHA_256, "uvw")
    again.claim(first)
    again.challenge(RECORDS[SCRAM_SHA_256], is_genuine=True)
    with refused("nonce"):
        again.finish(proof)


@pytest.mark.parametrize("mechanism", RECORDS, ids=lambda one: one.name)
def test_an_unknown_user_sees_what_a_wrong_password_sees(mechanism: ScramMechanism) -> None:
    """Otherwise a stranger could ask the broker which users exist."""
    record = unknown_user_record(mechanism, b"key", "ghost")
    again = unknown_user_record(mechanism, b"key", "ghost")
    client = ScramClient(mechanism, "ghost", PENCIL, "abc")
    server = ScramServer(mechanism, "xyz")
    server.claim(client.first())
    proof = client.next(server.challenge(record, is_genuine=False))
    assert proof is not None

    with refused("unknown or the password is wrong"):
        server.finish(proof)
    assert record == again
    assert record.salt != unknown_user_record(mechanism, b"key", "other").salt
    assert len(record.salt) == 16
    assert record.iterations == 4096


def test_a_made_up_record_lets_no_user_in_even_with_its_proof() -> None:
    """The decision does not hang on a record that was never stored."""
    server = ScramServer(SCRAM_SHA_256, "xyz")
    client = ScramClient(SCRAM_SHA_256, "user", PENCIL, "abc")
    server.claim(client.first())
    proof = client.next(server.challenge(RECORDS[SCRAM_SHA_256], is_genuine=False))
    assert proof is not None

    with refused("unknown or the password is wrong"):
        server.finish(proof)


@pytest.mark.parametrize(
    ("challenge", "reason"),
    [
        (b"r=abcxyz,s=QUJD,i=1", "iterations"),
        (b"r=abcxyz,s=QUJD,i=4095", "iterations"),
        (b"r=abcxyz,s=QUJD,i=999999999", "iterations"),
        (b"r=abcxyz,s=QUJD,i=9999999999", "attribute i"),
        (b"r=abcxyz,s=QUJD,i=-5", "attribute i"),
        (b"r=abcxyz,s=,i=4096", "iterations"),
        (b"r=abc,s=QUJD,i=4096", "nonce"),
        (b"r=xyzabc,s=QUJD,i=4096", "nonce"),
        (b"s=QUJD,r=abcxyz,i=4096", "attribute r"),
        (b"r=abcxyz,i=4096,s=QUJD", "salt"),
        (b"r=abcxyz", "too short"),
        (b"m=x,r=abcxyz,s=QUJD,i=4096", "attribute r"),
    ],
)
def test_a_client_refuses_a_weak_or_malformed_challenge(challenge: bytes, reason: str) -> None:
    """A false broker could otherwise make the client compute for hours, or leak its password."""
    client = ScramClient(SCRAM_SHA_256, "user", PENCIL, "abc")
    client.first()

    with refused(reason):
        client.next(challenge)


@pytest.mark.parametrize("last", [b"v=AAAA", b"v=", b"", b"e=other-error", b"x"])
def test_a_client_leaves_a_broker_that_does_not_know_the_password(last: bytes) -> None:
    """SCRAM proves both sides; without this check a false broker would be believed."""
    client = ScramClient(SCRAM_SHA_256, "user", PENCIL, "abc")
    server = ScramServer(SCRAM_SHA_256, "xyz")
    server.claim(client.first())
    client.next(server.challenge(RECORDS[SCRAM_SHA_256], is_genuine=True))

    with pytest.raises(KafkaError):
        client.next(last)


@pytest.mark.parametrize("mechanism", RECORDS, ids=lambda one: one.name)
def test_a_record_is_read_as_it_was_written(mechanism: ScramMechanism) -> None:
    """The form is Kafka's: both read what the other has stored."""
    record = RECORDS[mechanism]
    text = record.text()

    assert parse_record(mechanism, text) == record
    assert text.startswith(f"salt={base64.b64encode(SALT).decode()},stored_key=")
    assert text.endswith(",iterations=4096")


@pytest.mark.parametrize(
    "text",
    [
        "",
        "salt=AA==",
        RECORDS[SCRAM_SHA_512].text(),
        RECORDS[SCRAM_SHA_256].text().replace("4096", "4095"),
        RECORDS[SCRAM_SHA_256].text().replace("4096", "16385"),
        RECORDS[SCRAM_SHA_256].text().replace("4096", "x"),
        RECORDS[SCRAM_SHA_256].text() + ",salt=AA==",
        RECORDS[SCRAM_SHA_256].text() + ",other=1",
        RECORDS[SCRAM_SHA_256].text().replace("salt=", "salt=%"),
    ],
)
def test_a_record_that_no_broker_has_written_is_refused(text: str) -> None:
    """A bad record locks one user out; the complaint does not contain the record."""
    with pytest.raises(ValueError, match="a SCRAM credential") as caught:
        parse_record(SCRAM_SHA_256, text)

    assert "stored_key=" not in str(caught.value)


def test_a_record_is_not_shown() -> None:
    """Its holder can try passwords against it."""
    shown = repr(RECORDS[SCRAM_SHA_256])

    assert shown == "ScramRecord(***, iterations=4096)"


@pytest.mark.parametrize("mechanism", RECORDS, ids=lambda one: one.name)
def test_a_record_tells_its_password_from_others(mechanism: ScramMechanism) -> None:
    """PLAIN checks passwords against the records of SCRAM, so that no password is stored."""
    assert SCRAM_BY_NUMBER[mechanism.number] is mechanism
    assert is_password(mechanism, RECORDS[mechanism], PENCIL)
    assert not is_password(mechanism, RECORDS[mechanism], Secret("Pencil"))
