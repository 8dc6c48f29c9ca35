"""The verdict on produced records before they touch the log, and what must be done to them first.

Only the header and the checksum are looked at. Records are read (by the caller, who may give that
to a worker) in the cases that ``Look`` names, and ``judge_inside`` judges what was found. Sequence
numbers are for producer.py, acks and roles for partition.py.

The checksum is checked before any field under it is believed: a flipped bit must answer
CORRUPT_MESSAGE, which clients repeat, and not INVALID_RECORD, which they do not.
"""

from __future__ import annotations

from dataclasses import field
from enum import Flag, auto
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import (
    APPEND_TIME_BIT,
    CONTROL_BIT,
    CRC_END,
    DELETE_HORIZON_BIT,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    RecordBatch,
    check_crc,
    parse_batch,
)
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer
    from ottla.protocol.records.validation import RecordsSummary

INT64_MAX = 2**63 - 1
_ZSTD_VERSION = 7
_BROKERS_BITS = CONTROL_BIT | DELETE_HORIZON_BIT


@dataclass(frozen=True, slots=True)
class AppendRules:
    """A topic's configuration as far as it concerns produced batches; made anew when it changes.

    ``codec`` is what ``compression.type`` asks for, None for "producer". The time limits are
    ``message.timestamp.before.max.ms`` and ``.after.max.ms`` (KIP-937)."""

    max_message_bytes: int = 1024 * 1024 + 12
    segment_bytes: int = 1024 * 1024 * 1024
    is_compacted: bool = False
    uses_append_time: bool = False
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 60 * 60 * 1000
    codec: Codec | None = None
    # No more than this, and records that nobody needs to look into, let alone to change.
    plain_bytes_max: int = field(init=False)

    def __post_init__(self) -> None:
        is_plain = (
            not self.is_compacted
            and not self.uses_append_time
            and self.codec is None
            and self.timestamp_before_max_ms == INT64_MAX
        )
        plain_bytes_max = min(self.max_message_bytes, self.segment_bytes) if is_plain else -1
        object.__setattr__(self, "plain_bytes_max", plain_bytes_max)


class Look(Flag):
    """Why the records of a batch have to be read."""

    NOT = 0
    # A compacted topic cannot keep records without a key (hazard S-27).
    KEYS = auto()
    # The header tells the largest timestamp but not the smallest.
    TIMESTAMPS = auto()
    # The broker is asked for another codec than the producer's.
    CODEC = auto()
    # The broker vouches for the times of records that it cannot see from outside.
    APPEND_TIME = auto()


# Looked up once: reading a member of an enumeration costs as much as a call.
_NONE = ErrorCode.NONE
_NOT = Look.NOT
_ZSTD = Codec.ZSTD
_new_tuple = tuple.__new__


class AppendPlan(NamedTuple):
    """What becomes of produced records. With an error nothing of them may be written."""

    error: ErrorCode
    message: str | None = None
    batch: RecordBatch | None = None
    look: Look = Look.NOT
    # The codec to write with, None to keep the bytes as they came.
    recompress: Codec | None = None
    # Stamp the batch with the append time instead of the producer's times.
    stamps_time: bool = False


class InsideVerdict(NamedTuple):
    """The verdict on records that were read. One bad record refuses the whole batch (KIP-467)."""

    error: ErrorCode = ErrorCode.NONE
    message: str | None = None
    # Index within the batch and reason.
    record_errors: tuple[tuple[int, str], ...] = ()


def judge_produced(
    records: Buffer | None, rules: AppendRules, api_version: int, wall_ms: int
) -> AppendPlan:
    """Judge the records of one partition of a produce request of version 3 or later.

    ``wall_ms`` is what the producer's timestamps are compared with."""
    if records is None or len(records) <= MAGIC_POSITION or records[MAGIC_POSITION] != MAGIC:
        return _refuse(ErrorCode.INVALID_RECORD, "one record batch of format 2 is wanted")
    try:
        batch = parse_batch(records)
        if batch.size_bytes != len(records):
            return _refuse(ErrorCode.INVALID_RECORD, "exactly one record batch is wanted")
        if batch.size_bytes > rules.max_message_bytes:
            return _too_large(batch, ErrorCode.MESSAGE_TOO_LARGE, rules.max_message_bytes)
        if batch.size_bytes > rules.segment_bytes:
            return _too_large(batch, ErrorCode.RECORD_LIST_TOO_LARGE, rules.segment_bytes)
        if not check_crc(batch):
            return _refuse(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
        codec = batch.codec
        if codec is _ZSTD and api_version < _ZSTD_VERSION:
            return _refuse(
                ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
                f"zstd needs version {_ZSTD_VERSION} of the produce request",
            )
    except KafkaError as error:
        return _refuse(error.code, error.message)
    reason = _contradiction(batch)
    if reason is not None:
        return _refuse(ErrorCode.INVALID_RECORD, reason)
    reason = _wrong_time(batch, rules, wall_ms)
    if reason is not None:
        return _refuse(ErrorCode.INVALID_TIMESTAMP, reason)
    return _plan(batch, codec, rules)


def judge_plain(records: Buffer, rules: AppendRules, wall_ms: int) -> RecordBatch | None:
    """The one batch in the records of a produce request of version 7 or later, if it may be
    written as it came and belongs to no transaction.

    None: ask ``judge_produced``, which accepts all that is accepted here. HOT."""
    try:
        batch = parse_batch(records)
    except KafkaError:
        return None
    size_bytes = batch.size_bytes
    count = batch.record_count
    latest_ms = wall_ms + rules.timestamp_after_max_ms
    if (
        size_bytes != len(records)
        or size_bytes > rules.plain_bytes_max
        or batch.base_offset != 0
        or not 0 < count == batch.last_offset_delta + 1
        or not 0 <= batch.attributes <= _ZSTD
        or not NO_TIMESTAMP <= batch.max_timestamp <= latest_ms
        or not NO_TIMESTAMP <= batch.base_timestamp <= latest_ms
        or crc32c(batch.buffer[CRC_END:]) != batch.crc
    ):
        return None
    if batch.producer_id != NO_PRODUCER_ID and (
        batch.producer_id < 0 or batch.producer_epoch < 0 or batch.base_sequence < 0
    ):
        return None
    return batch


def _refuse(error: ErrorCode, message: str) -> AppendPlan:
    return AppendPlan(error, message)


def _too_large(batch: RecordBatch, error: ErrorCode, limit_bytes: int) -> AppendPlan:
    return _refuse(error, f"the batch has {batch.size_bytes} bytes, {limit_bytes} are allowed")


def _contradiction(batch: RecordBatch) -> str | None:
    """What in the header no producer may say, if anything."""
    if batch.base_offset != 0:
        return f"the base offset of a produced batch is 0, not {batch.base_offset}"
    count = batch.record_count
    if count <= 0 or count != batch.last_offset_delta + 1:
        return f"{count} records with a last offset delta of {batch.last_offset_delta}"
    if batch.attributes & _BROKERS_BITS:
        return "only brokers write control batches and set delete horizons"
    if batch.producer_id != NO_PRODUCER_ID:
        if batch.producer_id < 0 or batch.producer_epoch < 0 or batch.base_sequence < 0:
            return (
                f"producer {batch.producer_id} with epoch {batch.producer_epoch} "
                f"and sequence {batch.base_sequence}"
            )
    elif batch.is_transactional:
        # A sequence alone means nothing: some clients leave a 0 in the field.
        return "a transaction without a producer id"
    return None


def _wrong_time(batch: RecordBatch, rules: AppendRules, wall_ms: int) -> str | None:
    """What is wrong with the times in the header, if anything.

    A time from far away would delete its segment at once, or never (hazard S-17)."""
    if batch.attributes & APPEND_TIME_BIT:
        return "only the broker sets append times"
    if rules.uses_append_time:
        return None
    latest, earliest = batch.max_timestamp, batch.base_timestamp
    wrong = _out_of_range(latest, rules, wall_ms)
    if wrong is None and earliest != latest:
        wrong = _out_of_range(earliest, rules, wall_ms)
    return wrong


def _out_of_range(timestamp: int, rules: AppendRules, wall_ms: int) -> str | None:
    if timestamp == NO_TIMESTAMP:
        return None
    if timestamp - wall_ms > rules.timestamp_after_max_ms:
        return (
            f"timestamp {timestamp} is more than {rules.timestamp_after_max_ms} ms "
            "after the broker's time"
        )
    if wall_ms - timestamp > rules.timestamp_before_max_ms:
        return (
            f"timestamp {timestamp} is more than {rules.timestamp_before_max_ms} ms "
            "before the broker's time"
        )
    return None


def _plan(batch: RecordBatch, codec: Codec, rules: AppendRules) -> AppendPlan:
    # Operators of Flag cost a microsecond each, so the ordinary batch meets none.
    look = Look.KEYS if rules.is_compacted else _NOT
    recompress = None
    if rules.codec is not None and rules.codec is not codec:
        look |= Look.CODEC
        recompress = rules.codec
    if rules.uses_append_time:
        if batch.is_compressed:
            look |= Look.APPEND_TIME
    elif rules.timestamp_before_max_ms < INT64_MAX:
        look |= Look.TIMESTAMPS
    # Made directly: the tuple's own constructor is a Python function and twice as slow.
    plan: AppendPlan = _new_tuple(
        AppendPlan, (_NONE, None, batch, look, recompress, rules.uses_append_time)
    )
    return plan


def judge_inside(summary: RecordsSummary, rules: AppendRules, wall_ms: int) -> InsideVerdict:
    """Judge what was found by reading the records of a batch that has passed ``judge_produced``.

    A wrong time is the error of the batch even if other records have other faults."""
    faults: list[tuple[int, str]] = []
    error = ErrorCode.NONE
    if rules.is_compacted:
        faults = [
            (index, "a compacted topic needs records with keys")
            for index in summary.keyless_indexes
        ]
        error = ErrorCode.INVALID_RECORD if faults else error
    if not rules.uses_append_time:
        late = _out_of_range(summary.max_timestamp, rules, wall_ms)
        early = _out_of_range(summary.min_timestamp, rules, wall_ms)
        if late is not None:
            faults.append((summary.max_timestamp_offset_delta, late))
        if late is not None or early is not None:
            error = ErrorCode.INVALID_TIMESTAMP
            return InsideVerdict(error, late or early, tuple(sorted(faults)))
    message = faults[0][1] if faults else None
    return InsideVerdict(error, message, tuple(faults))


class AppendTime:
    """The append times of one partition, which never go back though the wall clock may (S-18)."""

    __slots__ = ("_last_ms",)

    def __init__(self, last_ms: int = NO_TIMESTAMP) -> None:
        self._last_ms = last_ms

    def next(self, wall_ms: int) -> int:
        """The time to stamp the next batch with."""
        self._last_ms = max(self._last_ms, wall_ms)
        return self._last_ms
