"""Headers: which form belongs to which API and version, on both sides of the wire."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.apis import API, ApiKey
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    is_flexible,
    write_response_header,
)

APIS = st.sampled_from([(key, version) for key, spec in API.items() for version in spec.versions])
INT32 = st.integers(-(1 << 31), (1 << 31) - 1)
CLIENT_IDS = st.none() | st.text(max_size=20) | st.just("c" * 126) | st.just("c" * 300)


def _encoded(header: RequestHeader) -> bytearray:
    out = bytearray()
    encode_request_header(out, header)
    return out


@given(api=APIS, correlation_id=INT32, client_id=CLIENT_IDS, body=st.binary(max_size=9))
def test_a_request_header_is_read_as_it_was_written(
    api: tuple[int, int], correlation_id: int, client_id: str | None, body: bytes
) -> None:
    """The body starts where the header ends; one byte off and every request is garbage."""
    nameless = api == (ApiKey.CONTROLLED_SHUTDOWN, 0)
    header = RequestHeader(*api, correlation_id, None if nameless else client_id)
    frame = _encoded(header) + (body or b"\0\0")

    decoded, position = decode_request_header(memoryview(frame))

    assert decoded == header
    assert frame[position:] == (body or b"\0\0")


@pytest.mark.parametrize(
    ("header", "encoded"),
    [
        (RequestHeader(7, 0, 5, None), "0007 0000 00000005"),
        (RequestHeader(7, 1, 5, "me"), "0007 0001 00000005 0002 6d65"),
        (RequestHeader(0, 8, 5, "me"), "0000 0008 00000005 0002 6d65"),
        (RequestHeader(0, 9, 5, "me"), "0000 0009 00000005 0002 6d65 00"),
        (RequestHeader(18, 3, 5, None), "0012 0003 00000005 ffff 00"),
        (RequestHeader(17, 1, 5, ""), "0011 0001 00000005 0000"),
        (RequestHeader(47, 0, 5, ""), "002f 0000 00000005 0000"),
    ],
)
def test_a_request_header_has_the_form_of_its_version(header: RequestHeader, encoded: str) -> None:
    """A flexible version adds tags, yet the client id keeps its two length bytes (KIP-482)."""
    assert _encoded(header) == bytes.fromhex(encoded)


def test_the_oldest_header_has_no_client_id() -> None:
    """The first bytes of the body would be taken for the length of one."""
    body = (3).to_bytes(4, "big")

    header, position = decode_request_header(bytes.fromhex("0007 0000 00000005") + body)

    assert header == (7, 0, 5, None)
    assert position == 8


@pytest.mark.parametrize(
    ("api_key", "api_version", "encoded"),
    [(3, 8, "00000009"), (3, 9, "00000009 00"), (18, 0, "00000009"), (18, 3, "00000009")],
)
def test_a_response_to_api_versions_never_has_tags(
    api_key: int, api_version: int, encoded: str
) -> None:
    """A client asks before it knows the broker, so it must be able to read any answer (KIP-511)."""
    out = bytearray()
    write_response_header(out, api_key, api_version, 9)

    assert out == bytes.fromhex(encoded)
    assert decode_response_header(out, api_key, api_version) == (9, len(out))


def test_unknown_tags_in_headers_are_skipped() -> None:
    """A later header may carry more without a new version."""
    request = bytes.fromhex("0003 0009 00000005 0001 63 02 00 02 aaaa 05 00") + b"body"
    response = bytes.fromhex("00000007 01 04 03 bbbbbb") + b"body"

    header, position = decode_request_header(request)
    correlation_id, response_position = decode_response_header(response, 3, 9)

    assert (header.client_id, request[position:]) == ("c", b"body")
    assert (correlation_id, response[response_position:]) == (7, b"body")


@pytest.mark.parametrize("api_key", [-1, 58, 99, 32767])
def test_the_header_of_an_unknown_api_can_be_answered(api_key: int) -> None:
    """The refusal has to carry the correlation id of what it refuses."""
    frame = _encoded(RequestHeader(api_key, 4, 77, "client"))

    header, _ = decode_request_header(frame)

    assert header == (api_key, 4, 77, "client")


def test_a_version_above_all_others_has_the_newest_header() -> None:
    """ApiVersions is answered at any version, so its header must be found at any version."""
    frame = _encoded(RequestHeader(ApiKey.API_VERSIONS, 99, 1, "c"))

    assert decode_request_header(frame)[0].api_version == 99
    assert is_flexible(ApiKey.API_VERSIONS, 99)
    assert not is_flexible(ApiKey.API_VERSIONS, -1)


@pytest.mark.parametrize("header", [RequestHeader(3, 9, 5, "client"), RequestHeader(3, 1, 5, "cl")])
def test_a_cut_header_is_refused(header: RequestHeader) -> None:
    """Any process can send the first bytes of a connection."""
    frame = bytes(_encoded(header))

    for cut in range(len(frame)):
        with pytest.raises(RemoteProtocolError, match="request header"):
            decode_request_header(frame[:cut])
    for cut in range(5):
        with pytest.raises(RemoteProtocolError, match="response header"):
            decode_response_header(bytes(cut), 3, 9)


@pytest.mark.parametrize(
    "frame",
    [
        "0003 0001 00000005 0002 ff fe",
        "0003 0001 00000005 7fff 61",
        "0003 0009 00000005 0000 ff ff ff ff ff ff",
        "0003 0009 00000005 0000 01 00 ff ff ff ff 0f",
    ],
    ids=["not utf-8", "long name", "endless count", "huge tag"],
)
def test_a_hostile_header_is_refused(frame: str) -> None:
    """Every length in it is the sender's claim (hazard N-03)."""
    with pytest.raises(RemoteProtocolError):
        decode_request_header(bytes.fromhex(frame))


@given(st.binary(max_size=64))
def test_any_bytes_are_a_header_or_refused(frame: bytes) -> None:
    """There is no third way out of the first function that sees a stranger's bytes."""
    try:
        _, position = decode_request_header(frame)
    except RemoteProtocolError:
        return

    assert position <= len(frame)
