"""One data directory: clean stops, damage, checkpoints, and a disk that fills up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.directories.directories import DirectoriesConfig
from ottla.broker.log.directories.opening import open_directories
from ottla.protocol.errors import KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.log.broker_disk import TOPIC_ID, BrokerDisk, partition
from tests.broker.log.log_under_test import read_all, seams_of

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog


async def test_a_clean_stop_is_taken_at_its_word() -> None:
    """Nothing is scanned, and the producers are those of the stop."""
    broker = BrokerDisk(2)
    logs = await broker.start()
    for number in range(4):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(number * 4):
            broker.append(log, 3)
    contents = {log.partition: read_all(log) for log in logs}
    assert await logs.close(77)
    assert all(".kafka_cleanshutdown" in broker.entries(path) for path in broker.paths)

    logs = await broker.start()

    assert {log.partition: read_all(log) for log in logs} == contents
    assert logs.clean_broker_epoch == 77
    assert all(observer.observed == [] for observer in broker.observers.values())
    assert all(log.recovery_point == log.log_end_offset for log in logs)
    assert all(log.topic_id == TOPIC_ID for log in logs)
    assert not any(".kafka_cleanshutdown" in broker.entries(path) for path in broker.paths)


async def test_a_log_that_differs_from_the_mark_is_recovered() -> None:
    """S-05: the file changed after the stop, or the mark belongs to another stop."""
    broker = BrokerDisk()
    logs = await broker.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(3):
            broker.append(log, 2)
    await logs.close(1)
    broker.disk.files.file("/d1/orders-1/00000000000000000000.log").data.extend(bytes(100))
    broker.disk.files.file("/d1/recovery-point-offset-checkpoint").data.clear()
    logs = await broker.start()

    found = logs.get(partition(1))
    assert found is not None
    assert len(read_all(found)) == 3
    assert broker.observers[partition(0)].observed == []
    assert broker.observers[partition(1)].observed == [0, 2, 4]


async def test_a_log_that_lost_its_active_segment_since_the_mark_is_recovered() -> None:
    """S-05: what was restored from a copy or a file system that gave up, for instance. The mark
    would have it go on at an offset that nothing leads up to."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(3):
        broker.append(log, 2)
    await logs.close(1)
    broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data.clear()
    broker.disk.files.file("/d1/recovery-point-offset-checkpoint").data.clear()
    logs = await broker.start()

    found = logs.get(partition(0))
    assert found is not None
    assert found.log_end_offset == 0


async def test_damage_takes_one_partition_out_of_service() -> None:
    """S-03: the broker neither serves nor truncates nor recreates it until the operator decides."""
    broker = BrokerDisk()
    logs = await broker.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(4):
            broker.append(log)
    broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    broker.kill()
    logs = await broker.start()

    assert list(logs.damaged) == [partition(0)]
    assert "00000000000000000000.log is damaged at position 0" in logs.damaged[partition(0)]
    assert logs.get(partition(0)) is None
    assert logs.get(partition(1)) is not None
    with pytest.raises(KafkaError):
        await logs.create(partition(0), TOPIC_ID, is_new=True)
    assert await logs.close(9)
    logs = await broker.start()
    assert list(logs.damaged) == [partition(0)]

    repaired = await logs.directories[0].repair(partition(0))
    assert repaired is not None
    assert repaired.log_end_offset == 0
    assert logs.damaged == {}


async def test_a_damaged_log_can_be_set_aside_and_fetched_anew() -> None:
    """With more replicas: keep the bytes for a look, start empty, refetch from the leader."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(4):
        broker.append(log)
    broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    broker.kill()
    logs = await broker.start()
    path = await logs.directories[0].set_aside(partition(0))
    assert path.endswith("-stray")
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    assert log.log_end_offset == 0
    assert len(broker.disk.files.file(f"{path}/00000000000000000000.log").data) > 0


async def test_checkpoints_survive_and_unloaded_partitions_keep_theirs() -> None:
    """R-26: a high watermark is found again; none means the log start."""
    broker = BrokerDisk()
    logs = await broker.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(4):
            broker.append(log)
        await log.flush()
    await logs.checkpoint({partition(0): 3, partition(1): 4, TopicPartition("other", 1): 9}.copy)
    broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    broker.disk.files.file("/d1/orders-0/00000000000000000000.log").data.pop()
    broker.kill()
    logs = await broker.start()
    assert list(logs.damaged) == [partition(0)]
    await logs.checkpoint({partition(1): 4}.copy)
    broker.kill()
    logs = await broker.start()

    assert [logs.high_watermark(partition(number)) for number in range(3)] == [3, 4, None]
    assert logs.directories[0].checkpoints.recovery_points == {partition(0): 4, partition(1): 4}


async def test_low_space_is_seen_before_the_disk_is_full() -> None:
    """S-11: produce can be refused while deletes and checkpoints still have room."""
    broker = BrokerDisk()
    broker.disk.files.capacity_bytes = 10_000
    config = DirectoriesConfig(broker.paths, 1, broker.cluster_id, free_bytes_floor=5_000)
    logs = await open_directories(seams_of(broker.disk, broker.clock), config, broker.open_as)
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    health = logs.directories[0].home.health
    await logs.tidy(0)
    assert [health.is_low_on_space] == [False]
    for _ in range(60):
        broker.append(log)
    await logs.tidy(0)
    assert [health.is_low_on_space] == [True]
    await log.delete_old_segments(lambda segments: len(segments) - 1, log.log_end_offset)
    await logs.tidy(10**9)
    assert [health.is_low_on_space] == [False]


async def test_a_full_disk_heals_without_a_restart() -> None:
    """S-11: fill, refuse, free, accept, a hundred times; nothing acknowledged is lost."""
    broker = BrokerDisk()
    broker.disk.files.capacity_bytes = 6_000
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(100):
        with pytest.raises(KafkaError):
            broker.fill(log)
        assert logs.offline_paths == []
        before = read_all(log)
        assert before[-1][1] + 1 == log.log_end_offset
        await log.delete_old_segments(lambda segments: len(segments) // 2, log.log_end_offset)
        await logs.tidy(broker.clock.now_ms() + 10**6)
    end, start = log.log_end_offset, log.log_start_offset
    broker.kill()
    broker.disk.files.capacity_bytes = 1 << 40
    logs = await broker.start()
    found = logs.get(partition(0))
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (start, end)


async def test_checkpoints_that_did_not_change_are_not_written_again() -> None:
    """Three files and six fsyncs every five seconds, for nothing."""
    broker = BrokerDisk()
    logs = await broker.start()
    broker.append(await logs.create(partition(0), TOPIC_ID, is_new=True))
    await logs.checkpoint({partition(0): 1}.copy)
    changes = broker.disk.changes
    await logs.checkpoint({partition(0): 1}.copy)
    assert broker.disk.changes == changes
    await logs.checkpoint({partition(0): 2}.copy)
    assert broker.disk.changes > changes


async def test_a_directory_left_in_the_way_is_set_aside() -> None:
    """Its records are those of a deleted topic and must not become the new one's."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    broker.append(log, 5)
    del logs.directories[0].logs[partition(0)]
    log = await logs.create(partition(0), bytes(16), is_new=True)
    assert log.log_end_offset == 0
    assert [name for name in broker.entries("/d1") if name.endswith("-stray")]


async def test_the_clean_mark_is_gone_for_good_before_anything_is_loaded() -> None:
    """S-05: a mark that reappears after a crash would vouch for records that were never flushed."""
    broker = BrokerDisk()
    logs = await broker.start()
    await logs.create(partition(0), TOPIC_ID, is_new=True)
    await logs.close(1)
    await broker.start()
    for seed in range(5):
        broker.disk = broker.disk.power_cut(seed)
        assert ".kafka_cleanshutdown" not in broker.entries("/d1")


async def test_a_new_log_does_not_inherit_from_one_that_was_removed_by_hand() -> None:
    """The checkpoints still speak of it."""
    broker = BrokerDisk()
    logs = await broker.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(10):
        broker.append(log)
    await log.flush()
    await logs.checkpoint({partition(0): 10}.copy)
    broker.kill()
    await broker.disk.remove_tree("/d1/orders-0")
    logs = await broker.start()
    broker.append(await logs.create(partition(0), TOPIC_ID, is_new=True))
    broker.kill()
    logs = await broker.start()
    assert logs.damaged == {}
    assert logs.high_watermark(partition(0)) is None


async def test_a_recovery_is_one_line_however_many_logs_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a power cut an operator wants to know that it happened, and that it is over."""
    broker = BrokerDisk()
    logs = await broker.start()
    for number in range(4):
        broker.append(await logs.create(partition(number), TOPIC_ID, is_new=True))
    broker.kill()
    with caplog.at_level(logging.INFO, "ottla.log"):
        await broker.start()

    (told,) = caplog.messages
    assert told.startswith("/d1 was not shut down cleanly: recovered 4 logs by reading ")


async def test_a_new_log_is_what_a_start_makes_of_its_files() -> None:
    """A thousand logs are made without the questions that loading one asks a worker."""
    broker = BrokerDisk()
    logs = await broker.start()
    new = await logs.create(partition(0), TOPIC_ID, is_new=True)
    files = [f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert broker.entries(new.directory) == [*files, "partition.metadata"]
    made = _state(new)
    assert new.names_synced == new.names_changed
    broker.kill()

    loaded = (await broker.start()).get(partition(0))

    assert loaded is not None
    assert loaded.topic_id == TOPIC_ID
    assert _state(loaded) == made


def _state(log: PartitionLog) -> list[object]:
    """What a log knows of itself, apart from its age."""
    of_log = (
        *(log.log_start_offset, log.log_end_offset, log.recovery_point, log.snapshot_offsets),
        *(log.has_aborted, log.saved_leader_epochs, log.snapshot_position, log.refusal),
    )
    of_segments = [
        (one.base_offset, one.next_offset, one.size_bytes, one.synced_bytes, one.is_active)
        for one in log.segments
    ]
    return [of_log, of_segments, *(one.unindexed_bytes for one in log.segments)]
