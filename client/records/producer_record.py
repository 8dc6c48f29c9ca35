"""Estimates the size of a record that a producer sends. Pure."""

from __future__ import annotations

# The most that a record of up to some kilobytes adds to its key, value and headers: length 2,
# attributes 1, timestamp delta 2, offset delta 2, key length 2, value length 2, header count 1.
# Larger records add a little more, which no limit here depends on.
RECORD_OVERHEAD_BYTES = 12
HEADER_OVERHEAD_BYTES = 4

Headers = tuple[tuple[str, bytes | None], ...]


Item = tuple[int, bytes | None, bytes | None, Headers]
"""One record as the application gave it: timestamp in ms since 1970, key, value, headers."""


def item_size_bytes(item: Item) -> int:
    """The approximate size of the record in an uncompressed batch, in bytes."""
    _, key, value, headers = item
    size_bytes = RECORD_OVERHEAD_BYTES
    if key is not None:
        size_bytes += len(key)
    if value is not None:
        size_bytes += len(value)
    return size_bytes + headers_size_bytes(headers) if headers else size_bytes


def headers_size_bytes(headers: Headers) -> int:
    """The approximate size of the headers, in bytes."""
    return sum(HEADER_OVERHEAD_BYTES + len(name) + len(content or b"") for name, content in headers)
