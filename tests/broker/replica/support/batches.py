"""Batches as producers and coordinators make them, with short names for tests."""

from __future__ import annotations

from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker

WALL_MS = 1_700_000_000_000


def data_batch(
    sequence: int,
    *,
    count: int = 1,
    at: int = 0,
    producer_id: int = 4000,
    epoch: int = 0,
    leader_epoch: int = 0,
    transactional: bool = False,
    timestamp: int = WALL_MS,
) -> RecordBatch:
    """A batch of ``count`` records that is, or will be, at offset ``at``."""
    options = BatchOptions(
        base_offset=at,
        leader_epoch=leader_epoch,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=transactional,
    )
    batch = parse_batch(bytearray(encode_batch([(timestamp, b"k", b"v", ())], options)))
    # Only the header is looked at, so one record stands for all of them.
    batch.record_count = count
    batch.last_offset_delta = count - 1
    return batch


def plain_batch(at: int, *, count: int = 1, leader_epoch: int = 0) -> RecordBatch:
    """A batch without a producer id."""
    return data_batch(-1, count=count, at=at, producer_id=-1, epoch=-1, leader_epoch=leader_epoch)


def marker_batch(
    at: int,
    *,
    abort: bool = False,
    producer_id: int = 4000,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    timestamp: int = WALL_MS,
) -> RecordBatch:
    """The end of a transaction at offset ``at``."""
    control_type = ControlType.ABORT if abort else ControlType.COMMIT
    marker = TransactionMarker(producer_id, epoch, control_type, coordinator_epoch)
    return parse_batch(bytearray(encode_marker(marker, timestamp, at, 0)))
