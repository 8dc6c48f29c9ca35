"""Validates produced records before they are appended, and plans how to rewrite them.

It checks header and checksum, and walks over uncompressed records. Other records are decoded for
the reasons in ``ReadReason`` (by the caller, perhaps in a worker thread), and record_checks.py
validates them. Sequence numbers belong to producer.py, acks and roles to partition.py. Codes are
those of Apache Kafka. HOT: once for each partition of a request.

The checksum is verified before any field that it covers: a flipped bit must result in
CORRUPT_MESSAGE, which clients retry, and not in INVALID_RECORD, which they do not.
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
    CODEC_BITS,
    CONTROL_BIT,
    CRC_END,
    DELETE_HORIZON_BIT,
    HEADER_BYTES,
    LENGTH_END,
    LENGTH_POSITION,
    MAGIC,
    MAGIC_POSITION,
    NO_PRODUCER_ID,
    NO_TIMESTAMP,
    TRANSACTIONAL_BIT,
    RecordBatch,
    parse_header,
)
from ottla.protocol.records.compression import CODECS, Codec
from ottla.protocol.records.crc32c import crc32c
from ottla.protocol.records.survey import survey_records, surveyed_batch

if TYPE_CHECKING:
    from ottla.protocol.ports import Buffer

INT64_MAX = 2**63 - 1
_ZSTD_VERSION = 7
# The smallest size of any format.
_OLDEST_BYTES_MIN = 26
# Attribute bits that only brokers may set, since they mean something to readers.
BROKERS_BITS = APPEND_TIME_BIT | DELETE_HORIZON_BIT


@dataclass(frozen=True, slots=True)
class AppendRules:
    """A topic's settings for produced batches; replaced when the configuration changes.

    ``codec`` is the one of ``compression.type``, None for "producer". The time limits are
    ``message.timestamp.before.max.ms`` and ``.after.max.ms`` (KIP-937)."""

    max_message_bytes: int = 1024 * 1024 + 12
    segment_bytes: int = 1024 * 1024 * 1024
    is_compacted: bool = False
    uses_append_time: bool = False
    timestamp_before_max_ms: int = INT64_MAX
    timestamp_after_max_ms: int = 60 * 60 * 1000
    codec: Codec | None = None
    # The level at which the broker recompresses; None is the codec's default.
    compression_level: int | None = None
    # Whether records are checked before they are acknowledged (ottla.validate.records).
    validates: bool = True
    # Whether no setting depends on single records.
    is_plain: bool = field(init=False)

    def __post_init__(self) -> None:
        is_plain = (
            not self.is_compacted
            and not self.uses_append_time
            and self.codec is None
            and self.timestamp_before_max_ms == INT64_MAX
        )
        object.__setattr__(self, "is_plain", is_plain)


class ReadReason(Flag):
    """Why the records of a batch have to be decoded."""

    NOT = 0
    # A compacted topic cannot keep records without a key (hazard S-27).
    KEYS = auto()
    # The header has the largest timestamp but not the smallest.
    TIMESTAMPS = auto()
    # The topic requires another codec than the producer's.
    CODEC = auto()
    # Compressed records get append times, so the broker must have decoded them.
    APPEND_TIME = auto()
    # Malformed records would stop every consumer (hazard S-31).
    FORM = auto()
    # The header has bits that only a broker may set: append times, a delete horizon.
    HEADER = auto()


# Bound once: reading an enumeration's member costs as much as a call.
_NONE = ErrorCode.NONE
_NOT = ReadReason.NOT
_FORM = ReadReason.FORM
_ZSTD = int(Codec.ZSTD)
_TRANSACTION_BITS = CONTROL_BIT | TRANSACTIONAL_BIT
_new_tuple = tuple.__new__


class AppendPlan(NamedTuple):
    """How produced records are written; if ``error`` is set, none of them is."""

    error: ErrorCode
    # The reason, for the broker's log, and for the response if ``is_told``.
    message: str | None = None
    batch: RecordBatch | None = None
    look: ReadReason = ReadReason.NOT
    # The codec to write with; None to keep the bytes.
    recompress: Codec | None = None
    # Stamp the batch with the append time instead of the producer's times.
    stamps_time: bool = False
    # Refused before the partition is read: the response has no log start offset.
    is_early: bool = False
    is_told: bool = False


def judge_produced(
    records: Buffer | None, rules: AppendRules, api_version: int, wall_ms: int
) -> RecordBatch | AppendPlan:
    """Validate the records of one partition of a produce request of version 3 or later.

    Returns the batch if it can be written unchanged and at once. That is the usual case, unless it
    is compressed, in a transaction, or the topic has special settings. ``wall_ms`` is compared with
    the producer's timestamps."""
    if records is None:
        return _refuse_early(ErrorCode.INVALID_RECORD, "there are no records")
    if rules.is_plain and rules.validates and records.__class__ is memoryview:
        # The usual case. It accepts no batch that the steps below would refuse.
        sound = surveyed_batch(records)
        if (
            sound is not None
            and sound.size_bytes <= rules.max_message_bytes
            and sound.size_bytes <= rules.segment_bytes
            and sound.max_timestamp - wall_ms <= rules.timestamp_after_max_ms
        ):
            return sound
    try:
        batch = parse_header(records)
    except KafkaError as error:
        return _misframed(records) or _refuse(error.code, error.message)
    size_bytes, attributes = batch.size_bytes, batch.attributes
    if size_bytes != len(records):
        plan = _misframed(records)
        if plan is not None:
            return plan
    number = attributes & CODEC_BITS
    if number == _ZSTD and api_version < _ZSTD_VERSION:
        return _refuse_early(
            ErrorCode.UNSUPPORTED_COMPRESSION_TYPE,
            f"zstd needs version {_ZSTD_VERSION} of the produce request",
        )
    if batch.base_offset != 0:
        return _refuse(
            ErrorCode.INVALID_RECORD,
            f"the base offset of a produced batch is 0, not {batch.base_offset}",
        )
    if size_bytes > rules.max_message_bytes:
        return _too_large(batch, ErrorCode.MESSAGE_TOO_LARGE, rules.max_message_bytes)
    if crc32c(batch.buffer[CRC_END:size_bytes]) != batch.crc:
        return _refuse(ErrorCode.CORRUPT_MESSAGE, "the checksum of the batch is wrong")
    if number > _ZSTD:
        return _refuse_told(f"the batch names compression codec {number}, which does not exist")
    count, producer_id = batch.record_count, batch.producer_id
    if (
        count <= 0
        or count != batch.last_offset_delta + 1
        or attributes & _TRANSACTION_BITS
        or (producer_id != NO_PRODUCER_ID and (producer_id < 0 or batch.base_sequence < 0))
    ):
        # Almost no batch needs the call.
        reason = _contradiction(batch)
        if reason is not None:
            return _refuse(ErrorCode.INVALID_RECORD, reason)
    if not rules.validates:
        reason = _wrong_time(batch, rules, wall_ms)
        if reason is not None:
            return _refuse(ErrorCode.INVALID_TIMESTAMP, reason)
    if size_bytes > rules.segment_bytes:
        return _too_large(batch, ErrorCode.RECORD_LIST_TOO_LARGE, rules.segment_bytes)
    if (
        rules.is_plain
        and not attributes & BROKERS_BITS
        and (not rules.validates or (not number and is_sound(batch, rules, wall_ms)))
    ):
        return AppendPlan(_NONE, None, batch) if attributes & TRANSACTIONAL_BIT else batch
    return _plan(batch, CODECS[number], rules)


def is_sound(batch: RecordBatch, rules: AppendRules, wall_ms: int) -> bool:
    """Whether uncompressed records can be written unchanged."""
    count = batch.record_count
    index, end, earliest, latest, keyless = survey_records(
        batch.buffer, batch.position + HEADER_BYTES, 0, count, batch.base_timestamp
    )
    if index != count or end != batch.position + batch.size_bytes:
        return False
    if keyless >= 0 and rules.is_compacted:
        return False
    if rules.uses_append_time:
        return True
    if latest != batch.max_timestamp:
        return False
    if (
        rules.timestamp_before_max_ms == INT64_MAX
        and latest - wall_ms <= rules.timestamp_after_max_ms
        and earliest >= NO_TIMESTAMP
    ):
        # Almost no batch needs the call.
        return True
    return not may_be_out_of_range(earliest, latest, rules, wall_ms)


def may_be_out_of_range(earliest: int, latest: int, rules: AppendRules, wall_ms: int) -> bool:
    """Whether the topic may refuse a record between these timestamps."""
    assert earliest <= latest, (earliest, latest)
    if latest - wall_ms > rules.timestamp_after_max_ms:
        return True
    if earliest == NO_TIMESTAMP:
        # A missing timestamp sorts first and hides whether another record is too early.
        return rules.timestamp_before_max_ms < INT64_MAX
    return wall_ms - earliest > rules.timestamp_before_max_ms


def _misframed(records: Buffer) -> AppendPlan | None:
    """Refuse anything but one complete batch of format 2, as Kafka does.

    An incomplete batch behind it is ignored."""
    count, position = 0, 0
    while count < 2 and len(records) - position >= LENGTH_END:
        size = LENGTH_END + int.from_bytes(
            records[position + LENGTH_POSITION : position + LENGTH_END], signed=True
        )
        if size < _OLDEST_BYTES_MIN:
            return _corrupt(f"the batch gives its size as {size} bytes, less than any batch has")
        if len(records) - position <= MAGIC_POSITION:
            break
        magic = records[position + MAGIC_POSITION]
        if magic > MAGIC:
            return _corrupt(f"the batch has format {magic}, which does not exist")
        if len(records) - position < size:
            break
        if magic != MAGIC:
            return _refuse_early(
                ErrorCode.INVALID_RECORD,
                f"the batch has format {magic}, only 2 is stored",
            )
        count += 1
        position += size
    if count != 1:
        return _refuse_early(
            ErrorCode.INVALID_RECORD, f"one record batch of format 2 is required, not {count}"
        )
    return None


def _refuse(error: ErrorCode, message: str) -> AppendPlan:
    assert error is not _NONE, "a plan without an error is written"
    return AppendPlan(error, message)


def _refuse_told(message: str) -> AppendPlan:
    # Kafka answers UNKNOWN_SERVER_ERROR, which leaves open whether the batch is stored.
    return AppendPlan(ErrorCode.INVALID_RECORD, message, is_told=True)


def _refuse_early(error: ErrorCode, message: str) -> AppendPlan:
    assert error is not _NONE, "a plan without an error is written"
    return AppendPlan(error, message, is_early=True)


def _corrupt(message: str) -> AppendPlan:
    return AppendPlan(ErrorCode.CORRUPT_MESSAGE, message, is_early=True, is_told=True)


def _too_large(batch: RecordBatch, error: ErrorCode, limit_bytes: int) -> AppendPlan:
    assert batch.size_bytes > limit_bytes, "the producer would split a batch that fits"
    return _refuse(error, f"the batch has {batch.size_bytes} bytes, {limit_bytes} are allowed")


def _contradiction(batch: RecordBatch) -> str | None:
    """Why the header is invalid for a producer; None if it is valid."""
    count, attributes, producer_id = batch.record_count, batch.attributes, batch.producer_id
    if count <= 0 or count != batch.last_offset_delta + 1:
        return f"{count} records with a last offset delta of {batch.last_offset_delta}"
    if attributes & CONTROL_BIT:
        return "only brokers write control batches"
    if producer_id > NO_PRODUCER_ID:
        if batch.base_sequence < 0:
            return f"producer {producer_id} with sequence {batch.base_sequence}"
    elif producer_id < NO_PRODUCER_ID:
        return f"there is no producer {producer_id}"
    elif attributes & TRANSACTIONAL_BIT:
        # A sequence without a producer id is ignored: some clients leave a 0 in the field.
        return "a transaction without a producer id"
    return None


def _wrong_time(batch: RecordBatch, rules: AppendRules, wall_ms: int) -> str | None:
    """Why the timestamps in the header are refused; None if they are accepted.

    A timestamp far off would delete its segment at once, or never (hazard S-17)."""
    if rules.uses_append_time:
        return "only the broker sets append times" if batch.attributes & APPEND_TIME_BIT else None
    latest, earliest = batch.max_timestamp, batch.base_timestamp
    wrong = out_of_range(latest, rules, wall_ms)
    if wrong is None and earliest != latest:
        wrong = out_of_range(earliest, rules, wall_ms)
    return wrong


def out_of_range(timestamp: int, rules: AppendRules, wall_ms: int) -> str | None:
    """Why the topic refuses a record with that timestamp; None if it accepts it."""
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
    # Operators of Flag cost a microsecond each, so an ordinary batch needs none.
    look = _FORM if rules.validates else _NOT
    if rules.is_compacted:
        look |= ReadReason.KEYS
    if batch.attributes & BROKERS_BITS:
        look |= ReadReason.HEADER
    recompress = None
    if rules.codec is not None and rules.codec is not codec:
        look |= ReadReason.CODEC
        recompress = rules.codec
    if rules.uses_append_time:
        if batch.is_compressed:
            look |= ReadReason.APPEND_TIME
    elif rules.timestamp_before_max_ms < INT64_MAX:
        look |= ReadReason.TIMESTAMPS
    # Made directly: the tuple's own constructor is a Python function and twice as slow.
    plan: AppendPlan = _new_tuple(
        AppendPlan,
        (_NONE, None, batch, look, recompress, rules.uses_append_time, False, False),
    )
    return plan


class AppendTime:
    """The append times of one partition; they never decrease, unlike the wall clock (S-18)."""

    __slots__ = ("_last_ms",)

    def __init__(self, last_ms: int = NO_TIMESTAMP) -> None:
        self._last_ms = last_ms

    def next(self, wall_ms: int) -> int:
        """The time to stamp the next batch with."""
        self._last_ms = max(self._last_ms, wall_ms)
        return self._last_ms
