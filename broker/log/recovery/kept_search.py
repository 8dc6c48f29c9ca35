"""Searches damaged files for messages of format 1, in logs that keep them."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from ottla.broker.log.storage.settings import INT32_MAX
from ottla.protocol.message_sets.kept import KEPT_MAGIC
from ottla.protocol.records.batch import APPEND_TIME_BIT, CODEC_BITS, LENGTH_END, MAGIC_POSITION
from ottla.protocol.records.old_messages import ENTRY_BYTES_MIN

if TYPE_CHECKING:
    from ottla.protocol.ports import File

_SEARCH_BYTES = 4 * 1024 * 1024
# Offset, length, checksum, magic, attributes.
_HEAD = struct.Struct(">qiIBB")
_LENGTH_MIN = ENTRY_BYTES_MIN[KEPT_MAGIC] - LENGTH_END
_KNOWN_BITS = CODEC_BITS | APPEND_TIME_BIT


def find_kept(file: File, start: int, end: int, offset_min: int) -> int | None:
    """The position of the first complete message with a right checksum from ``offset_min`` on."""
    position = start
    while end - position >= ENTRY_BYTES_MIN[KEPT_MAGIC]:
        chunk = file.pread(min(_SEARCH_BYTES, end - position), position)
        at = chunk.find(KEPT_MAGIC, MAGIC_POSITION)
        while 0 <= at < len(chunk) - 1:
            head = at - MAGIC_POSITION
            offset, length, crc, _, attributes = _HEAD.unpack_from(chunk, head)
            if (
                offset_min <= offset <= offset_min + INT32_MAX
                and not attributes & ~_KNOWN_BITS
                and _LENGTH_MIN <= length <= end - position - head - LENGTH_END
            ):
                size_bytes = LENGTH_END + length - MAGIC_POSITION
                if zlib.crc32(file.pread(size_bytes, position + at)) == crc:
                    return position + head
            at = chunk.find(KEPT_MAGIC, at + 1)
        # Heads at the end of the chunk are found in the next one.
        position += max(1, len(chunk) - MAGIC_POSITION - 1)
    return None
