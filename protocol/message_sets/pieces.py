"""Stored entries of any format, read from a log in pieces. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import LENGTH_END, LENGTH_POSITION
from ottla.protocol.records.old_messages import iterate_entries

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.protocol.records.old_messages import LogEntry

# Stored bytes that are read at once; a larger entry is read whole.
CHUNK_BYTES = 256 * 1024


def entries_in_pieces(
    read: Callable[[int, int], bytes], size_bytes: int, *, may_be_torn: bool = False
) -> Iterator[LogEntry]:
    """All entries; ``read`` returns so many bytes from a position on, of the ``size_bytes`` there.

    Raises KafkaError(CORRUPT_MESSAGE) at the first that is malformed or incomplete, after the good
    ones. ``may_be_torn``: if the last one reaches beyond the end, the entries end before it.
    Checksums are the caller's business."""
    position, wanted = 0, CHUNK_BYTES
    while position < size_bytes:
        count = min(wanted, size_bytes - position)
        chunk = memoryview(read(position, count))
        whole = _whole_bytes(chunk)
        if whole:
            yield from iterate_entries(chunk[:whole])
            position, wanted = position + whole, CHUNK_BYTES
            continue
        if len(chunk) < count or position + count == size_bytes:
            if may_be_torn and len(chunk) == count:
                return
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "the stored records end too early")
        length = int.from_bytes(chunk[LENGTH_POSITION:LENGTH_END], signed=True)
        wanted = LENGTH_END + length
        if wanted <= count:
            raise KafkaError(ErrorCode.CORRUPT_MESSAGE, "a stored batch has no valid size")
        if may_be_torn and wanted > size_bytes - position:
            return


def _whole_bytes(chunk: memoryview) -> int:
    """Up to where a piece holds complete entries."""
    position = 0
    while len(chunk) - position >= LENGTH_END:
        length = int.from_bytes(
            chunk[position + LENGTH_POSITION : position + LENGTH_END], signed=True
        )
        if length <= 0 or LENGTH_END + length > len(chunk) - position:
            break
        position += LENGTH_END + length
    return position
