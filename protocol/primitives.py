"""What compiled codecs call when a value is not in its shortest form, and the limits they keep.

Everything here that reads takes bytes from a stranger: each length is checked against the bytes
that are left before anything is made of it, and every refusal is a ``RemoteProtocolError``.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING, NoReturn

from ottla.protocol.errors import RemoteProtocolError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Buffer

ELEMENTS_MAX = 2_000_000
"""Array elements in one message. One byte of a frame may become an object of a hundred, so a frame
of the largest accepted size must not be allowed to consist of elements only (hazard N-03)."""

STRING_BYTES_MAX = 0x7FFF
"""Strings keep the limit of their classic form in the compact one, as Kafka's own codec does."""


def refuse(what: str) -> NoReturn:
    """The one way for a decoder to give up."""
    raise RemoteProtocolError(what)


def _null_string(buffer: Buffer, position: int) -> tuple[bytes]:
    raise RemoteProtocolError(f"null at byte {position}, where a string is required")


def _short_strings() -> tuple[Callable[[Buffer, int], tuple[bytes]], ...]:
    readers: list[Callable[[Buffer, int], tuple[bytes]]] = [_null_string]
    readers.extend(Struct(f"{size}s").unpack_from for size in range(127))
    return tuple(readers)


SHORT_STRING = _short_strings()
"""By length plus one, as compact strings have it: unpacks that many bytes and checks that they are
there, at half the price of slicing a memoryview."""


TIMES = tuple((None,) * count for count in range(16))
"""To loop a small number of times: a tuple is there already, a range would have to be made."""


def read_uvarint(buffer: Buffer, position: int) -> tuple[int, int]:
    """An unsigned varint of at most 32 bits and the position after it."""
    byte = buffer[position]
    if byte < 0x80:
        return byte, position + 1
    return read_long_uvarint(buffer, position + 1, byte)


def read_long_uvarint(buffer: Buffer, position: int, first: int) -> tuple[int, int]:
    """The rest of an unsigned varint whose first byte, already read, says that more follow."""
    byte = buffer[position]
    value = first - 0x80 + (byte << 7)
    if byte < 0x80:
        return value, position + 1
    byte = buffer[position + 1]
    value += (byte << 14) - 0x4000
    if byte < 0x80:
        return value, position + 2
    byte = buffer[position + 2]
    value += (byte << 21) - 0x20_0000
    if byte < 0x80:
        return value, position + 3
    byte = buffer[position + 3]
    value += (byte << 28) - 0x1000_0000
    if byte > 0x0F:
        refuse(f"a varint of more than 32 bits before byte {position + 4}")
    return value, position + 4


def read_long_string(buffer: Buffer, position: int, first: int) -> tuple[str, int]:
    """A compact string that is too long for one length byte, and the position after it."""
    size, position = read_long_uvarint(buffer, position, first)
    return read_string(buffer, position, size - 1)


def read_string(buffer: Buffer, position: int, size: int) -> tuple[str, int]:
    """A string of that many bytes, and the position after it."""
    end = position + size
    if not 0 <= size <= STRING_BYTES_MAX or end > len(buffer):
        refuse(f"a string of {size} bytes at byte {position} of {len(buffer)}")
    return str(buffer[position:end], "utf-8"), end


def skip_tags(buffer: Buffer, position: int, count: int) -> int:
    """Pass over a tag section of which nothing is known, after its one-byte count was read."""
    if count > 127:
        count, position = read_long_uvarint(buffer, position, count)
    end = len(buffer)
    if count * 2 > end - position:
        refuse(f"{count} tags in the {end - position} bytes from byte {position}")
    for _ in range(count):
        _, position = read_uvarint(buffer, position)
        size, position = read_uvarint(buffer, position)
        position += size
        if position > end:
            refuse(f"a tag of {size} bytes that ends at byte {position} of {end}")
    return position


def write_uvarint(out: bytearray, value: int) -> None:
    """Append an unsigned varint."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)


def write_string_size(out: bytearray, size: int) -> None:
    """Append the length of a compact string that is not null. Raises ValueError over the limit."""
    if size > STRING_BYTES_MAX:
        raise ValueError(f"a string of {size} bytes; {STRING_BYTES_MAX} are the most")
    write_uvarint(out, size + 1)
