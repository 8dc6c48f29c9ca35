"""What a producer takes as a record: a mistake has to come out in the call that made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.records.arguments import INT64_MAX, whole
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from ottla.client.records.producer_record import Headers
    from ottla.protocol.ids import TopicPartition

# One less than fits: in one batch with a record that has none, which is -1, the difference has to.
TIMESTAMP_MAX = INT64_MAX - 1


def as_bytes(value: object) -> bytes | None:
    """The bytes themselves, copied if somebody could still change them. Raises TypeError."""
    if value is None or type(value) is bytes:
        return value
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    raise TypeError(
        f"keys and values are bytes, not {type(value).__name__}: encode it first, or give the "
        "producer a serializer"
    )


def checked_headers(headers: Headers) -> Headers:
    """The headers, if that is what they are, and nothing that somebody could still change. Raises
    TypeError.

    A mistake has to come out here: later it would cost the batch."""
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
    """Whether it is a name and a value or None."""
    match header:
        case (str() as name, bytes() | None):
            return name.isascii() or is_name(name)
    return False


def is_name(name: str) -> bool:
    """Whether it can be written. What is not UTF-8 comes out of a log with surrogate escapes, and
    goes back as it came; other halves of a character have no bytes of their own."""
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return False
    return True


def checked_timestamp(timestamp: object) -> int:
    """Milliseconds since 1970, or -1 for none. Raises TypeError or ValueError: later it would end
    the producer."""
    return whole("a timestamp in milliseconds", timestamp, -1, TIMESTAMP_MAX)


def too_large(topic: str, size_bytes: int, limit_bytes: int) -> RequestRefused:
    """The error for a record that no request may carry."""
    return RequestRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record of {size_bytes} bytes exceeds request_bytes_max ({limit_bytes})",
        topic=topic,
    )


def unwritable(where: TopicPartition, reason: Exception) -> RequestRefused:
    """The error for a batch whose records turn out not to be any."""
    return RequestRefused.for_partition(
        ErrorCode.INVALID_RECORD, where, message=f"its records cannot be written: {reason}"
    )
