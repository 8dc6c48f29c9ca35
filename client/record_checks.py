"""What a producer takes as a record: a mistake has to come out in the call that made it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from ottla.client.arguments import whole
from ottla.client.errors import RequestRefused
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from ottla.client.state.items import Headers


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
    """The headers, if that is what they are. Raises TypeError.

    A mistake has to come out here: later it would end the producer."""
    if isinstance(headers, str | bytes | Mapping) or not isinstance(headers, Iterable):
        raise TypeError(f"headers are a list of pairs of str and bytes, not {headers!r}")
    headers = tuple(headers)
    for header in headers:
        if not is_header(header):
            raise TypeError(f"headers are pairs of str and bytes, not {header!r}")
    return headers


def is_header(header: object) -> bool:
    """Whether it is a name and a value or None."""
    match header:
        case (str() as name, bytes() | None):
            # A half of a character that is written as two has no bytes of its own.
            return name.isascii() or not any("\ud800" <= one <= "\udfff" for one in name)
    return False


def checked_timestamp(timestamp: object) -> int:
    """Milliseconds since 1970, or -1 for none. Raises TypeError or ValueError: later it would end
    the producer."""
    return whole("a timestamp in milliseconds", timestamp, -1)


def too_large(topic: str, size_bytes: int, limit_bytes: int) -> RequestRefused:
    """The error for a record that no request may carry."""
    return RequestRefused(
        ErrorCode.MESSAGE_TOO_LARGE,
        f"a record of {size_bytes} bytes exceeds request_bytes_max ({limit_bytes})",
        topic=topic,
    )
