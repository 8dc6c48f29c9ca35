"""What stands before the body of every request and response.

A request's header has a tag section in the flexible versions of its API, but its client id keeps
the classic form always. A response to ApiVersions has the oldest header at every version: the
client that asks does not know yet what the broker speaks.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.apis import API, NEVER, ApiKey
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.primitives import SHORT_STRING, read_string, skip_tags

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Buffer

_PLAIN = struct.Struct(">hhi")
_NAMED = struct.Struct(">hhih")
_CORRELATION = struct.Struct(">i")
_CORRELATION_AND_NO_TAGS = struct.Struct(">ix")
_CONTROLLED_SHUTDOWN = int(ApiKey.CONTROLLED_SHUTDOWN)
_FLEXIBLE_FROM = {int(key): spec.flexible_from for key, spec in API.items()}
_MALFORMED = (IndexError, struct.error, UnicodeDecodeError)
_unpack_named = _NAMED.unpack_from
_flexible_from = _FLEXIBLE_FROM.get
_new_tuple = tuple.__new__


class RequestHeader(NamedTuple):
    """Which API at which version, the number its answer must carry, and the client's own name."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None


def is_flexible(api_key: int, api_version: int) -> bool:
    """Whether the version of the API has compact forms; an unknown API never has."""
    return api_version >= _FLEXIBLE_FROM.get(api_key, NEVER)


def decode_request_header(buffer: Buffer) -> tuple[RequestHeader, int]:
    """The header at the start of a frame and the position of the body.

    The API and its version may be unknown to us: the header of an unknown API is read in its
    classic form, which is enough to answer it. Raises RemoteProtocolError."""
    try:
        api_key, api_version, correlation_id, size = _unpack_named(buffer)
        position = 10
        if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
            client_id = None
            position = _PLAIN.size
        elif 0 <= size < 127:
            client_id = SHORT_STRING[size + 1](buffer, 10)[0].decode()
            position += size
        elif size < 0:
            client_id = None
        else:
            client_id, position = read_string(buffer, position, size)
        if api_version >= _flexible_from(api_key, NEVER):
            tags = buffer[position]
            position += 1
            if tags:
                position = skip_tags(buffer, position, tags)
    except _MALFORMED as error:
        raise RemoteProtocolError(f"request header: {error}") from error
    # The tuple is made directly: its own constructor is a Python function and twice as slow.
    header: RequestHeader = _new_tuple(
        RequestHeader, (api_key, api_version, correlation_id, client_id)
    )
    return header, position


def encode_request_header(out: bytearray, header: RequestHeader) -> None:
    """Append the header in the form that its API and version ask for."""
    api_key, api_version, correlation_id, client_id = header
    if api_key == _CONTROLLED_SHUTDOWN and api_version == 0:
        out += _PLAIN.pack(api_key, api_version, correlation_id)
        return
    name = b"" if client_id is None else client_id.encode()
    size = -1 if client_id is None else len(name)
    out += _NAMED.pack(api_key, api_version, correlation_id, size)
    out += name
    if is_flexible(api_key, api_version):
        out.append(0)


def response_header(api_key: int, api_version: int) -> Callable[[int], bytes]:
    """What makes the header of an answer to such a request from its correlation id."""
    if response_has_tags(api_key, api_version):
        return _CORRELATION_AND_NO_TAGS.pack
    return _CORRELATION.pack


def write_response_header(
    out: bytearray, api_key: int, api_version: int, correlation_id: int
) -> None:
    """Append the header of an answer to such a request."""
    out += response_header(api_key, api_version)(correlation_id)


def decode_response_header(buffer: Buffer, api_key: int, api_version: int) -> tuple[int, int]:
    """The correlation id and the position of the body, for a request whose API is remembered.

    Raises RemoteProtocolError."""
    try:
        (correlation_id,) = _CORRELATION.unpack_from(buffer)
        position = _CORRELATION.size
        if response_has_tags(api_key, api_version):
            tags = buffer[position]
            position += 1
            if tags:
                position = skip_tags(buffer, position, tags)
    except _MALFORMED as error:
        raise RemoteProtocolError(f"response header: {error}") from error
    return correlation_id, position


def response_has_tags(api_key: int, api_version: int) -> bool:
    """Whether the header of an answer to such a request carries tagged fields."""
    return api_key != ApiKey.API_VERSIONS and is_flexible(api_key, api_version)
