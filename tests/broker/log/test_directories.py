"""Several data directories: placement, identity, one failing without the others, clean stops."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.directories import DirectoriesConfig, LogDirectories
from ottla.broker.log.opening import forget_missing, open_directories
from ottla.broker.log.settings import LogSettings
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.log.bench import Notebook, batch_at, read_all, seams_of
from tests.broker.log.crash_disk import CrashDisk, ManualClock

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog

TOPIC_ID = bytes(range(16))
SETTINGS = LogSettings(segment_bytes=600, index_interval_bytes=100)


class House:
    """A broker's directories on one disk, opened and closed as starts and stops do."""

    def __init__(self, count: int = 1, disk: CrashDisk | None = None) -> None:
        self.disk = disk or CrashDisk()
        self.clock = ManualClock()
        self.paths = [f"/d{number}" for number in range(1, count + 1)]
        self.observers: dict[TopicPartition, Notebook] = {}
        self.broker_id = 1
        self.cluster_id = "wfSjsg0eT1qLbH2On6Cxwg"

    def open_as(self, partition: TopicPartition) -> tuple[LogSettings, Notebook]:
        self.observers[partition] = Notebook()
        return SETTINGS, self.observers[partition]

    async def start(self) -> LogDirectories:
        config = DirectoriesConfig(self.paths, self.broker_id, self.cluster_id)
        return await open_directories(seams_of(self.disk, self.clock), config, self.open_as)

    def kill(self) -> None:
        self.disk = self.disk.killed()

    def append(self, log: PartitionLog, count: int = 1) -> None:
        batch = batch_at(log.log_end_offset, count)
        log.append([batch], self.clock.now_ms())
        self.observers[log.partition].observe(batch)

    def fill(self, log: PartitionLog) -> None:
        while True:
            self.append(log)

    def entries(self, path: str) -> list[str]:
        return sorted(self.disk.files.directory(path).entries)


def partition(number: int, topic: str = "orders") -> TopicPartition:
    return TopicPartition(topic, number)


@pytest.mark.requirement("LOG-01")
async def test_each_partition_has_a_directory_of_its_own() -> None:
    """Two partitions, two directories, with the topic's id in each."""
    house = House()
    logs = await house.start()
    for number in range(2):
        await logs.create(partition(number, "my_topic"), TOPIC_ID, is_new=True)

    assert [name for name in house.entries("/d1") if name.startswith("my_topic")] == [
        "my_topic-0",
        "my_topic-1",
    ]
    metadata = house.disk.files.file("/d1/my_topic-1/partition.metadata").data
    assert bytes(metadata) == b"version: 0\ntopic_id: AAECAwQFBgcICQoLDA0ODw\n"


@pytest.mark.requirement("LOG-29")
async def test_partitions_are_spread_evenly_over_the_directories() -> None:
    """Nine partitions on three directories: three each."""
    house = House(3)
    logs = await house.start()
    for number in range(9):
        await logs.create(partition(number), TOPIC_ID, is_new=True)

    assert [each.partition_count for each in logs.directories] == [3, 3, 3]
    assert all(len([n for n in house.entries(p) if n.startswith("o")]) == 3 for p in house.paths)


@pytest.mark.requirement("LOG-30")
async def test_a_failing_directory_takes_only_its_own_partitions_along() -> None:
    """The point of several disks."""
    house = House(2)
    logs = await house.start()
    first = await logs.create(partition(0), TOPIC_ID, is_new=True)
    second = await logs.create(partition(1), TOPIC_ID, is_new=True)
    failed: list[str] = []
    logs.on_failure(failed.append)
    house.disk.faults.add(DiskFault(frozenset({"append"}), errno.EIO, "/d1/"))
    with pytest.raises(KafkaError):
        house.append(first)
    house.append(second)

    assert failed == logs.offline_paths == ["/d1"]
    assert second.log_end_offset == 1
    assert (await logs.create(partition(2), TOPIC_ID, is_new=True)).directory == "/d2/orders-2"
    with pytest.raises(KafkaError) as caught:
        await logs.create(partition(3), TOPIC_ID, is_new=False)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert not await logs.close(5)
    house.disk.faults.clear()
    house.kill()
    again = await house.start()
    assert again.clean_broker_epoch is None
    found = again.get(partition(1))
    assert found is not None
    assert found.log_end_offset == 1


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
    """S-05: somebody changed it after the stop, or the mark belongs to another stop."""
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


@pytest.mark.parametrize("change", ["cluster", "broker"])
async def test_somebody_elses_directory_refuses_to_start(change: str) -> None:
    """S-32: its partitions would look like leftovers, and be removed."""
    house = House()
    await (await house.start()).close(1)
    if change == "cluster":
        house.cluster_id = "AAECAwQFBgcICQoLDA0ODw"
        match = "/d1 holds data of cluster wfSjsg0eT1qLbH2On6Cxwg"
    else:
        house.broker_id = 2
        match = "/d1 holds data of broker 1, but broker.id is 2"
    with pytest.raises(KafkaError, match=match):
        await house.start()
    house.broker_id, house.cluster_id = 1, "wfSjsg0eT1qLbH2On6Cxwg"
    await house.start()


async def test_a_directory_in_use_refuses_to_start() -> None:
    """Two processes appending to one file would interleave."""
    house = House()
    await house.start()
    with pytest.raises(KafkaError, match="/d1 is in use by another broker"):
        await house.start()


async def test_meta_properties_are_kafkas() -> None:
    """A Kafka of the ZooKeeper era accepts the directory as its own."""
    house = House(2)
    logs = await house.start()
    lines = bytes(house.disk.files.file("/d1/meta.properties").data).decode().splitlines()
    assert lines[:3] == ["version=0", "broker.id=1", "cluster.id=wfSjsg0eT1qLbH2On6Cxwg"]
    assert lines[3].startswith("directory.id=")
    await logs.close(1)
    before = bytes(house.disk.files.file("/d2/meta.properties").data)
    await house.start()
    assert bytes(house.disk.files.file("/d2/meta.properties").data) == before


async def test_an_empty_mount_point_does_not_make_its_partitions_anew() -> None:
    """S-13: an empty replica that joins the ISR would stand for data that is gone."""
    house = House(2)
    logs = await house.start()
    for number in range(2):
        house.append(await logs.create(partition(number), TOPIC_ID, is_new=True))
    await logs.close(1)
    await house.disk.remove_tree("/d2")
    logs = await house.start()

    assert len(logs.missing_ids) == 1
    assert logs.clean_broker_epoch is None
    with pytest.raises(KafkaError) as caught:
        await logs.create(partition(1), TOPIC_ID, is_new=False)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    await logs.create(partition(2), TOPIC_ID, is_new=True)
    await logs.close(2)
    logs = await house.start()
    assert len(logs.missing_ids) == 1, "it is remembered until somebody decides"
    await forget_missing(logs)
    await logs.create(partition(1), TOPIC_ID, is_new=False)
    await logs.close(3)
    assert (await house.start()).missing_ids == frozenset()


async def test_a_directory_that_cannot_be_read_is_offline_and_the_broker_starts() -> None:
    """One broken disk of twelve must not stop the other eleven."""
    house = House(3)
    await (await house.start()).close(1)
    house.disk.faults.add(DiskFault(frozenset({"open"}), errno.EIO, "/d2/meta"))
    logs = await house.start()
    assert logs.offline_paths == ["/d2"]
    await logs.create(partition(0), TOPIC_ID, is_new=True)
    with pytest.raises(KafkaError):
        await logs.create(partition(1), TOPIC_ID, is_new=False)

    none = House(1)
    none.disk.faults.add(DiskFault(frozenset({"make_directory"}), errno.EACCES))
    with pytest.raises(KafkaError, match="none of the data directories can be used: /d1"):
        await none.start()


async def test_a_deleted_partition_goes_by_renaming() -> None:
    """The name is free at once; the files go later, and readers that hold them go on."""
    house = House()
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(10):
        house.append(log, 3)
    read = log.read(0, 1000, 30, at_least_one=True)
    await logs.delete(partition(0))

    assert logs.get(partition(0)) is None
    marked = [name for name in house.entries("/d1") if name.startswith("orders")]
    assert len(marked) == 1
    assert marked[0].startswith("orders-0.")
    assert marked[0].endswith("-delete")
    with pytest.raises(KafkaError):
        house.append(log)
    fresh = await logs.create(partition(0), bytes(16), is_new=True)
    assert fresh.log_end_offset == 0
    await logs.tidy(house.clock.now_ms() + 60_000)
    assert [name for name in house.entries("/d1") if name.startswith("orders")] == ["orders-0"]
    assert read.region is not None
    assert len(read.region.read()) == read.region.size_bytes
    await logs.delete(TopicPartition("never", 0))


async def test_a_new_log_inherits_nothing_from_a_deleted_one_of_its_name() -> None:
    """S-06: an old recovery point would make ten records look like a loss of a thousand."""
    house = House()
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    for _ in range(10):
        house.append(log, 3)
    await log.flush()
    await log.delete_records_before(20)
    await logs.checkpoint({partition(0): 30})
    await logs.delete(partition(0))
    log = await logs.create(partition(0), bytes(16), is_new=True)
    house.append(log, 2)
    house.kill()
    logs = await house.start()

    found = logs.get(partition(0))
    assert found is not None
    assert (found.log_start_offset, found.log_end_offset) == (0, 2)
    assert logs.high_watermark(partition(0)) is None
    assert logs.damaged == {}


async def test_a_half_deleted_partition_is_removed_at_the_next_start() -> None:
    """The rename was the decision."""
    house = House()
    logs = await house.start()
    await logs.create(partition(0), TOPIC_ID, is_new=True)
    await logs.delete(partition(0))
    house.kill()
    logs = await house.start()
    await logs.tidy(0)
    assert not [name for name in house.entries("/d1") if name.startswith("orders")]


async def test_what_nobody_knows_is_left_alone() -> None:
    """S-32: strays are reported, never deleted."""
    house = House()
    names = ["lost+found", "snapshots", "a-0." + "0" * 32 + "-stray", "b-1." + "1" * 32 + "-future"]
    for name in names:
        house.disk.make_directory(f"/d1/{name}")
    logs = await house.start()
    assert sorted(logs.directories[0].unknown_names) == sorted(names)
    assert list(logs) == []
    await logs.tidy(10**12)
    assert set(names) <= set(house.entries("/d1"))


async def test_damage_takes_one_partition_out_of_service() -> None:
    """S-03: it is neither served nor cut nor made again as if new, until somebody decides."""
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


async def test_a_partition_in_two_directories_is_served_from_one() -> None:
    """Somebody copied it; neither copy is removed."""
    house = House(2)
    logs = await house.start()
    log = await logs.create(partition(0), TOPIC_ID, is_new=True)
    house.append(log, 3)
    await logs.close(1)
    house.disk.make_directory("/d2/orders-0")
    logs = await house.start()
    assert [log.directory for log in logs] == ["/d1/orders-0"]
    assert logs.directories[1].unknown_names == ["orders-0"]


async def test_checkpoints_survive_and_unloaded_partitions_keep_theirs() -> None:
    """R-26: a high watermark is found again; none means the log start."""
    house = House()
    logs = await house.start()
    for number in range(2):
        log = await logs.create(partition(number), TOPIC_ID, is_new=True)
        for _ in range(4):
            house.append(log)
        await log.flush()
    await logs.checkpoint({partition(0): 3, partition(1): 4, TopicPartition("other", 1): 9})
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data[70] ^= 1
    house.disk.files.file("/d1/orders-0/00000000000000000000.log").data.pop()
    house.kill()
    logs = await house.start()
    assert list(logs.damaged) == [partition(0)]
    await logs.checkpoint({partition(1): 4})
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


async def test_a_log_of_an_earlier_topic_of_the_same_name_is_not_taken_over() -> None:
    """KIP-516: the topic was deleted and made again while this broker was away."""
    house = House()
    logs = await house.start()
    made = await logs.create(partition(0), TOPIC_ID, is_new=True)
    assert await logs.create(partition(0), TOPIC_ID, is_new=False) is made
    with pytest.raises(KafkaError) as caught:
        await logs.create(partition(0), bytes(16), is_new=True)
    assert caught.value.code == ErrorCode.INCONSISTENT_TOPIC_ID


async def test_a_log_without_a_topic_id_is_given_one() -> None:
    """Left by a crash while it was made, or by a Kafka before 2.8."""
    house = House()
    logs = await house.start()
    await logs.create(partition(0), None, is_new=True)
    await logs.create(partition(0), TOPIC_ID, is_new=False)
    await logs.close(1)
    found = (await house.start()).get(partition(0))
    assert found is not None
    assert found.topic_id == TOPIC_ID
