"""Validates the batches that a follower has fetched and appends unchanged to its log (REP-03).

The leader has validated records and producers. The follower checks only that it received the bytes
that the leader sent and that they continue its log: checksum, ascending offsets, leader epochs that
do not decrease. HOT: for each fetched batch. Pure.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    CRC_END,
    HEADER_BYTES,
    LENGTH_END,
    LENGTH_POSITION,
    parse_batch,
)
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.batch import RecordBatch


_length_at = struct.Struct(">i").unpack_from


class AppendLimits(NamedTuple):
    """Limits of an append: the log's end, below which batches are skipped, and the segment size,
    which limits a run."""

    log_end_offset: int
    leader_epoch: int
    run_bytes_max: int
    offset_span_max: int = (1 << 31) - 1


def runs_of(records: Buffer, limits: AppendLimits) -> list[list[RecordBatch]]:
    """Return the complete batches from the log's end on, in runs that can each be written at once.

    An answer may begin before the end, with a batch that the log already has, and may end in a
    partial batch (KIP-74). The first batch may contain the log's end: then the leader's log starts
    in the middle of that batch, which the caller handles. Raises KafkaError(CORRUPT_MESSAGE); the
    caller must write no batch then."""
    view = memoryview(records)
    position, size_bytes = 0, len(view)
    next_offset, last_epoch = limits.log_end_offset, -1
    runs: list[list[RecordBatch]] = []
    run: list[RecordBatch] = []
    run_bytes = 0
    while size_bytes - position >= HEADER_BYTES:
        start = position
        # The position always advances: the parser refuses a batch that is too short.
        position += max(LENGTH_END + _length_at(view, start + LENGTH_POSITION)[0], HEADER_BYTES)
        if position > size_bytes:
            break
        batch = parse_batch(view, start)
        base_offset = batch.base_offset
        batch_next = base_offset + batch.last_offset_delta + 1
        if batch_next <= next_offset and not runs and not run:
            continue
        if crc32c(view[start + CRC_END : position]) != batch.crc:
            raise _corrupt(batch, "its checksum is wrong")
        if base_offset < next_offset and (runs or run):
            raise _corrupt(batch, f"it follows offset {next_offset - 1}")
        if not last_epoch <= batch.leader_epoch <= limits.leader_epoch:
            raise _corrupt(batch, f"it follows epoch {last_epoch} under {limits.leader_epoch}")
        if run and (
            run_bytes + batch.size_bytes > limits.run_bytes_max
            or batch_next - run[0].base_offset > limits.offset_span_max
        ):
            runs.append(run)
            run, run_bytes = [], 0
        run.append(batch)
        run_bytes += batch.size_bytes
        next_offset, last_epoch = batch_next, batch.leader_epoch
    if run:
        runs.append(run)
    assert not runs or runs[0][0].next_offset > limits.log_end_offset, "the log has it already"
    return runs


def _corrupt(batch: RecordBatch, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"the leader sent {batch} at byte {batch.position}: {reason}"
    )
