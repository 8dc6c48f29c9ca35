"""File and directory names are read by Kafka's own tools, so they must be exactly Kafka's."""

from __future__ import annotations

import pytest

from ottla.broker.log.storage.names import (
    DELETE_MARK,
    LOG,
    mark_of,
    marked_name,
    parse_partition_name,
    parse_segment_name,
    partition_name,
    segment_name,
)
from ottla.protocol.ids import TopicPartition


@pytest.mark.requirement("LOG-02")
def test_a_segment_is_named_by_its_base_offset_in_twenty_digits() -> None:
    """Sorting the names must sort the offsets."""
    assert segment_name(0, LOG) == "00000000000000000000.log"
    assert segment_name(2**63 - 1, LOG) == "09223372036854775807.log"


@pytest.mark.parametrize("offset", [0, 1, 368769, 2**63 - 1])
def test_segment_names_are_parsed_back(offset: int) -> None:
    """A start finds its segments by nothing else."""
    assert parse_segment_name(segment_name(offset, LOG)) == (offset, LOG)
    assert parse_segment_name(segment_name(offset, ".log.deleted")) == (offset, ".log.deleted")


@pytest.mark.parametrize(
    "name", ["", "leader-epoch-checkpoint", "0.log", "0000000000000000000a.log", "0" * 20, "log"]
)
def test_foreign_names_are_no_segments(name: str) -> None:
    """A file that an operator or a program left there must not become data."""
    assert parse_segment_name(name) is None


@pytest.mark.requirement("LOG-01")
def test_a_partition_directory_is_topic_dash_number() -> None:
    """Topic names may hold dashes and dots themselves."""
    for partition in (TopicPartition("my-topic.v1", 12), TopicPartition("a", 0)):
        assert parse_partition_name(partition_name(partition)) == partition
    assert partition_name(TopicPartition("my_topic", 1)) == "my_topic-1"


@pytest.mark.parametrize("name", ["orders", "orders-", "-1", "orders-x", "orders-1.ab-delete"])
def test_other_directories_are_no_partitions(name: str) -> None:
    """Real disks have directories such as lost+found."""
    assert parse_partition_name(name) is None


def test_a_deleted_partition_keeps_its_name_within_the_file_systems_limit() -> None:
    """A topic name of 249 characters is legal, a file name of 292 is not."""
    name = marked_name(TopicPartition("t" * 249, 3), bytes(16), DELETE_MARK)

    assert len(name) == 255
    assert name.endswith("-3." + "0" * 32 + "-delete")
    assert mark_of(name) == DELETE_MARK
    assert parse_partition_name(name) is None
