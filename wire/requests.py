"""Encodes requests as frames, without copying large records."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

from ottla.protocol.compile import encoder
from ottla.protocol.headers import RequestHeader, encode_request_header, response_has_tags
from ottla.protocol.ports import FileRegion

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.compile import Regions
    from ottla.protocol.ports import Buffer, File
    from ottla.protocol.schema import Records

LENGTH_BYTES = 4
# In a frame including its length: after the API key and version.
CORRELATION_ID_BYTES = slice(8, 12)
# Below this size, one more piece to send costs more than the copy.
KEPT_BYTES_MIN = 16 * 1024


class FileRecords:
    """Records that a request refers to without copying them. To encoders they look like a file, of
    which only the position is noted."""

    __slots__ = ("records",)

    def __init__(self, records: Buffer) -> None:
        self.records = records

    def pread(self, count: int, position: int) -> bytes:
        """Return the bytes at that position, like ``os.pread``."""
        return bytes(memoryview(self.records)[position : position + count])


def kept(records: Buffer) -> Records:
    """The records field of a request: a reference to the records if a copy would be large.

    They must not change until the request has been answered."""
    if len(records) < KEPT_BYTES_MIN:
        return records
    return FileRegion(cast("File", FileRecords(records)), 0, len(records))


@lru_cache(maxsize=512)
def _opening(api_key: int, api_version: int, client_id: str | None) -> bytes:
    """The length, still 0, and the header, still with correlation id 0."""
    frame = bytearray(LENGTH_BYTES)
    encode_request_header(frame, RequestHeader(api_key, api_version, 0, client_id))
    return bytes(frame)


# A connection sends the same few APIs over and over, so both lookups are cached in C.
_encoder = cast(
    "Callable[[type[Any], int], Callable[[Any, bytearray, Regions], None]]",
    lru_cache(maxsize=512)(encoder),
)
has_tags = lru_cache(maxsize=512)(response_has_tags)


def encode_request(
    api_key: int, api_version: int, correlation_id: int, client_id: str | None, request: object
) -> list[Buffer]:
    """Encode a whole frame, its length included, as pieces to be sent one after the other."""
    frame = bytearray(_opening(api_key, api_version, client_id))
    frame[CORRELATION_ID_BYTES] = correlation_id.to_bytes(4)
    regions: list[tuple[int, FileRegion]] = []
    _encoder(type(request), api_version)(request, frame, regions)
    if not regions:
        frame[:LENGTH_BYTES] = (len(frame) - LENGTH_BYTES).to_bytes(LENGTH_BYTES)
        return [frame]
    size_bytes = len(frame) - LENGTH_BYTES + sum(region.size_bytes for _, region in regions)
    frame[:LENGTH_BYTES] = size_bytes.to_bytes(LENGTH_BYTES)
    view, start = memoryview(frame), 0
    parts: list[Buffer] = []
    for position, region in regions:
        assert isinstance(region.file, FileRecords), "records in a request are in memory"
        parts += (view[start:position], region.file.records)
        start = position
    return [*parts, view[start:]] if start < len(view) else parts
