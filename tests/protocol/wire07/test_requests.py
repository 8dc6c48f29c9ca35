"""Requests and answers of 0.7, byte for byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, RemoteProtocolError
from ottla.protocol.wire07.answers import (
    Error07,
    Fetched07,
    encode_fetched,
    encode_many_fetched,
    encode_offsets,
    error_of,
)
from ottla.protocol.wire07.requests import (
    Fetch07,
    Kind07,
    Offsets07,
    Produce07,
    Request07,
    decode_request,
)
from tests.protocol.wire07.client_07 import message_07

TOPIC = "0001 74"
FETCH = f"{TOPIC} 00000002 0000000000000100 00010000"
VECTORS = {
    f"0000 {TOPIC} 00000001 00000002 abcd": Request07(
        Kind07.PRODUCE, [Produce07("t", 1, memoryview(b"\xab\xcd"))]
    ),
    f"0001 {FETCH}": Request07(Kind07.FETCH, [Fetch07("t", 2, 256, 65536)]),
    f"0002 0002 {FETCH} 0002 7575 ffffffff 0000000000000000 00000001": Request07(
        Kind07.MULTIFETCH, [Fetch07("t", 2, 256, 65536), Fetch07("uu", -1, 0, 1)]
    ),
    "0002 0000": Request07(Kind07.MULTIFETCH, []),
    f"0003 0002 {TOPIC} ffffffff 00000001 ab 0000 00000000 00000000": Request07(
        Kind07.MULTIPRODUCE,
        [Produce07("t", -1, memoryview(b"\xab")), Produce07("", 0, memoryview(b""))],
    ),
    f"0004 {TOPIC} 00000000 fffffffffffffffe 00000001": Request07(
        Kind07.OFFSETS, [Offsets07("t", 0, -2, 1)]
    ),
}


@pytest.mark.parametrize("text", VECTORS)
def test_each_request_is_read(text: str) -> None:
    """There is no version, no correlation id and no client id."""
    assert decode_request(memoryview(bytes.fromhex(text))) == VECTORS[text]


@pytest.mark.parametrize("text", VECTORS)
def test_a_request_that_is_too_short_or_too_long_is_refused(text: str) -> None:
    """A client that counts otherwise than the broker has to hear of it at once."""
    whole = bytes.fromhex(text)
    for cut in (*(whole[:size] for size in range(len(whole))), whole + b"\0"):
        with pytest.raises(RemoteProtocolError):
            decode_request(memoryview(cut))


@pytest.mark.parametrize(
    "text",
    [
        *("0005", "0012 0000", "ffff", "0002 ffff", "0001 ffff", "0001 0002 ff", "0001 0001 ff"),
        f"0000 {TOPIC} 00000000 ffffffff",
    ],
)
def test_what_0_7_does_not_have_is_refused(text: str) -> None:
    """A client of today that asks for the versions (key 18) is told by a closed connection."""
    with pytest.raises(RemoteProtocolError):
        decode_request(memoryview(bytes.fromhex(text)))


@given(st.binary(max_size=64))
def test_no_request_raises_anything_else(data: bytes) -> None:
    """The listener closes the connection for this error; any other is a bug."""
    try:
        decode_request(memoryview(data))
    except RemoteProtocolError:
        return


def test_the_answer_to_fetch_is_an_error_and_messages() -> None:
    """The network puts the total length in front."""
    assert encode_fetched(Fetched07(Error07.NONE, message_07(b"abc"))) == bytes.fromhex(
        "0000 00000008 00 352441c2 616263"
    )
    assert encode_fetched(Fetched07(Error07.UNKNOWN)) == bytes.fromhex("ffff")


def test_the_answer_to_multifetch_has_an_answer_for_each_part() -> None:
    """Each has its length and its error, in the order of the request."""
    parts = [
        Fetched07(Error07.NONE, message_07(b"abc")),
        Fetched07(Error07.OFFSET_OUT_OF_RANGE),
        Fetched07(Error07.NONE),
    ]

    assert encode_many_fetched(parts) == bytes.fromhex(
        "0000 0000000e 0000 00000008 00 352441c2 616263 00000002 0001 00000002 0000"
    )


def test_the_answer_to_offsets_is_an_error_a_count_and_positions() -> None:
    """The largest first; nothing is counted beside an error."""
    assert encode_offsets(Error07.NONE, [256, 0]) == bytes.fromhex(
        "0000 00000002 0000000000000100 0000000000000000"
    )
    assert encode_offsets(Error07.WRONG_PARTITION) == bytes.fromhex("0003 00000000")


def test_errors_of_today_have_a_number_of_0_7() -> None:
    """What 0.7 has no number for is -1, its unknown error."""
    assert [error_of(code) for code in (0, 1, 2, 3, 4, 5, 6)] == [0, 1, 2, 3, 4, 3, 3]
    assert error_of(ErrorCode.TOPIC_AUTHORIZATION_FAILED) is Error07.UNKNOWN
