"""Snappy as Kafka's clients frame it: the xerial container, or one bare block.

Layout: eight magic bytes, int32 version, int32 lowest compatible version, then blocks of int32
length and raw snappy. Java, kafka-python, kafkajs and sarama write it; librdkafka and franz-go may
send one raw block instead, told apart by the magic. Only the framing is here, not the codec.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer

_MAGIC = b"\x82SNAPPY\x00"
_VERSION = 1
HEADER = _MAGIC + struct.pack(">ii", _VERSION, _VERSION)
_LENGTH = struct.Struct(">i")
# What one block may hold: Java's reader allocates buffers of this size.
BLOCK_INPUT_BYTES = 32 * 1024

# The cheapest snappy element turns 3 bytes into 64, so a block cannot honestly claim more.
_BEST_RATIO = 22
_PREAMBLE_BYTES_MAX = 5


def reject(reason: str) -> KafkaError:
    return KafkaError(ErrorCode.CORRUPT_MESSAGE, f"malformed snappy data: {reason}")


def pack_block(block: Buffer) -> bytes:
    """The length that stands before a compressed block."""
    return _LENGTH.pack(len(block))


def split_blocks(data: memoryview) -> list[memoryview]:
    """The raw snappy blocks of the data, which may be xerial-framed or one bare block.

    Raises KafkaError(CORRUPT_MESSAGE) when lengths and bytes do not agree."""
    if data[: len(_MAGIC)] != _MAGIC:
        return [data]
    position, end = len(HEADER), len(data)
    if position > end:
        raise reject("it ends inside the header")
    blocks = []
    while position < end:
        if end - position < _LENGTH.size:
            raise reject("it ends inside a block length")
        (length,) = _LENGTH.unpack_from(data, position)
        position += _LENGTH.size
        if not 0 < length <= end - position:
            raise reject(f"a block claims {length} of {end - position} bytes")
        blocks.append(data[position : position + length])
        position += length
    return blocks


def block_output_bytes(block: memoryview) -> int:
    """What a raw block says it decompresses to, once that is believable.

    The decoder allocates by this claim (CVE-2023-43642), so it is compared with what the format
    can reach at best. Raises KafkaError(CORRUPT_MESSAGE)."""
    size = 0
    for index, byte in enumerate(block[:_PREAMBLE_BYTES_MAX]):
        size |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            if size > len(block) * _BEST_RATIO:
                raise reject(f"{len(block)} bytes claim to hold {size}")
            return size
    raise reject("a block's size does not end")
