"""Whose directory it is, which ones are missing, and that unknown files are left alone."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.log.directories.opening import forget_missing
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.broker_disk import TOPIC_ID, BrokerDisk, partition


@pytest.mark.parametrize("change", ["cluster", "broker"])
async def test_the_directory_of_another_cluster_or_broker_refuses_to_start(change: str) -> None:
    """S-32: its partitions would look like leftovers, and be removed."""
    broker = BrokerDisk()
    await (await broker.start()).close(1)
    if change == "cluster":
        broker.cluster_id = "AAECAwQFBgcICQoLDA0ODw"
        match = "/d1 holds data of cluster wfSjsg0eT1qLbH2On6Cxwg"
    else:
        broker.broker_id = 2
        match = "/d1 holds data of broker 1, but broker.id is 2"
    with pytest.raises(KafkaError, match=match):
        await broker.start()
    broker.broker_id, broker.cluster_id = 1, "wfSjsg0eT1qLbH2On6Cxwg"
    await broker.start()


async def test_a_directory_in_use_refuses_to_start() -> None:
    """Two processes appending to one file would interleave."""
    broker = BrokerDisk()
    await broker.start()
    with pytest.raises(KafkaError, match="/d1 is in use by another broker"):
        await broker.start()


async def test_meta_properties_are_kafkas() -> None:
    """A Kafka of the ZooKeeper era accepts the directory as its own."""
    broker = BrokerDisk(2)
    logs = await broker.start()
    lines = bytes(broker.disk.files.file("/d1/meta.properties").data).decode().splitlines()
    assert lines[:3] == ["version=0", "broker.id=1", "cluster.id=wfSjsg0eT1qLbH2On6Cxwg"]
    assert lines[3].startswith("directory.id=")
    await logs.close(1)
    before = bytes(broker.disk.files.file("/d2/meta.properties").data)
    await broker.start()
    assert bytes(broker.disk.files.file("/d2/meta.properties").data) == before


async def test_an_empty_mount_point_does_not_make_its_partitions_anew() -> None:
    """S-13: an empty replica that joins the ISR would stand for data that is gone."""
    broker = BrokerDisk(2)
    logs = await broker.start()
    for number in range(2):
        broker.append(await logs.create(partition(number), TOPIC_ID, is_new=True))
    await logs.close(1)
    await broker.disk.remove_tree("/d2")
    logs = await broker.start()

    assert len(logs.missing_ids) == 1
    assert logs.clean_broker_epoch is None
    with pytest.raises(KafkaError) as caught:
        await logs.create(partition(1), TOPIC_ID, is_new=False)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    await logs.create(partition(2), TOPIC_ID, is_new=True)
    await logs.close(2)
    logs = await broker.start()
    assert len(logs.missing_ids) == 1, "it is remembered until somebody decides"
    await forget_missing(logs)
    await logs.create(partition(1), TOPIC_ID, is_new=False)
    await logs.close(3)
    assert (await broker.start()).missing_ids == frozenset()


async def test_a_directory_that_cannot_be_read_is_offline_and_the_broker_starts() -> None:
    """One broken disk of twelve must not stop the other eleven."""
    broker = BrokerDisk(3)
    await (await broker.start()).close(1)
    broker.disk.faults.add(DiskFault(frozenset({"open"}), errno.EIO, "/d2/meta"))
    logs = await broker.start()
    assert logs.offline_paths == ["/d2"]
    await logs.create(partition(0), TOPIC_ID, is_new=True)
    with pytest.raises(KafkaError):
        await logs.create(partition(1), TOPIC_ID, is_new=False)

    none = BrokerDisk(1)
    none.disk.faults.add(DiskFault(frozenset({"make_directory"}), errno.EACCES))
    with pytest.raises(KafkaError, match="none of the data directories can be used: /d1"):
        await none.start()


async def test_unknown_files_are_left_alone() -> None:
    """S-32: strays are reported, never deleted."""
    broker = BrokerDisk()
    names = ["lost+found", "snapshots", "a-0." + "0" * 32 + "-stray", "b-1." + "1" * 32 + "-future"]
    for name in names:
        broker.disk.make_directory(f"/d1/{name}")
    logs = await broker.start()
    # The copy of a move is known; its partition is not here, so it stays as well.
    assert sorted(logs.directories[0].unknown_names) == sorted(names[:-1])
    assert logs.futures.unfinished == {partition(1, "b"): "/d1"}
    assert list(logs) == []
    await logs.tidy(10**12)
    assert set(names) <= set(broker.entries("/d1"))
