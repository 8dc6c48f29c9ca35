"""The header of an LZ4 frame, with the checksum that the oldest clients computed wrongly.

Layout: four magic bytes, two flag bytes, an optional content size of eight bytes, an optional
dictionary id of four, and one byte of xxHash-32 over what stands between magic and itself. Writers
of message format 0 hashed the magic too (KIP-57), which every LZ4 library refuses.
"""

from __future__ import annotations

_MAGIC = bytes.fromhex("04224d18")
_FLAGS_BYTES = 2
_CONTENT_SIZE_BIT, _CONTENT_SIZE_BYTES = 0x08, 8
_DICTIONARY_BIT, _DICTIONARY_BYTES = 0x01, 4

# The constants of xxHash-32, by its specification.
_PRIME_1, _PRIME_3, _PRIME_4, _PRIME_5 = 0x9E3779B1, 0xC2B2AE3D, 0x27D4EB2F, 0x165667B1
_PRIME_2 = 0x85EBCA77
_MASK = 0xFFFFFFFF
# Longer inputs are hashed in four lanes, which no frame header needs.
_HASHED_BYTES_MAX = 15


def with_right_header_checksum(data: memoryview) -> bytes:
    """The same frame with the header checksum that libraries demand.

    Only the first frame: the writers concerned make one. What is no LZ4 frame stays as it is, for
    the codec to refuse."""
    return _repaired(data, len(_MAGIC))


def with_old_header_checksum(data: bytes) -> bytes:
    """The same frame with the header checksum that readers of message format 0 demand."""
    return _repaired(memoryview(data), 0)


def _repaired(data: memoryview, hashed_from: int) -> bytes:
    """The frame with a checksum over its header from that byte on."""
    repaired = bytearray(data)
    if len(data) < len(_MAGIC) + _FLAGS_BYTES or data[: len(_MAGIC)] != _MAGIC:
        return bytes(data)
    flags = data[len(_MAGIC)]
    end = len(_MAGIC) + _FLAGS_BYTES
    end += _CONTENT_SIZE_BYTES if flags & _CONTENT_SIZE_BIT else 0
    end += _DICTIONARY_BYTES if flags & _DICTIONARY_BIT else 0
    if end < len(repaired):
        repaired[end] = header_checksum(data[hashed_from:end])
    return bytes(repaired)


def header_checksum(descriptor: bytes | memoryview) -> int:
    """The one byte of checksum over a frame's descriptor (of 2 to 14 bytes)."""
    return _short_xxh32(bytes(descriptor)) >> 8 & 0xFF


def _short_xxh32(data: bytes) -> int:
    """xxHash-32 with seed 0 of at most 15 bytes."""
    assert len(data) <= _HASHED_BYTES_MAX, len(data)
    words_end = len(data) & ~3
    value = _PRIME_5 + len(data)
    for start in range(0, words_end, 4):
        word = int.from_bytes(data[start : start + 4], "little")
        value = _rotated(value + word * _PRIME_3, 17) * _PRIME_4 & _MASK
    for byte in data[words_end:]:
        value = _rotated(value + byte * _PRIME_5, 11) * _PRIME_1 & _MASK
    value = (value ^ value >> 15) * _PRIME_2 & _MASK
    value = (value ^ value >> 13) * _PRIME_3 & _MASK
    return value ^ value >> 16


def _rotated(value: int, bits: int) -> int:
    value &= _MASK
    return (value << bits | value >> (32 - bits)) & _MASK
