"""Encodes and decodes keys and values of ``__transaction_state``, in Kafka's format.

A key is an int16 0 and the transactional id; a value starts with its version, and a null value is a
tombstone. Version 0 is the classic layout and 1 the flexible one, whose tags hold the fields of
transaction version 2. A record of an unknown kind or version comes from a newer broker and is
skipped, as are corrupt records: refusing to load would take all ids down.
"""

from __future__ import annotations

from struct import Struct
from typing import TYPE_CHECKING

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.transaction.metadata import (
    EPOCH_BUMPS_SINCE,
    LAST_USABLE_EPOCH,
    NO_EPOCH,
    NO_PRODUCER_ID,
    TransactionMetadata,
)
from ottla.coordinator.transaction.states import STORED_STATES, TransactionState
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.primitives import STRING_BYTES_MAX
from ottla.protocol.schema import (
    WireType,
    array,
    int8,
    int16,
    int32,
    int64,
    message,
    schema_of,
    string,
    struct,
)

if TYPE_CHECKING:
    from ottla.coordinator.failures import Skipped

_KEY_KIND = 0
_INT16 = Struct(">h")
_CLASSIC_VERSION = 0
_TAGGED_VERSION = 1
_STATES = {int(state): state for state in STORED_STATES}


@struct
class TransactionPartitions:
    topic: str = string()
    partition_ids: list[int] = array(WireType.INT32)


@message("0-1", flexible="1+")
class TransactionLogValue:
    """Times are wall clock milliseconds. The partitions are null in the state Empty."""

    producer_id: int = int64()
    previous_producer_id: int = int64("1+", tag=0, default=-1, ignorable=True)
    next_producer_id: int = int64("1+", tag=1, default=-1, ignorable=True)
    producer_epoch: int = int16()
    # Of two-phase commit (KIP-939), which is not supported: read from others' records and ignored.
    next_producer_epoch: int = int16("1+", tag=3, default=-1, ignorable=True)
    transaction_timeout_ms: int = int32()
    transaction_status: int = int8()
    transaction_partitions: list[TransactionPartitions] | None = array(
        TransactionPartitions, nullable="0+"
    )
    transaction_last_update_timestamp_ms: int = int64()
    transaction_start_timestamp_ms: int = int64()
    client_transaction_version: int = int16("1+", tag=2, ignorable=True)


class StoredTransaction(NamedTuple):
    """A decoded record; metadata of None deletes the id."""

    transactional_id: str
    metadata: TransactionMetadata | None


def encode_key(transactional_id: str) -> bytes:
    """The key of an id's records. Raises ValueError for an id longer than a key can hold."""
    encoded = transactional_id.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(f"a transactional id of {len(encoded)} bytes")
    return _INT16.pack(_KEY_KIND) + _INT16.pack(len(encoded)) + encoded


def decode_key(key: bytes) -> str | None:
    """The id that a key names; None for an unknown kind. Raises RemoteProtocolError."""
    if len(key) < _INT16.size:
        raise RemoteProtocolError(f"a key of {len(key)} bytes")
    if _INT16.unpack_from(key)[0] != _KEY_KIND:
        return None
    start = 2 * _INT16.size
    if len(key) < start or _INT16.unpack_from(key, _INT16.size)[0] != len(key) - start:
        raise RemoteProtocolError(f"a key of {len(key)} bytes whose id has another size")
    try:
        return key[start:].decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("a transactional id that is not UTF-8") from None


def encode_value(metadata: TransactionMetadata) -> bytes:
    """The value of a record, in version 1 only if version 0 would lose a field.

    Ids of producers that do not raise epochs stay readable for every coordinator since 0.11."""
    assert metadata.state in STORED_STATES, f"{metadata.state.label} is never written"
    is_empty = metadata.state is TransactionState.EMPTY
    assert not is_empty or not metadata.partitions, "an empty transaction has no partitions"
    version = _TAGGED_VERSION if metadata.needs_tags else _CLASSIC_VERSION
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        previous_producer_id=metadata.previous_producer_id,
        next_producer_id=metadata.next_producer_id,
        producer_epoch=metadata.producer_epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None if is_empty else _grouped(metadata.partitions),
        transaction_last_update_timestamp_ms=metadata.last_update_wall_ms,
        transaction_start_timestamp_ms=metadata.start_wall_ms,
        client_transaction_version=metadata.client_version,
    )
    return _INT16.pack(version) + encode(value, version)


def decode_value(value: bytes) -> TransactionMetadata | None:
    """The decoded value; None for an unknown version. Raises RemoteProtocolError."""
    if len(value) < _INT16.size:
        raise RemoteProtocolError(f"a value of {len(value)} bytes")
    (version,) = _INT16.unpack_from(value)
    if not schema_of(TransactionLogValue).versions.holds(version):
        return None
    read = decode(TransactionLogValue, version, memoryview(value)[_INT16.size :])
    state = _STATES.get(read.transaction_status)
    if state is None:
        raise RemoteProtocolError(f"a transaction in state {read.transaction_status}")
    if read.producer_id < 0 or read.producer_epoch < NO_EPOCH:
        raise RemoteProtocolError(f"producer {read.producer_id}, epoch {read.producer_epoch}")
    is_open = state is TransactionState.ONGOING or state.is_prepared
    topics = read.transaction_partitions if is_open else None
    return TransactionMetadata(
        producer_id=read.producer_id,
        producer_epoch=read.producer_epoch,
        timeout_ms=read.transaction_timeout_ms,
        state=state,
        partitions=frozenset(
            TopicPartition(topic.topic, partition)
            for topic in topics or ()
            for partition in topic.partition_ids
        ),
        last_update_wall_ms=read.transaction_last_update_timestamp_ms,
        start_wall_ms=read.transaction_start_timestamp_ms,
        client_version=read.client_transaction_version,
        previous_producer_id=read.previous_producer_id,
        next_producer_id=read.next_producer_id,
        last_producer_epoch=_last_epoch(read, state),
    )


def decode_record(record: LogRecord, skipped: Skipped) -> StoredTransaction | None:
    """A record of the log, decoded; None, and counted in ``skipped``, if it must be skipped."""
    try:
        transactional_id = decode_key(record.key)
        metadata = None
        if transactional_id is not None and record.value is not None:
            metadata = decode_value(record.value)
    except RemoteProtocolError as error:
        skipped.add_corrupt(str(error))
        return None
    if transactional_id is None or (metadata is None and record.value is not None):
        skipped.unknown_count += 1
        return None
    return StoredTransaction(transactional_id, metadata)


def state_record(transactional_id: str, metadata: TransactionMetadata) -> LogRecord:
    """The record that stores an id's state."""
    return LogRecord(encode_key(transactional_id), encode_value(metadata))


def tombstone(transactional_id: str) -> LogRecord:
    """The record that deletes an id."""
    return LogRecord(encode_key(transactional_id), None)


def _grouped(partitions: frozenset[TopicPartition]) -> list[TransactionPartitions]:
    """Sorted, so that equal transactions have equal bytes."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [TransactionPartitions(topic, numbers) for topic, numbers in topics.items()]


def _last_epoch(read: TransactionLogValue, state: TransactionState) -> int:
    """The previous epoch, if it can be derived from the record; else NO_EPOCH.

    No field has it, but ending a transaction under version 2 raises the epoch by one or changes the
    producer id; a producer that did not get the response may send the epoch that it knows to
    another coordinator (KIP-360)."""
    has_bumped = read.client_transaction_version >= EPOCH_BUMPS_SINCE
    if not has_bumped or not (state.is_prepared or state.is_complete):
        return NO_EPOCH
    has_rotated = read.previous_producer_id not in (NO_PRODUCER_ID, read.producer_id)
    if state.is_complete and has_rotated:
        return LAST_USABLE_EPOCH
    return read.producer_epoch - 1
