"""Keys and values of the offsets topic."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.failures import Skipped
from ottla.coordinator.group.common.record_values import (
    ConsumerGroupMetadataValue,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitValue,
)
from ottla.coordinator.group.common.records import (
    KIND_OF_VALUE,
    VALUE_OF_KIND,
    GroupRecord,
    RecordKey,
    RecordKind,
    RecordValue,
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
    group_record,
    group_tombstone,
)
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.schema import schema_of
from tests.support.messages import full_message, messages

OFFSET_KEY = bytes.fromhex("0001000267310002743100000000")
OFFSET_VALUE = bytes.fromhex("0003000000000000002affffffff00000000018bcfe56800")


def versions() -> list[Any]:
    """Every value class at every version."""
    return [
        pytest.param(declared, version, id=f"{declared.__name__}-v{version}")
        for declared in VALUE_OF_KIND.values()
        for version in range(schema_of(declared).versions.last + 1)
    ]


def test_offset_commits_have_the_bytes_that_kafka_writes() -> None:
    """Brokers of both kinds may lead the partition one after the other."""
    value = OffsetCommitValue(offset=42, commit_timestamp=1_700_000_000_000)

    assert encode_key(RecordKind.OFFSET_COMMIT, "g1", "t1", 0) == OFFSET_KEY
    assert encode_value(value) == OFFSET_VALUE
    assert decode_record(LogRecord(OFFSET_KEY, OFFSET_VALUE), Skipped()) == GroupRecord(
        RecordKey(RecordKind.OFFSET_COMMIT, "g1", "t1", 0), value
    )


def test_a_classic_group_has_the_bytes_that_kafka_writes() -> None:
    """A reader at an offset that is wrong by one would take a generation for a length."""
    member = MemberMetadata("m", None, "c", "/h", 5, 6, b"s", b"a")
    group = GroupMetadataValue("consumer", 7, "range", "m", 1_700_000_000_000, [member])

    key, value = group_record("g1", group)

    assert key == bytes.fromhex("000200026731")
    assert value == (
        bytes.fromhex("0003 0008") + b"consumer" + bytes.fromhex("00000007 0005") + b"range"
        b"\0\1m" + bytes.fromhex("0000018bcfe56800 00000001")
        + b"\0\1m" + b"\xff\xff" + b"\0\1c" + b"\0\2/h" + bytes.fromhex("00000005 00000006")
        + b"\0\0\0\1s" + b"\0\0\0\1a"
    )  # fmt: skip


def test_a_consumer_group_is_flexible_from_its_first_version() -> None:
    """KIP-848: an empty section of tags ends it, and one that is not known is passed over."""
    key, value = group_record("g1", ConsumerGroupMetadataValue(epoch=5))
    kind = RecordKind.CONSUMER_GROUP_METADATA

    assert key == bytes.fromhex("000300026731")
    assert value == bytes.fromhex("0000 00000005 00")
    tagged = bytes.fromhex("0000 00000005 01 09 02 abcd")
    assert decode_value(kind, tagged) == ConsumerGroupMetadataValue(epoch=5)


def test_the_oldest_key_names_the_same_partition() -> None:
    """Its tombstone must delete what a commit of today has stored."""
    legacy = encode_key(RecordKind.LEGACY_OFFSET_COMMIT, "g1", "t1", 0)

    assert legacy == b"\0\0" + OFFSET_KEY[2:]
    assert decode_key(legacy) == decode_key(OFFSET_KEY)


@pytest.mark.parametrize(("declared", "version"), versions())
def test_every_version_of_every_value_is_read(declared: type[Any], version: int) -> None:
    """Records live as long as their group: old ones come from brokers long gone."""
    value = full_message(declared, version)

    assert decode_value(KIND_OF_VALUE[declared], encode_value(value, version)) == value


@given(st.sampled_from(list(VALUE_OF_KIND.values())).flatmap(messages))
def test_any_value_comes_back(written: tuple[RecordValue, int]) -> None:
    """What a group was before the coordinator moved, it is afterwards."""
    value, version = written

    assert decode_value(KIND_OF_VALUE[type(value)], encode_value(value, version)) == value


@given(st.sampled_from(list(VALUE_OF_KIND)), st.text(), st.text(), st.integers(0, 2**31 - 1))
def test_any_key_comes_back(kind: RecordKind, group_id: str, name: str, partition: int) -> None:
    """Two names that shared a key would share their offsets."""
    read = decode_key(encode_key(kind, group_id, name, partition))

    assert read is not None
    assert (read.kind, read.group_id) == (kind, group_id)
    assert read.name in ("", name)
    assert encode_key(*read) == encode_key(kind, group_id, name, partition)


def test_what_newer_brokers_wrote_is_passed_over() -> None:
    """A coordinator that refused it would lose every group of the partition."""
    skipped = Skipped()
    share_group = LogRecord(b"\0\x0b\0\2g1", b"\0\0")
    newer_value = LogRecord(OFFSET_KEY, b"\0\5")

    assert decode_record(share_group, skipped) is None
    assert decode_record(newer_value, skipped) is None
    assert skipped == Skipped(unknown_count=2)


@pytest.mark.parametrize(
    "record",
    [
        LogRecord(b"", b""),
        LogRecord(b"\0", b""),
        LogRecord(b"\0\2", b""),
        LogRecord(OFFSET_KEY[:-1], OFFSET_VALUE),
        LogRecord(OFFSET_KEY + b"\0", OFFSET_VALUE),
        LogRecord(OFFSET_KEY[:-4] + b"\xff\xff\xff\xff", OFFSET_VALUE),
        LogRecord(b"\0\2\xff\xff", None),
        LogRecord(b"\0\2\0\1\xff", None),
        LogRecord(b"\0\2\0\1gx", None),
        LogRecord(b"\0\2\0\1g", b""),
        LogRecord(OFFSET_KEY, OFFSET_VALUE[:-1]),
        LogRecord(OFFSET_KEY, OFFSET_VALUE + b"\0"),
    ],
)
def test_what_cannot_be_read_is_counted_and_passed_over(record: LogRecord) -> None:
    """One bad record must not hide the million good ones around it."""
    skipped = Skipped()

    assert decode_record(record, skipped) is None
    assert (skipped.corrupt_count, skipped.unknown_count) == (1, 0)
    assert skipped.last_fault


@given(st.binary(max_size=40), st.none() | st.binary(max_size=60))
def test_no_bytes_stop_a_load(key: bytes, value: bytes | None) -> None:
    """Whatever lies in the log, the coordinator must come up."""
    skipped = Skipped()

    read = decode_record(LogRecord(key, value), skipped)

    assert (read is None) == (skipped.corrupt_count + skipped.unknown_count == 1)


def test_a_tombstone_names_what_it_deletes() -> None:
    """Deleting the group must not take a member's key, nor the other way round."""
    group = group_tombstone(RecordKind.GROUP_METADATA, "g")
    member = group_tombstone(RecordKind.CONSUMER_GROUP_MEMBER_METADATA, "g", "m")

    assert decode_record(group, Skipped()) == (RecordKey(RecordKind.GROUP_METADATA, "g"), None)
    assert decode_record(member, Skipped()) == (
        RecordKey(RecordKind.CONSUMER_GROUP_MEMBER_METADATA, "g", "m"),
        None,
    )


@pytest.mark.parametrize("size", [0x7FFF, 0x8000])
def test_a_name_that_no_key_can_hold_is_refused(size: int) -> None:
    """Cut in silence, two long group ids would become one."""
    if size > 0x7FFF:
        with pytest.raises(ValueError, match="32768 bytes"):
            encode_key(RecordKind.GROUP_METADATA, "g" * size)
    else:
        assert len(encode_key(RecordKind.GROUP_METADATA, "g" * size)) == 4 + size


def test_a_truncated_member_is_not_half_read() -> None:
    """Sizes come from the log: each is compared with what is left."""
    _, value = group_record("g", GroupMetadataValue(members=[MemberMetadata("m")]))
    assert value is not None

    for size in range(2, len(value)):
        with pytest.raises(RemoteProtocolError):
            decode_value(RecordKind.GROUP_METADATA, value[:size])
