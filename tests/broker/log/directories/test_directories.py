"""Partitions in several data directories: placement, deletion, one disk failing alone."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.log.broker_disk import TOPIC_ID, BrokerDisk, partition


@pytest.mark.requirement("LOG-01")
async def test_each_partition_has_a_directory_of_its_own() -> None:
    """Two partitions, two directories, with the topic's id in each."""
    broker = BrokerDisk()
    logs = await broker.start()
    for number in range(2):
        await logs.create(partition(number, "my_topic"), TOPIC_ID, is_new=True)

    assert [name for name in broker.entries("/d1") if name.startswith("my_topic")] == [
        "my_topic-0",
        "my_topic-1",
    ]
    metadata = broker.disk.files.file("/d1/my_topic-1/partition.metadata").data
    assert bytes(metadata) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"


@pytest.mark.requirement("LOG-29")
async def test_partitions_are_spread_evenly_over_the_directories() -> None:
    """Nine partitions on three directories: three each."""
    broker = BrokerDisk(3)
    logs = await broker.start()
    for number in range(9):
        await logs.create(partition(number), TOPIC_ID, is_new=True)

    assert [each.partition_count for each in logs.directories] == [3, 3, 3]
    assert all(len([n for n in broker.entries(p) if n.startswith("o")]) == 3 for p in broker.paths)


@pytest.mark.requirement("LOG-30")
async def test_a_failing_directory_takes_only_its_own_partitions_along() -> None:
    """The point of several disks."""
    broker = BrokerDisk(2)
    logs = await broker.start()
    first = await logs.create(partition(0), TOPIC_ID, is_new=True)
    second = await logs.create(partition(1), TOPIC_ID, is_new=True)
    failed: list[str] = []
    logs.on_failure(failed.append)
    broker.disk.faults.add(DiskFault(frozenset({"append"}), errno.EIO, "/d1/"))
    with pytest.raises(KafkaError):
        broker.append(first)
    broker.append(second)

    assert failed == logs.offline_paths == ["/d1"]
    assert second.log_end_offset == 1
    assert (await logs.create(partition(2), TOPIC_ID, is_new=True)).directory == "/d2/orders-2"
    with pytest.raises(KafkaError) as caught:
        await logs.create(partition(3), TOPIC_ID, is_new=False)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not await logs.close(5)
    broker.disk.faults.clear()
    broker.kill()
    again = await broker.start()
    assert again.clean_broker_epoch is None
    found = again.get(partition(1))
    assert found is not None
    assert found.log_end_offset == 1


@pytest.mark.parametrize("count", [1, 100])
async def test_an_append_that_finds_no_descriptor_is_no_fault_of_the_disk(count: int) -> None:
    """S-30: connections may take them all. It is to go on in a segment that was closed, or in the
    next one, and makes room for the next try."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    other = await logs.create(partition(1), TOPIC_ID, is_new=True)
    for _ in range(count):
        broker.append(log)
    broker.append(other)
    for each in (log, other):
        await each.flush()
    open_segments = log.home.open_segments
    # One look to see who is used, and another to close who is not.
    open_segments.release_idle()
    open_segments.release_idle()
    other.read(0, 1, 1, at_least_one=True)
    open_segments.release_idle()
    before = len(open_segments)
    broker.disk.faults.add(DiskFault(frozenset({"open"}), errno.EMFILE, times=2))
    with pytest.raises(KafkaError):
        broker.append(log)
    broker.disk.faults.clear()

    assert log.home.health.is_online
    assert (before, len(open_segments)) == (1, 0)
    broker.append(log)
    assert log.log_end_offset == count + 1


async def test_a_deleted_partition_goes_by_renaming() -> None:
    """The name is free at once; the files go later, and readers that hold them go on."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(10):
        broker.append(log, 3)
    read = log.read(0, 1000, 30, at_least_one=True)
    await logs.delete(partition(0))

    assert logs.get(partition(0)) is None
    marked = [name for name in broker.entries("/d1") if name.startswith("orders")]
    assert len(marked) == 1
    assert marked[0].startswith("orders-0.")
    assert marked[0].endswith("-delete")
    with pytest.raises(KafkaError):
        broker.append(log)
    fresh = await logs.create(partition(0), bytes(16), is_new=True)
    assert fresh.log_end_offset == 0
    await logs.tidy(broker.clock.now_ms() + 60_000)
    assert [name for name in broker.entries("/d1") if name.startswith("orders")] == ["orders-0"]
    assert read.region is not None
    assert len(read.region.read()) == read.region.size_bytes
    await logs.delete(TopicPartition("never", 0))


async def test_a_flush_that_comes_after_the_deletion_is_no_fault_of_the_disk() -> None:
    """Flushes wait in line behind deletions; not to find the renamed files would latch the disk."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    while len(log.segments) < 2:
        broker.append(log, 3)
    before = log.has_unflushed_segments
    await logs.delete(partition(0))

    for flush in (log.flush, log.flush_sealed):
        with pytest.raises(KafkaError) as caught:
            await flush()
        assert "deleted" in caught.value.message
    assert (before, log.has_unflushed_segments) == (True, False)
    assert len(logs.online) == 1


async def test_a_new_log_inherits_nothing_from_a_deleted_one_of_its_name() -> None:
    """S-06: an old recovery point would make ten records look like a loss of a thousand."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(10):
        broker.append(log, 3)
    await log.flush()
    await log.delete_records_before(20)
    await logs.checkpoint({partition(0): 30}.copy)
    await logs.delete(partition(0))
    log = await logs.create(partition(0), bytes(16), is_new=True)
    broker.append(log, 2)
    broker.kill()
    logs = await broker.start()

    found = logs.get(partition(0))
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 2)
    assert logs.high_watermark(partition(0)) is None
    assert logs.damaged == {}


async def test_a_half_deleted_partition_is_removed_at_the_next_start() -> None:
    """The rename was the decision."""
    broker = BrokerDisk()
    logs = await broker.start()
    await logs.create(partition(0), TOPIC_ID, is_new=True)
    await logs.delete(partition(0))
    broker.kill()
    logs = await broker.start()
    await logs.tidy(0)
    assert not [name for name in broker.entries("/d1") if name.startswith("orders")]


async def test_a_log_of_an_earlier_topic_of_the_same_name_is_not_taken_over() -> None:
    """KIP-516: the topic was deleted and made again while this broker was away."""
    broker = BrokerDisk()
    logs = await broker.start()
    made = await logs.create(partition(0), TOPIC_ID, is_new=True)
    assert await logs.create(partition(0), TOPIC_ID, is_new=False) is made
    with pytest.raises(KafkaError) as caught:
        await logs.create(partition(0), bytes(16), is_new=True)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


async def test_a_log_without_a_topic_id_is_given_one() -> None:
    """Left by a crash while it was made, or by a Kafka before 2.8."""
    broker = BrokerDisk()
    logs = await broker.start()
    await logs.create(partition(0), None, is_new=True)
    await logs.create(partition(0), TOPIC_ID, is_new=False)
    await logs.close(1)
    found = (await broker.start()).get(partition(0))
    assert found is not None
    assert found.topic_id == TOPIC_ID
