"""Control batches: the markers that end transactions in a partition's log (KIP-98).

A control batch holds one record and takes one offset. Its key says what it is, and that is all a
consumer may rely on; the value is for the broker (FMT-31). Applications never see the record.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.record import Record, read_records

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_VERSION = 0
# A control record is a few dozen bytes and never compressed.
_CONTROL_BYTES_MAX = 64 * 1024


class ControlType(IntEnum):
    """The types a partition's log can hold; KRaft has more, which are skipped like all others."""

    ABORT = 0
    COMMIT = 1


_TYPES: dict[int, ControlType] = {member.value: member for member in ControlType}


class TransactionMarker(NamedTuple):
    """The end of one producer's transaction, as its coordinator decided it."""

    producer_id: int
    producer_epoch: int
    control_type: ControlType
    coordinator_epoch: int


def encode_marker(
    marker: TransactionMarker, timestamp_ms: int, base_offset: int = 0, leader_epoch: int = -1
) -> bytes:
    """The control batch of a marker."""
    key = _KEY.pack(_VERSION, marker.control_type)
    value = _VALUE.pack(_VERSION, marker.coordinator_epoch)
    options = BatchOptions(
        base_offset=base_offset,
        leader_epoch=leader_epoch,
        producer_id=marker.producer_id,
        producer_epoch=marker.producer_epoch,
        is_transactional=True,
        is_control=True,
    )
    return encode_batch([(timestamp_ms, key, value, ())], options)


def read_control_type(batch: RecordBatch) -> ControlType | None:
    """What the control batch says; None for types that mean nothing in a partition's log.

    Looks at the key only. Raises KafkaError(CORRUPT_MESSAGE) when there is not one whole record
    with a key."""
    return _control_type(batch, _control_record(batch))


def read_marker(batch: RecordBatch) -> TransactionMarker | None:
    """The marker in a control batch; None if it holds something else.

    Raises KafkaError(CORRUPT_MESSAGE) when key or value cannot be read."""
    record = _control_record(batch)
    control_type = _control_type(batch, record)
    if control_type is None:
        return None
    if record.value is None or len(record.value) < _VALUE.size:
        raise _malformed(batch, "its value is too short")
    # Later versions only append fields.
    _version, coordinator_epoch = _VALUE.unpack_from(record.value)
    return TransactionMarker(
        batch.producer_id, batch.producer_epoch, control_type, coordinator_epoch
    )


def _malformed(batch: RecordBatch, reason: str) -> KafkaError:
    return KafkaError(
        ErrorCode.CORRUPT_MESSAGE, f"control batch at offset {batch.base_offset}: {reason}"
    )


def _control_record(batch: RecordBatch) -> Record:
    assert batch.is_control, batch
    records = list(read_records(batch, _CONTROL_BYTES_MAX)) if batch.record_count == 1 else []
    if len(records) != 1:
        raise _malformed(batch, f"it holds {batch.record_count} records")
    return records[0]


def _control_type(batch: RecordBatch, record: Record) -> ControlType | None:
    if record.key is None or len(record.key) < _KEY.size:
        raise _malformed(batch, "its key is too short")
    _version, number = _KEY.unpack_from(record.key)
    return _TYPES.get(number)
