"""Codecs as fast as hand-written ones: per message and version a function, written at first use.

The source of each is kept where tracebacks and debuggers look for it. A caller on the path of
each request keeps the functions that ``decoder`` and ``encoder`` return; other callers use
``encode`` and ``decode``.
"""

from __future__ import annotations

import linecache
from functools import cache, partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from ottla.protocol.decoding import decoder_source
from ottla.protocol.encoding import encoder_source
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ports import Buffer, FileRegion
from ottla.protocol.schema import schema_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.source import SourceWriter

F = TypeVar("F", bound="Callable[..., object]")
M = TypeVar("M")
N = TypeVar("N")

Regions = list[tuple[int, FileRegion]]


def _kept(function: F) -> F:
    """As ``functools.cache``, which would forget the types. A kept function is looked up without a
    call of Python code."""
    return cast("F", cache(function))


@_kept
def decoder(declared: type[M], version: int) -> Callable[[Buffer, int], tuple[M, int]]:
    """The function that reads such a message from a position and returns it with the position
    after it.

    Records are a slice of the buffer, so they live as long as it keeps its bytes. The function
    raises RemoteProtocolError, and nothing else, whatever the bytes are."""
    function: Callable[[Buffer, int], tuple[M, int]]
    function = _compiled(decoder_source, "decode", declared, version)
    return function


@_kept
def encoder(declared: type[M], version: int) -> Callable[[M, bytearray, Regions], None]:
    """The function that appends such a message to a bytearray.

    Records that are a FileRegion are left out: the list receives (position in the bytearray where
    they belong, region). The function raises ValueError for a message that the version cannot
    carry; the bytearray then ends in a part of it."""
    function: Callable[[M, bytearray, Regions], None]
    function = _compiled(encoder_source, "encode", declared, version)
    return function


@_kept
def item_encoder(
    declared: type[M], item: type[N], version: int
) -> Callable[[N, bytearray, Regions], None]:
    """The function that appends one element of an array of such messages, for ``EncodedItems``."""
    function: Callable[[N, bytearray, Regions], None]
    write = partial(encoder_source, item=item)
    function = _compiled(write, f"encode {item.__name__} of", declared, version)
    return function


def decode(declared: type[M], version: int, buffer: Buffer) -> M:
    """The one message that the buffer holds. Raises RemoteProtocolError, for trailing bytes too."""
    message, position = decoder(declared, version)(memoryview(buffer), 0)
    trailing = len(buffer) - position
    if trailing:
        what = f"{declared.__name__} version {version}"
        raise RemoteProtocolError(f"{what}: {trailing} bytes too many")
    return message


def encode(message: object, version: int) -> bytes:
    """The bytes of a message, with records read from their files. Raises ValueError, OSError."""
    out, regions = bytearray(), Regions()
    encoder(type(message), version)(message, out, regions)
    if not regions:
        return bytes(out)
    parts: list[Buffer] = []
    start = 0
    for position, region in regions:
        parts += [out[start:position], region.read()]
        start = position
    return b"".join([*parts, out[start:]])


def _compiled(
    write: Callable[[type, int], SourceWriter], verb: str, declared: type, version: int
) -> Any:
    schema = schema_of(declared)
    if not schema.versions.holds(version):
        raise ValueError(f"{schema.name} has no version {version}")
    source = write(declared, version)
    text, scope = source.text(), source.scope
    file_name = f"<{verb} {schema.name} version {version}>"
    exec(compile(text, file_name, "exec"), scope)
    # With no modification time the cache keeps the lines, so a traceback shows them.
    linecache.cache[file_name] = (len(text), None, text.splitlines(keepends=True), file_name)
    return scope[verb.partition(" ")[0]]
