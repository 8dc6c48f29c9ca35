"""Where zstd frames end (RFC 8878, section 3.1), without decompressing anything.

The library's bounded reader takes a torn frame for a finished one, so the ends are checked here.
"""

from __future__ import annotations

_FRAME_MAGIC = 0xFD2FB528
_MAGIC_BYTES = 4
_BLOCK_HEADER_BYTES = 3
_CHECKSUM_BYTES = 4
_RUN_LENGTH_BLOCK = 1
_RESERVED_BLOCK = 3
# By the two-bit flags of the frame header descriptor.
_DICTIONARY_ID_BYTES = (0, 1, 2, 4)
_CONTENT_SIZE_BYTES = (0, 2, 4, 8)


def are_frames_whole(data: memoryview) -> bool:
    """Whether the data is one or more complete frames and nothing else."""
    position = 0
    while True:
        end = _frame_end(data, position)
        if end is None:
            return False
        if end == len(data):
            return True
        position = end


def is_one_frame(data: memoryview) -> bool:
    """Whether the data is one complete frame and nothing else."""
    return _frame_end(data, 0) == len(data)


def _frame_end(data: memoryview, position: int) -> int | None:
    """The position after the frame that starts here, or None if it is cut short or no frame."""
    limit = len(data)
    if limit - position <= _MAGIC_BYTES:
        return None
    if int.from_bytes(data[position : position + _MAGIC_BYTES], "little") != _FRAME_MAGIC:
        return None
    descriptor = data[position + _MAGIC_BYTES]
    position += _MAGIC_BYTES + 1 + _header_fields_bytes(descriptor)
    last = 0
    while not last:
        if position + _BLOCK_HEADER_BYTES > limit:
            return None
        header = int.from_bytes(data[position : position + _BLOCK_HEADER_BYTES], "little")
        last, kind, size = header & 1, header >> 1 & 3, header >> 3
        if kind == _RESERVED_BLOCK:
            return None
        position += _BLOCK_HEADER_BYTES + (1 if kind == _RUN_LENGTH_BLOCK else size)
    if descriptor & 0x04:
        position += _CHECKSUM_BYTES
    return position if position <= limit else None


def _header_fields_bytes(descriptor: int) -> int:
    """Size of window descriptor, dictionary id and content size together."""
    is_single_segment = descriptor >> 5 & 1
    content_size_flag = descriptor >> 6
    content_size_bytes = _CONTENT_SIZE_BYTES[content_size_flag]
    if is_single_segment and content_size_flag == 0:
        content_size_bytes = 1
    window_bytes = 0 if is_single_segment else 1
    return window_bytes + _DICTIONARY_ID_BYTES[descriptor & 3] + content_size_bytes
