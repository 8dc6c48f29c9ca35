"""Requests to frames, and what answers begin with: the protocol package as a client uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.compile import encoder
from ottla.protocol.headers import RequestHeader, encode_request_header

if TYPE_CHECKING:
    from ottla.protocol.ports import FileRegion

LENGTH_BYTES = 4


def encode_request(header: RequestHeader, request: object) -> bytearray:
    """A whole frame, its length included."""
    frame = bytearray(LENGTH_BYTES)
    regions: list[tuple[int, FileRegion]] = []
    encode_request_header(frame, header)
    encoder(type(request), header.api_version)(request, frame, regions)
    assert not regions, "records in a request are in memory"
    frame[:LENGTH_BYTES] = (len(frame) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
    return frame
