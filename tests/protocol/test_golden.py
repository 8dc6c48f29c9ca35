"""Frames that other software wrote go through our codecs and come out as they were."""

from __future__ import annotations

import pytest

from ottla.protocol import compile as codec
from ottla.protocol.apis import ApiKey
from ottla.protocol.headers import (
    RequestHeader,
    decode_request_header,
    decode_response_header,
    encode_request_header,
    write_response_header,
)
from ottla.wire.messages import request_of, response_of
from tests.protocol import reference
from tests.support.golden import GoldenFrame, golden_frames, golden_text

# librdkafka asks for all topics with an array count of the older encoding. Its first byte means
# null, the three others are taken for the fields that follow, and those are left at the end, where
# Kafka's brokers do not look.
BYTES_LEFT_BEHIND = {(ApiKey.METADATA, "confluent_kafka"): b"\1\0\0"}


def _left_behind(golden: GoldenFrame) -> bytes:
    client, _, _version = golden.client.rpartition("_")
    return BYTES_LEFT_BEHIND.get((golden.api_key, client), b"")


def _header_and_type(golden: GoldenFrame) -> tuple[bytearray, int, type[object]]:
    """The header written anew, where the body starts, and what the body is."""
    key, version, header = golden.api_key, golden.api_version, bytearray()
    if golden.side == "request":
        decoded, position = decode_request_header(golden.frame)
        assert decoded[:2] == (key, version)
        encode_request_header(header, RequestHeader(*decoded))
        return header, position, request_of(key)
    correlation_id, position = decode_response_header(golden.frame, key, version)
    write_response_header(header, key, version, correlation_id)
    return header, position, response_of(key)


@pytest.mark.parametrize("golden", golden_frames(), ids=str)
def test_a_frame_of_a_foreign_client_is_understood_to_the_byte(golden: GoldenFrame) -> None:
    """What is decoded and encoded again is the same: no field was lost, moved or invented."""
    header, position, declared = _header_and_type(golden)
    _message, end = codec.decoder(declared, golden.api_version)(memoryview(golden.frame), position)
    assert golden.frame[end:] in (b"", _left_behind(golden))
    body = golden.frame[position:end]
    message = codec.decode(declared, golden.api_version, body)

    assert header == golden.frame[:position]
    assert codec.encode(message, golden.api_version) == body
    assert reference.decode(declared, golden.api_version, body) == message


def test_there_are_frames_for_nearly_every_version() -> None:
    """A folder that was not found would make the test above pass on nothing."""
    versions = {(golden.api_key, golden.api_version) for golden in golden_frames()}

    assert len(versions) > 200


def test_a_golden_file_is_read_as_it_was_written() -> None:
    """Captured frames are kept as text, so that a reviewer can see what changed."""
    text = golden_text("somewhere", [("request", bytes(100)), ("response", b"\1")])

    assert text.splitlines()[0] == "# somewhere"
    assert all(len(line) <= 108 for line in text.splitlines())
    assert text.endswith("response 01\n")
