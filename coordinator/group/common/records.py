"""Keys and values of ``__consumer_offsets``: bytes to values and back.

Both start with an int16: the kind of record in a key, the version in a value; a null value is a
tombstone. A kind or version that nobody here knows comes from a newer broker and is passed over:
a coordinator that refused to load would take all its groups down. What cannot be read is passed
over too, and counted. The layouts of values are in record_values.py.
"""

from __future__ import annotations

from enum import IntEnum
from struct import Struct
from typing import TYPE_CHECKING

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.group.common.record_values import (
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataValue,
    ConsumerGroupPartitionMetadataValue,
    ConsumerGroupRegularExpressionValue,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataValue,
    OffsetCommitValue,
)
from ottla.protocol.compile import decode, encode
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.primitives import STRING_BYTES_MAX
from ottla.protocol.schema import schema_of

if TYPE_CHECKING:
    from ottla.coordinator.failures import Skipped

RecordValue = (
    OffsetCommitValue
    | GroupMetadataValue
    | ConsumerGroupMetadataValue
    | ConsumerGroupPartitionMetadataValue
    | ConsumerGroupMemberMetadataValue
    | ConsumerGroupTargetAssignmentMetadataValue
    | ConsumerGroupTargetAssignmentMemberValue
    | ConsumerGroupCurrentMemberAssignmentValue
    | ConsumerGroupRegularExpressionValue
)


class RecordKind(IntEnum):
    """What a record is about: the int16 its key starts with, and in brackets the rest of it."""

    # [group, topic, partition]; nobody has written the first one for ten years.
    LEGACY_OFFSET_COMMIT = 0
    OFFSET_COMMIT = 1
    # [group]
    GROUP_METADATA = 2
    CONSUMER_GROUP_METADATA = 3
    CONSUMER_GROUP_PARTITION_METADATA = 4
    # [group, member]
    CONSUMER_GROUP_MEMBER_METADATA = 5
    # [group]
    CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA = 6
    # [group, member]
    CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER = 7
    CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT = 8
    # [group, expression]
    CONSUMER_GROUP_REGULAR_EXPRESSION = 16


class RecordKey(NamedTuple):
    """``name`` is the topic, the member id or the regular expression, as the kind has it."""

    kind: RecordKind
    group_id: str
    name: str = ""
    partition: int = -1


class CommittedOffset(NamedTuple):
    """What a commit stored; -1 is no leader epoch, and no time of its own to expire at."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_wall_ms: int
    expire_wall_ms: int = -1


class GroupRecord(NamedTuple):
    """One record that was understood; without a value it deletes what its key names."""

    key: RecordKey
    value: RecordValue | None


VALUE_OF_KIND: dict[RecordKind, type[RecordValue]] = {
    RecordKind.OFFSET_COMMIT: OffsetCommitValue,
    RecordKind.GROUP_METADATA: GroupMetadataValue,
    RecordKind.CONSUMER_GROUP_METADATA: ConsumerGroupMetadataValue,
    RecordKind.CONSUMER_GROUP_PARTITION_METADATA: ConsumerGroupPartitionMetadataValue,
    RecordKind.CONSUMER_GROUP_MEMBER_METADATA: ConsumerGroupMemberMetadataValue,
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_METADATA: (
        ConsumerGroupTargetAssignmentMetadataValue
    ),
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER: ConsumerGroupTargetAssignmentMemberValue,
    RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT: ConsumerGroupCurrentMemberAssignmentValue,
    RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION: ConsumerGroupRegularExpressionValue,
}
KIND_OF_VALUE = {declared: kind for kind, declared in VALUE_OF_KIND.items()}
# Version 3 of offsets and classic groups: every broker since 2.1 reads it.
WRITTEN_VERSIONS: dict[type, int] = {OffsetCommitValue: 3, GroupMetadataValue: 3}

_KINDS = {int(kind): kind for kind in RecordKind}
_OFFSET_KINDS = (RecordKind.LEGACY_OFFSET_COMMIT, RecordKind.OFFSET_COMMIT)
_NAMED_KINDS = (
    RecordKind.CONSUMER_GROUP_MEMBER_METADATA,
    RecordKind.CONSUMER_GROUP_TARGET_ASSIGNMENT_MEMBER,
    RecordKind.CONSUMER_GROUP_CURRENT_MEMBER_ASSIGNMENT,
    RecordKind.CONSUMER_GROUP_REGULAR_EXPRESSION,
)
_INT16 = Struct(">h")
_INT32 = Struct(">i")
# Version, offset, leader epoch and size of the metadata; the commit's timestamp follows that.
_OFFSET_VALUE = Struct(">hqih")
_TIMESTAMP = Struct(">q")
_OFFSET_VALUE_BYTES = _OFFSET_VALUE.size + 8
_OFFSET_VERSION = WRITTEN_VERSIONS[OffsetCommitValue]
_EXPIRING_OFFSET_VERSION = 1


def encode_key(kind: RecordKind, group_id: str, name: str = "", partition: int = -1) -> bytes:
    """The key of a record. Raises ValueError for a name that no key can hold."""
    key = _INT16.pack(kind) + _string(group_id)
    if kind in _OFFSET_KINDS:
        return key + _string(name) + _INT32.pack(partition)
    return key + _string(name) if kind in _NAMED_KINDS else key


def decode_key(key: bytes) -> RecordKey | None:
    """What a key names; None for a kind that is not known here. Raises RemoteProtocolError.

    Both kinds of offset commits come out as OFFSET_COMMIT."""
    if len(key) < _INT16.size:
        raise RemoteProtocolError(f"a key of {len(key)} bytes")
    kind = _KINDS.get(_INT16.unpack_from(key)[0])
    if kind is None:
        return None
    group_id, position = _read_string(key, 2)
    name, partition = "", -1
    if kind in _OFFSET_KINDS:
        kind = RecordKind.OFFSET_COMMIT
        name, position = _read_string(key, position)
        if len(key) - position != _INT32.size:
            raise RemoteProtocolError(f"{len(key) - position} bytes where the partition should be")
        (partition,) = _INT32.unpack_from(key, position)
        position += _INT32.size
        if partition < 0:
            raise RemoteProtocolError(f"a commit for partition {partition}")
    elif kind in _NAMED_KINDS:
        name, position = _read_string(key, position)
    if position != len(key):
        raise RemoteProtocolError(f"{len(key) - position} bytes follow the key")
    return RecordKey(kind, group_id, name, partition)


def encode_value(value: RecordValue, version: int | None = None) -> bytes:
    """The bytes of a value, in the version that is written unless told. Raises ValueError."""
    if version is None:
        version = WRITTEN_VERSIONS.get(type(value), 0)
    return _INT16.pack(version) + encode(value, version)


def decode_value(kind: RecordKind, value: bytes) -> RecordValue | None:
    """The value of a key of that kind; None for a version that is not known here.

    Raises RemoteProtocolError."""
    if len(value) < _INT16.size:
        raise RemoteProtocolError(f"a value of {len(value)} bytes")
    (version,) = _INT16.unpack_from(value)
    declared = VALUE_OF_KIND[kind]
    if not schema_of(declared).versions.holds(version):
        return None
    return decode(declared, version, memoryview(value)[_INT16.size :])


def decode_record(record: LogRecord, skipped: Skipped) -> GroupRecord | None:
    """A record as it was read from the log; None, and counted, where it has to be passed over."""
    try:
        key = decode_key(record.key)
        value = None
        if key is not None and record.value is not None:
            value = decode_value(key.kind, record.value)
    except RemoteProtocolError as error:
        skipped.add_corrupt(str(error))
        return None
    if key is None or (value is None and record.value is not None):
        skipped.unknown_count += 1
        return None
    return GroupRecord(key, value)


def group_record(group_id: str, value: RecordValue, name: str = "") -> LogRecord:
    """The record that stores something of a group; ``name`` as the key of its kind has it."""
    assert not isinstance(value, OffsetCommitValue), "has a partition: see offset_record"
    return LogRecord(encode_key(KIND_OF_VALUE[type(value)], group_id, name), encode_value(value))


def group_tombstone(kind: RecordKind, group_id: str, name: str = "") -> LogRecord:
    """The record that deletes something of a group."""
    return LogRecord(encode_key(kind, group_id, name), None)


def encode_offset(committed: CommittedOffset) -> bytes:
    """The value of an offset commit. Raises ValueError for metadata that none can hold.

    One with an expiry of its own takes version 1, the only one that stores that; it comes from
    requests that are older than leader epochs."""
    offset, leader_epoch, metadata, commit_wall_ms, expire_wall_ms = committed
    if expire_wall_ms != -1:
        value = OffsetCommitValue(offset, -1, metadata, commit_wall_ms, expire_wall_ms)
        return encode_value(value, _EXPIRING_OFFSET_VERSION)
    text = metadata.encode()
    if len(text) > STRING_BYTES_MAX:
        raise ValueError(f"metadata of {len(text)} bytes")
    head = _OFFSET_VALUE.pack(_OFFSET_VERSION, offset, leader_epoch, len(text))
    return head + text + _TIMESTAMP.pack(commit_wall_ms)


def is_plain_offset(value: bytes) -> bool:
    """Whether a value is surely a well-formed offset commit of today: by far the most are.

    HOT when loading; what it does not vouch for takes the long way through ``decode_offset``."""
    size = len(value) - _OFFSET_VALUE_BYTES
    if size == 0:
        return value[:2] == b"\0\3" and value[14:16] == b"\0\0"
    if value[:2] != b"\0\3" or size < 0 or int.from_bytes(value[14:16]) != size:
        return False
    return size <= STRING_BYTES_MAX and value[16:-8].isascii()


def decode_offset(value: bytes) -> CommittedOffset | None:
    """What a commit stored; None for a version that is not known. Raises RemoteProtocolError."""
    if is_plain_offset(value):
        _, offset, leader_epoch, size = _OFFSET_VALUE.unpack_from(value)
        metadata = str(value[16 : 16 + size], "ascii") if size else ""
        return CommittedOffset(offset, leader_epoch, metadata, *_TIMESTAMP.unpack(value[-8:]))
    read = decode_value(RecordKind.OFFSET_COMMIT, value)
    if read is None:
        return None
    assert isinstance(read, OffsetCommitValue)
    return CommittedOffset(
        read.offset,
        read.leader_epoch,
        read.metadata,
        read.commit_timestamp,
        read.expire_timestamp,
    )


def _string(text: str) -> bytes:
    encoded = text.encode()
    if len(encoded) > STRING_BYTES_MAX:
        raise ValueError(f"a name of {len(encoded)} bytes")
    return _INT16.pack(len(encoded)) + encoded


def _read_string(key: bytes, position: int) -> tuple[str, int]:
    start = position + _INT16.size
    if start > len(key):
        raise RemoteProtocolError(f"a key that ends at byte {len(key)}, before its names")
    (size,) = _INT16.unpack_from(key, position)
    end = start + size
    if size < 0 or end > len(key):
        raise RemoteProtocolError(f"a name of {size} bytes at byte {start} of {len(key)}")
    try:
        return key[start:end].decode(), end
    except UnicodeDecodeError:
        raise RemoteProtocolError(f"a name at byte {start} is not UTF-8") from None
