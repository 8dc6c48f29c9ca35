"""Encodes and decodes keys and values of ``__consumer_offsets``.

Both start with an int16: the kind of record in a key, the version in a value; a null value is a
tombstone. A record of an unknown kind or version comes from a newer broker and is skipped:
a coordinator that refused to load would take all its groups down. Corrupt records are skipped
and counted. The layouts of values are in record_values.py.
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
    """The kind of a record: the first int16 of its key; comments show the rest of the key."""

    # [group, topic, partition]; no broker has written the first one for ten years.
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
    """``name`` is the topic, the member id or the regular expression, depending on the kind."""

    kind: RecordKind
    group_id: str
    name: str = ""
    partition: int = -1


class CommittedOffset(NamedTuple):
    """A stored commit; -1 stands for no leader epoch, and for no explicit expiry time."""

    offset: int
    leader_epoch: int
    metadata: str
    commit_wall_ms: int
    expire_wall_ms: int = -1


class GroupRecord(NamedTuple):
    """A decoded record; a value of None deletes what the key names."""

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
assert len(KIND_OF_VALUE) == len(VALUE_OF_KIND)
# Offsets and classic groups: version 3, which every broker since 2.1 reads.
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
    """The key of a record. Raises ValueError for a name longer than a key can hold."""
    assert partition >= 0 or kind not in _OFFSET_KINDS, "the next coordinator would not read it"
    key = _INT16.pack(kind) + _string(group_id)
    if kind in _OFFSET_KINDS:
        return key + _string(name) + _INT32.pack(partition)
    return key + _string(name) if kind in _NAMED_KINDS else key


def decode_key(key: bytes) -> RecordKey | None:
    """The decoded key; None for an unknown kind. Raises RemoteProtocolError.

    Both kinds of offset commits are returned as OFFSET_COMMIT."""
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
    """The bytes of a value; ``version`` defaults to the written version. Raises ValueError."""
    if version is None:
        version = WRITTEN_VERSIONS.get(type(value), 0)
    return _INT16.pack(version) + encode(value, version)


def decode_value(kind: RecordKind, value: bytes) -> RecordValue | None:
    """The value for a key of that kind; None for an unknown version.

    Raises RemoteProtocolError."""
    if len(value) < _INT16.size:
        raise RemoteProtocolError(f"a value of {len(value)} bytes")
    (version,) = _INT16.unpack_from(value)
    declared = VALUE_OF_KIND[kind]
    if not schema_of(declared).versions.holds(version):
        return None
    return decode(declared, version, memoryview(value)[_INT16.size :])


def decode_record(record: LogRecord, skipped: Skipped) -> GroupRecord | None:
    """A record of the log, decoded; None, and counted in ``skipped``, if it must be skipped."""
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
    """The record that stores a value for a group; ``name`` as in the key of its kind."""
    assert not isinstance(value, OffsetCommitValue), "has a partition: see offset_record"
    return LogRecord(encode_key(KIND_OF_VALUE[type(value)], group_id, name), encode_value(value))


def group_tombstone(kind: RecordKind, group_id: str, name: str = "") -> LogRecord:
    """The record that deletes a value of a group."""
    return LogRecord(encode_key(kind, group_id, name), None)


def encode_offset(committed: CommittedOffset) -> bytes:
    """The value of an offset commit. Raises ValueError if the metadata is too long.

    A commit with an explicit expiry takes version 1, the only one that stores it; it comes from
    requests older than leader epochs."""
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
    """Whether a value certainly is a well-formed offset commit of version 3, as most are.

    HOT when loading; all other values take the slow path of ``decode_offset``."""
    size = len(value) - _OFFSET_VALUE_BYTES
    if size == 0:
        return value[:2] == b"\0\3" and value[14:16] == b"\0\0"
    if value[:2] != b"\0\3" or size < 0 or int.from_bytes(value[14:16]) != size:
        return False
    return size <= STRING_BYTES_MAX and value[16:-8].isascii()


def decode_offset(value: bytes) -> CommittedOffset | None:
    """The stored commit; None for an unknown version. Raises RemoteProtocolError."""
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
