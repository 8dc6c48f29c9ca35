"""Requests to frames, and what answers begin with: the protocol package as a client uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ottla.protocol.compile import encoder
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer, File
    from ottla.protocol.schema import Records

LENGTH_BYTES = 4
# Below, one piece more to send costs more than the copy.
KEPT_BYTES_MIN = 16 * 1024


class Kept:
    """Records that a request is to be sent with and that are not copied into it: encoders take
    them for those of a file, of which they note the place."""

    __slots__ = ("records",)

    def __init__(self, records: Buffer) -> None:
        self.records = records

    def pread(self, count: int, position: int) -> bytes:
        """As of a file."""
        return bytes(memoryview(self.records)[position : position + count])


def kept(records: Buffer) -> Records:
    """What a request has for its records: where they are, if a copy of them would be large.
    They must not change until the request has been answered."""
    if len(records) < KEPT_BYTES_MIN:
        return records
    return FileRegion(cast("File", Kept(records)), 0, len(records))


def encode_request(header: RequestHeader, request: object) -> list[Buffer]:
    """A whole frame, its length included: what is to be sent one after the other."""
    frame = bytearray(LENGTH_BYTES)
    regions: list[tuple[int, FileRegion]] = []
    encode_request_header(frame, header)
    encoder(type(request), header.api_version)(request, frame, regions)
    size_bytes = len(frame) - LENGTH_BYTES + sum(region.size_bytes for _, region in regions)
    frame[:LENGTH_BYTES] = size_bytes.to_bytes(LENGTH_BYTES)
    if not regions:
        return [frame]
    view, start = memoryview(frame), 0
    parts: list[Buffer] = []
    for position, region in regions:
        assert isinstance(region.file, Kept), "records in a request are in memory"
        parts += (view[start:position], region.file.records)
        start = position
    return [*parts, view[start:]] if start < len(view) else parts
