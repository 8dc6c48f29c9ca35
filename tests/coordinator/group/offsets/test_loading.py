"""Committed offsets as they come out of the log."""

from __future__ import annotations

import pytest

from ottla.coordinator.effects import LogRecord, Writer
from ottla.coordinator.group.common.record_values import OffsetCommitValue
from ottla.coordinator.group.common.records import (
    CommittedOffset,
    RecordKind,
    encode_key,
    encode_offset,
    encode_value,
)
from ottla.coordinator.group.offsets.ledger import OffsetLedger, offset_record
from ottla.coordinator.group.offsets.loading import OffsetLoading
from ottla.protocol.ids import TopicPartition

PLACE = TopicPartition("t", 3)


def record(offset: int, place: TopicPartition = PLACE, metadata: str = "") -> LogRecord:
    return offset_record("g", place, encode_offset(CommittedOffset(offset, 1, metadata, 1_000)))


def load(*records: LogRecord) -> OffsetLoading:
    loading = OffsetLoading(OffsetLedger())
    for each in records:
        assert loading.replay(each)
    return loading


def committed(loading: OffsetLoading) -> dict[tuple[str, int], bytes]:
    topics = vars(loading)["_ledger"].committed("g")
    return {
        (topic, partition): value
        for topic, values in topics.items()
        for partition, value in values.items()
    }


def test_later_records_replace_earlier_ones() -> None:
    """Compaction keeps the last of a key at least, not at most."""
    loading = load(record(1), record(2), record(9, TopicPartition("t", 4)))

    assert committed(loading) == {("t", 3): record(2).value, ("t", 4): record(9).value}


def test_a_tombstone_deletes_and_the_next_commit_stores_again() -> None:
    """In between nothing may forget where the topic's offsets are."""
    loading = load(record(1), offset_record("g", PLACE, None), record(2))
    loading.finish()

    assert committed(loading) == {("t", 3): record(2).value}


def test_a_group_without_offsets_after_loading_is_removed() -> None:
    """A deleted group would be listed for ever."""
    loading = load(record(1), offset_record("g", PLACE, None))
    loading.finish()

    ledger = vars(loading)["_ledger"]
    assert ledger.group_ids() == set()


def test_a_commit_after_a_tombstone_counts_although_a_transaction_was_open() -> None:
    """While a transaction is open the ledger keeps a deletion as pending, and the commit after it
    must not be lost."""
    pending = record(5, TopicPartition("t", 7))
    loading = load(record(1))
    loading.replay(pending, Writer(9, 0))
    loading.replay(offset_record("g", PLACE, None))
    loading.replay(record(2))
    vars(loading)["_ledger"].on_marker(9, 0, is_commit=False)
    loading.replay(record(3))
    loading.finish()

    assert committed(loading) == {("t", 3): record(3).value}


@pytest.mark.parametrize("version", range(5))
def test_values_of_every_version_are_taken_in(version: int) -> None:
    """Offsets of a group that committed years ago are still in force."""
    value = encode_value(OffsetCommitValue(42, metadata="ü"), version)
    old_key = encode_key(RecordKind.LEGACY_OFFSET_COMMIT, "g", *PLACE)

    loading = load(record(1), LogRecord(old_key, value))

    assert committed(loading) == {("t", 3): value}


@pytest.mark.parametrize("metadata", ["", "note", "ü", "x" * 0x7FFF])
def test_metadata_of_any_kind_is_taken_in(metadata: str) -> None:
    """The short way vouches for plain text alone; the rest takes the long one."""
    first, second = record(1, metadata=metadata), record(2, metadata=metadata)

    assert committed(load(first, second)) == {("t", 3): second.value}


def test_records_about_groups_are_left_to_others() -> None:
    """One log contains records about groups and offsets."""
    loading = OffsetLoading(OffsetLedger())

    assert not loading.replay(LogRecord(b"\0\2\0\1g", None))
    assert not loading.replay(LogRecord(b"", None))
    assert loading.skipped.corrupt_count == 0


@pytest.mark.parametrize(
    "damaged",
    [
        record(2)._replace(key=record(2).key[:-1]),
        record(2)._replace(value=(record(2).value or b"")[:-1]),
        record(2)._replace(value=(record(2).value or b"") + b"\0"),
        record(2)._replace(value=b""),
        record(2, metadata="note")._replace(value=(record(2).value or b"") + b"note"),
    ],
)
def test_a_damaged_record_does_not_hide_the_good_one(damaged: LogRecord) -> None:
    """It is counted and passed over, with and without a good one before it."""
    first, later = load(damaged), load(record(1), damaged)

    assert (first.skipped.corrupt_count, committed(first)) == (1, {})
    assert (later.skipped.corrupt_count, committed(later)) == (1, {("t", 3): record(1).value})


def test_a_newer_value_is_passed_over() -> None:
    """KIP-915: a downgraded broker must come up."""
    loading = load(record(1), record(2)._replace(value=b"\0\7what"))

    assert loading.skipped.unknown_count == 1
    assert committed(loading) == {("t", 3): record(1).value}


def test_groups_share_the_names_of_topics() -> None:
    """A thousand groups that read a topic would keep its name a thousand times."""
    loading = OffsetLoading(OffsetLedger())
    for group_id in ("g", "h"):
        place = TopicPartition("a topic with a name", 0)
        value = encode_offset(CommittedOffset(1, 1, "", 1))
        loading.replay(offset_record(group_id, place, value))

    ledger = vars(loading)["_ledger"]
    (name,), (other,) = ledger.committed("g"), ledger.committed("h")
    assert name is other
