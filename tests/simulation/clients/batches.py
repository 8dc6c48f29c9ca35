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
TRANSACTIONAL_BIT = 0x10
CONTROL_BIT = 0x20


class Batch(NamedTuple):
    """One whole batch with a valid checksum."""

    base_offset: int
    last_offset: int
    size_bytes: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    values: list[tuple[int, bytes]]
    is_transactional: bool = False
    # Of a marker: 0 abort, 1 commit; None of one that compaction has emptied.
    control_type: int | None = None

    @property
    def identity(self) -> tuple[int, ...]:
        """Key of the batch that stays the same whichever records compaction removes."""
        return self.base_offset, self.producer_id, self.producer_epoch, self.base_sequence


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


def batch_ends(buffer: memoryview) -> Iterator[tuple[int, int]]:
    """Where each whole batch ends: the position, and the offset behind its last record."""
    position = 0
    for batch in read_batches(buffer):
        position += batch.size_bytes
        yield position, batch.last_offset + 1


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
    control_type = None
    values: list[tuple[int, bytes]] = []
    if attributes & CONTROL_BIT and count:
        control_type = _read_control_type(body)
    else:
        values = list(_read_values(body, base_offset, count))
    return Batch(
        base_offset,
        base_offset + last_delta,
        len(buffer),
        producer_id,
        producer_epoch,
        base_sequence,
        values,
        bool(attributes & TRANSACTIONAL_BIT),
        control_type,
    )


def _read_control_type(body: bytes) -> int:
    """The marker's one record: its key is a version and a type, of two bytes each."""
    position = _varint(body, 0)[1] + 1
    for _ in ("time", "offset"):
        _, position = _varint(body, position)
    size, position = _varint(body, position)
    if size != 4:
        raise Damaged(f"a marker with a key of {size} bytes")
    return int.from_bytes(body[position + 2 : position + 4])


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
