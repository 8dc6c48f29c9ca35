"""Encodes which records after a committed position are done, as the commit's metadata. Pure.

Records of different keys are done out of order, and a position only says that everything before it
is done. With this metadata a restart skips what was done after the position, too.

The format is a bitmap from the position on, in base64 behind a name and a version; any other text
was written by another program and is ignored.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from binascii import Error
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

PREFIX = "ottla-done-1:"
# Brokers take 4096 bytes of metadata by default; this is 2,744 characters. Records further than
# 16,384 offsets away are simply handled again.
BITMAP_BYTES_MAX = 2_048


def encode_done(position: int, offsets: Iterable[int]) -> str:
    """Encode these offsets, all at or after the position; "" if there are none."""
    bitmap = bytearray()
    for offset in offsets:
        index, bit = divmod(offset - position, 8)
        assert index >= 0
        if index < BITMAP_BYTES_MAX:
            bitmap.extend(bytes(max(0, index + 1 - len(bitmap))))
            bitmap[index] |= 1 << bit
    return PREFIX + b64encode(bitmap).decode() if bitmap else ""


def decode_done(position: int, metadata: str) -> frozenset[int]:
    """Decode the offsets; none if the text has another form."""
    if not metadata.startswith(PREFIX):
        return frozenset()
    try:
        data = b64decode(metadata.removeprefix(PREFIX), validate=True)
    except (Error, ValueError):
        return frozenset()
    if len(data) > BITMAP_BYTES_MAX:
        return frozenset()
    return frozenset(
        position + 8 * index + bit
        for index, byte in enumerate(data)
        if byte
        for bit in range(8)
        if byte >> bit & 1
    )
