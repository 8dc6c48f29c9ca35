"""The ``.snapshot`` file: what producers had done up to the offset in its name, in Kafka's layout.

    int16 version 1 | uint32 CRC-32C of the rest | int32 count | entries of 46 bytes

Kafka writes one entry per producer, its newest batch. Ottla writes up to five, oldest first: in
Kafka's reader a later entry of a producer replaces an earlier one, so the file stays compatible,
and a restart does not forget the batches in flight (T-01).
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import CorruptLogError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ports import Buffer

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")
ENTRIES_START = _HEAD.size + _COUNT.size
ENTRY_BYTES = _ENTRY.size
assert (ENTRIES_START, ENTRY_BYTES) == (10, 46)


class SnapshotEntry(NamedTuple):
    """One batch of one producer; ``last_sequence`` and ``last_offset`` are -1 if it has none."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp: int
    coordinator_epoch: int
    transaction_first_offset: int


def encode_snapshot(entries: Iterable[SnapshotEntry]) -> bytes:
    """The whole content of a snapshot file."""
    rows = [_ENTRY.pack(*entry) for entry in entries]
    body = _COUNT.pack(len(rows)) + b"".join(rows)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode_snapshot(content: Buffer) -> list[SnapshotEntry]:
    """The entries of a snapshot file.

    Raises CorruptLogError unless every byte is valid; the caller then uses an older snapshot or
    replays the log from its start."""
    if len(content) < ENTRIES_START:
        raise CorruptLogError(f"a producer snapshot of {len(content)} bytes")
    version, checksum = _HEAD.unpack_from(content)
    if version != _VERSION:
        raise CorruptLogError(f"producer snapshot of version {version}")
    if crc32c(memoryview(content)[_HEAD.size :]) != checksum:
        raise CorruptLogError("producer snapshot with a wrong checksum")
    (count,) = _COUNT.unpack_from(content, _HEAD.size)
    if count < 0 or len(content) != ENTRIES_START + count * ENTRY_BYTES:
        raise CorruptLogError(f"producer snapshot of {count} entries in {len(content)} bytes")
    rows = _ENTRY.iter_unpack(memoryview(content)[ENTRIES_START:])
    return [SnapshotEntry(*row) for row in rows]
