"""One data directory: clean stops, damage, checkpoints, and a disk that fills up."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.directories.directories import DirectoriesConfig
from ottla.broker.log.directories.opening import open_directories
from ottla.protocol.errors import KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.log.bench import read_all, seams_of
from tests.broker.log.house import TOPIC_ID, House, partition

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog


async def test_a_clean_stop_is_taken_at_its_word() -> None:
    """Nothing is scanned, and the producers are those of the stop."""
    house = House(2)
    logs = await house.start()
    for number in range(4):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(number * 4):
            house.append(log, 3)
    contents = {log.partition: read_all(log) for log in logs}
    assert await logs.close(77)
    assert all(".kafka_cleanshutdown" in house.entries(path) for path in house.paths)

    logs = await house.start()

    assert {log.partition: read_all(log) for log in logs} == contents
    assert logs.clean_broker_epoch == 77
    assert all(observer.observed == [] for observer in house.observers.values())
    assert all(log.recovery_point == log.log_end_offset for log in logs)
    assert all(log.topic_id == TOPIC_ID for log in logs)
    assert not any(".kafka_cleanshutdown" in house.entries(path) for path in house.paths)


async def test_a_log_that_differs_from_the_mark_is_recovered() -> None:
    """S-05: the file changed after the stop, or the mark belongs to another stop."""
    house = House()
    logs = await house.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(3):
            house.append(log, 2)
    await logs.close(1)
    house.disk.files.file("/d1/orders-1/00000000000000000000.log").data.extend(bytes(100))
    house.disk.files.file("/d1/recovery-point-offset-checkpoint").data.clear()
    logs = await house.start()

    found = logs.get(partition(1))
    assert found is not None
    assert len(read_all(found)) == 3
    assert house.observers[partition(0)].observed == []
    assert house.observers[partition(1)].observed == [0, 2, 4]


async def test_a_log_that_lost_its_active_segment_since_the_mark_is_recovered() -> None:
    """S-05: what was restored from a copy or a file system that gave up, for instance. The mark
    would have it go on at an offset that nothing leads up to."""
    house = House()
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(3):
        house.append(log, 2)
    await logs.close(1)
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data.clear()
    house.disk.files.file("/d1/recovery-point-offset-checkpoint").data.clear()
    logs = await house.start()

    found = logs.get(partition(0))
    assert found is not None
    assert found.log_end_offset == 0


async def test_damage_takes_one_partition_out_of_service() -> None:
    """S-03: the broker neither serves nor truncates nor recreates it until the operator decides."""
    house = House()
    logs = await house.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(4):
            house.append(log)
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    house.kill()
    logs = await house.start()

    assert list(logs.damaged) == [partition(0)]
    assert "00000000000000000000.log is damaged at position 0" in logs.damaged[partition(0)]
    assert logs.get(partition(0)) is None
    assert logs.get(partition(1)) is not None
    with pytest.raises(KafkaError):
        await logs.create(partition(0), TOPIC_ID, is_new=True)
    assert await logs.close(9)
    logs = await house.start()
    assert list(logs.damaged) == [partition(0)]

    repaired = await logs.directories[0].repair(partition(0))
    assert repaired is not None
    assert repaired.log_end_offset == 0
    assert logs.damaged == {}


async def test_a_damaged_log_can_be_set_aside_and_fetched_anew() -> None:
    """With more replicas: keep the bytes for a look, start empty, refetch from the leader."""
    house = House()
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(4):
        house.append(log)
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    house.kill()
    logs = await house.start()
    path = await logs.directories[0].set_aside(partition(0))
    assert path.endswith("-stray")
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    assert log.log_end_offset == 0
    assert len(house.disk.files.file(f"{path}/00000000000000000000.log").data) > 0


async def test_checkpoints_survive_and_unloaded_partitions_keep_theirs() -> None:
    """R-26: a high watermark is found again; none means the log start."""
    house = House()
    logs = await house.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(4):
            house.append(log)
        await log.flush()
    await logs.checkpoint({partition(0): 3, partition(1): 4, TopicPartition("other", 1): 9}.copy)
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data.pop()
    house.kill()
    logs = await house.start()
    assert list(logs.damaged) == [partition(0)]
    await logs.checkpoint({partition(1): 4}.copy)
    house.kill()
    logs = await house.start()

    assert [logs.high_watermark(partition(number)) for number in range(3)] == [3, 4, None]
    assert logs.directories[0].checkpoints.recovery_points == {partition(0): 4, partition(1): 4}


async def test_low_space_is_seen_before_the_disk_is_full() -> None:
    """S-11: produce can be refused while deletes and checkpoints still have room."""
    house = House()
    house.disk.files.capacity_bytes = 10_000
    config = DirectoriesConfig(house.paths, 1, house.cluster_id, free_bytes_floor=5_000)
    logs = await open_directories(seams_of(house.disk, house.clock), config, house.open_as)
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    health = logs.directories[0].home.health
    await logs.tidy(0)
    assert [health.is_low_on_space] == [False]
    for _ in range(60):
        house.append(log)
    await logs.tidy(0)
    assert [health.is_low_on_space] == [True]
    await log.delete_old_segments(lambda segments: len(segments) - 1, log.log_end_offset)
    await logs.tidy(10**9)
    assert [health.is_low_on_space] == [False]


async def test_a_full_disk_heals_without_a_restart() -> None:
    """S-11: fill, refuse, free, accept, a hundred times; nothing acknowledged is lost."""
    house = House()
    house.disk.files.capacity_bytes = 6_000
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(100):
        with pytest.raises(KafkaError):
            house.fill(log)
        assert logs.offline_paths == []
        before = read_all(log)
        assert before[-1][1] + 1 == log.log_end_offset
        await log.delete_old_segments(lambda segments: len(segments) // 2, log.log_end_offset)
        await logs.tidy(house.clock.now_ms() + 10**6)
    end, start = log.log_end_offset, log.log_start_offset
    house.kill()
    house.disk.files.capacity_bytes = 1 << 40
    logs = await house.start()
    found = logs.get(partition(0))
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (start, end)


async def test_checkpoints_that_did_not_change_are_not_written_again() -> None:
    """Three files and six fsyncs every five seconds, for nothing."""
    house = House()
    logs = await house.start()
    house.append(await logs.create(partition(0), TOPIC_ID, is_new=True))
    await logs.checkpoint({partition(0): 1}.copy)
    changes = house.disk.changes
    await logs.checkpoint({partition(0): 1}.copy)
    assert house.disk.changes == changes
    await logs.checkpoint({partition(0): 2}.copy)
    assert house.disk.changes > changes


async def test_a_directory_left_in_the_way_is_set_aside() -> None:
    """Its records are those of a deleted topic and must not become the new one's."""
    house = House()
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    house.append(log, 5)
    del logs.directories[0].logs[partition(0)]
    log = await logs.create(partition(0), bytes(16), is_new=True)
    assert log.log_end_offset == 0
    assert [name for name in house.entries("/d1") if name.endswith("-stray")]


async def test_the_clean_mark_is_gone_for_good_before_anything_is_loaded() -> None:
    """S-05: a mark that reappears after a crash would vouch for records that were never flushed."""
    house = House()
    logs = await house.start()
    await logs.create(partition(0), TOPIC_ID, is_new=True)
    await logs.close(1)
    await house.start()
    for seed in range(5):
        house.disk = house.disk.power_cut(seed)
        assert ".kafka_cleanshutdown" not in house.entries("/d1")


async def test_a_new_log_does_not_inherit_from_one_that_was_removed_by_hand() -> None:
    """The checkpoints still speak of it."""
    house = House()
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(10):
        house.append(log)
    await log.flush()
    await logs.checkpoint({partition(0): 10}.copy)
    house.kill()
    await house.disk.remove_tree("/d1/orders-0")
    logs = await house.start()
    house.append(await logs.create(partition(0), TOPIC_ID, is_new=True))
    house.kill()
    logs = await house.start()
    assert logs.damaged == {}
    assert logs.high_watermark(partition(0)) is None


async def test_a_recovery_is_one_line_however_many_logs_there_are(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """After a power cut an operator wants to know that it happened, and that it is over."""
    house = House()
    logs = await house.start()
    for number in range(4):
        house.append(await logs.create(partition(number), TOPIC_ID, is_new=True))
    house.kill()
    with caplog.at_level(logging.INFO, "ottla.log"):
        await house.start()

    (told,) = caplog.messages
    assert told.startswith("/d1 was not shut down cleanly: recovered 4 logs by reading ")


async def test_a_new_log_is_what_a_start_makes_of_its_files() -> None:
    """A thousand logs are made without the questions that loading one asks a worker."""
    house = House()
    logs = await house.start()
    new = await logs.create(partition(0), TOPIC_ID, is_new=True)
    files = [f"{0:020d}{suffix}" for suffix in (".index", ".log", ".timeindex")]
    assert house.entries(new.directory) == [*files, "partition.metadata"]
    made = _state(new)
    assert new.names_synced == new.names_changed
    house.kill()

    loaded = (await house.start()).get(partition(0))

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
