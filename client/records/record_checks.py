"""Checks the records of a producer in the call that sends them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.records.arguments import INT64_MAX, whole
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from ottla.client.records.producer_record import Headers
    from ottla.protocol.ids import TopicPartition

# One less than the type holds: the difference to -1, a record without a timestamp in the same
# batch, has to fit.
TIMESTAMP_MAX = INT64_MAX - 1


def as_bytes(value: object) -> bytes | None:
    """The value as bytes, copied if it is mutable. Raises TypeError."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"keys and values are bytes, not {type(value).__name__}: encode it first, or give the "
        "producer a serializer"
    )


def checked_headers(headers: Headers) -> Headers:
    """The headers as an immutable tuple. Raises TypeError here, because a later error would cost
    the whole batch."""
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Iterable):
        raise TypeError(f"headers are a list of pairs of str and bytes, not {headers!r}")
    headers = tuple(headers)
    may_change = False
    for header in headers:
        if not is_header(header):
            raise TypeError(f"headers are pairs of str and bytes, not {header!r}")
        may_change = may_change or type(header) is not tuple
    return tuple((name, content) for name, content in headers) if may_change else headers


def is_header(header: object) -> bool:
    """Whether it is a pair of a name and bytes or None."""
    match header:
        case (str() as name, bytes() | None):
            return name.isascii() or is_name(name)
    return False


def is_name(name: str) -> bool:
    """Whether the name can be encoded. Invalid UTF-8 from a log has surrogate escapes and is
    written back unchanged; other surrogates have no encoding."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def checked_timestamp(timestamp: object) -> int:
    """The timestamp in ms since 1970, or -1 for none. Raises TypeError or ValueError: a later error
    would end the producer."""
    return whole("a timestamp in milliseconds", timestamp, -1, TIMESTAMP_MAX)


def too_large(topic: str, size_bytes: int, limit_bytes: int) -> RequestRefused:
    """The error for a record that exceeds the largest request."""
    return RequestRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record of {size_bytes} bytes exceeds request_bytes_max ({limit_bytes})",
        topic=topic,
    )


def unwritable(where: TopicPartition, reason: Exception) -> RequestRefused:
    """The error for a batch that cannot be encoded."""
    return RequestRefused.for_partition(
        ErrorCode.INVALID_RECORD, where, message=f"its records cannot be written: {reason}"
    )
