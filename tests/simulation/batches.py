"""A second, independent reader of record batches (KIP-98 format), for the oracles.

It shares nothing with ``protocol/records`` so that a mistake there cannot hide itself. Only what
the workload writes: format 2, no codec or zlib.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, NamedTuple

import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterator

HEADER = struct.Struct(">qiibIhiqqqhii")
CRC_COVERS_FROM = 21


class Batch(NamedTuple):
    """One whole batch with a valid checksum."""

    base_offset: int
    last_offset: int
    size_bytes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    values: list[tuple[int, bytes]]


class Damaged(Exception):
    """The bytes are no batch."""


def read_batches(buffer: memoryview) -> Iterator[Batch]:
    """Whole batches in order; a part of one at the end is left out. Raises Damaged."""
    position = 0
    while len(buffer) - position >= HEADER.size:
        length = struct.unpack_from(">i", buffer, position + 8)[0]
        if length < HEADER.size - 12:
            raise Damaged(f"a batch of {length} bytes at {position}")
        if position + 12 + length > len(buffer):
            return
        yield _read_batch(buffer[position : position + 12 + length])
        position += 12 + length


def durable_end(buffer: memoryview, start: int) -> int:
    """The offset behind the last batch that is whole and valid, reading from the beginning."""
    end = start
    try:
        for batch in read_batches(buffer):
            if batch.base_offset < end:
                break
            end = batch.last_offset + 1
    except Damaged:
        pass
    return end


def _read_batch(buffer: memoryview) -> Batch:
    fields = HEADER.unpack_from(buffer)
    base_offset, _, _, magic, crc, attributes, last_delta = fields[:7]
    producer_id, producer_epoch, base_sequence, count = fields[9:]
    if magic != 2:
        raise Damaged(f"magic {magic}")
    if crc32c.crc32c(bytes(buffer[CRC_COVERS_FROM:])) != crc:
        raise Damaged(f"checksum of the batch at offset {base_offset}")
    body = bytes(buffer[HEADER.size :])
    codec = attributes & 7
    if codec == 1:
        body = zlib.decompress(body, 31)
    elif codec:
        raise Damaged(f"codec {codec} is not part of the workload")
    values = list(_read_values(body, base_offset, count))
    return Batch(
        base_offset,
        base_offset + last_delta,
        len(buffer),
        producer_id,
        producer_epoch,
        base_sequence,
        values,
    )


def _read_values(body: bytes, base_offset: int, count: int) -> Iterator[tuple[int, bytes]]:
    position = 0
    for _ in range(count):
        length, position = _varint(body, position)
        end = position + length
        _, position = _varint(body, position + 1)
        offset_delta, position = _varint(body, position)
        key_size, position = _varint(body, position)
        position += max(0, key_size)
        value_size, position = _varint(body, position)
        yield base_offset + offset_delta, body[position : position + max(0, value_size)]
        position = end
    if position != len(body):
        raise Damaged(f"{len(body) - position} bytes behind the last record")


def _varint(body: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        byte = body[position]
        position += 1
        result |= (byte & 127) << shift
        if byte < 128:
            return (result >> 1) ^ -(result & 1), position
        shift += 7
