"""Whole backups: made, restored and compared, also of Apache Kafka."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from ottla import Admin, Cluster, Consumer, Isolation, NewTopic, Producer, TopicPartition
from ottla.client.backup.errors import BackupError
from ottla.client.backup.planning import BEGINNING, END, offsets_of
from ottla.client.backup.store import DirectoryStore
from ottla.client.cluster.config_requests import ResourceType
from tests.client.backup.shelves import BrokenStore, create, restore, stored, verify

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 400


class Killed(BaseException):
    """The process is gone."""


async def fill(servers: str, topic: str, numbers: range, partitions: int = 2) -> None:
    """Send records with keys, headers and times."""
    # Many batches, so that there are many files.
    async with Producer(servers, batch_bytes=1_000, linger_ms=0) as producer:
        for number in numbers:
            await producer.send(
                topic,
                b"v%d" % number * 20,
                key=b"k%d" % number,
                partition=number % partitions,
                timestamp=1_000_000 + number,
                headers=(("h", b"%d" % number), ("h", None)),
            )


async def transact(servers: str, name: str, topic: str, *, commits: bool, partitions: int) -> None:
    """One transaction over all partitions. Its last marker may come after the answer."""
    async with Producer(servers, transactional_id=name) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        for partition in range(partitions):
            await producer.send(topic, name.encode(), key=b"key", partition=partition)
        await producer.flush()
        await (producer.commit_transaction() if commits else producer.abort_transaction())
    ends = dict.fromkeys((TopicPartition(topic, number) for number in range(partitions)), END)
    async with Admin(servers) as admin, asyncio.timeout(60):
        while await admin.list_offsets(ends, Isolation.READ_COMMITTED) != await admin.list_offsets(
            ends
        ):
            await asyncio.sleep(0.05)


async def commit(servers: str, group: str, positions: dict[TopicPartition, int]) -> None:
    async with Consumer(servers, group_id=group, auto_commit=False) as consumer:
        consumer.assign(list(positions))
        await consumer.commit(positions)


async def positions_of(servers: str, group: str) -> dict[TopicPartition, int]:
    async with Admin(servers) as admin:
        found = await admin.groups.offsets(group)
        return {where: position.offset for where, position in found.items()}


async def values_of(servers: str, topic: str, partition: int, offset: int) -> list[bytes | None]:
    """What a consumer reads from an offset on."""
    where, found = TopicPartition(topic, partition), list[bytes | None]()
    async with Consumer(servers, isolation="read_committed") as consumer:
        consumer.assign([where])
        consumer.seek(where, offset)
        end = (await consumer.end_offsets([where]))[where]
        while (consumer.position(where) or 0) < end:
            found += [record.value for record in await consumer.poll(100)]
    return found


async def test_a_backup_is_restored_with_everything(
    any_broker: str, store: DirectoryStore, target: Cluster
) -> None:
    """Records with offsets, times, keys, headers; settings; positions; no aborted record."""
    topic = f"orders-{uuid4().hex[:8]}"
    async with Admin(any_broker) as admin:
        configs = {"retention.ms": "9900000", "cleanup.policy": "compact,delete"}
        await admin.create_topic(NewTopic(topic, 2, 1, configs))
    only: dict[str, object] = {"topics": (topic,), "groups": (f"^{topic}",)}
    await fill(any_broker, topic, range(COUNT))
    await transact(any_broker, f"{topic}-a", topic, commits=False, partitions=2)
    await transact(any_broker, f"{topic}-b", topic, commits=True, partitions=2)
    await fill(any_broker, topic, range(COUNT, COUNT + 10))
    where = TopicPartition(topic, 0)
    half = COUNT // 2
    await commit(any_broker, topic, {where: half + 2, TopicPartition(topic, 1): 5})

    first = await create(any_broker, store, request=only)
    await fill(any_broker, topic, range(500, 600))
    second = await create(any_broker, store, request=only)
    done = await restore(target.bootstrap_servers, store)

    assert (first.number, second.number) == (1, 2)
    new = [file for file in second.files if file not in first.files]
    assert {file.first_offset for file in new} == {half + 9}
    assert (done.topics, done.records, done.positions) == (1, COUNT + 2 + 10 + 100, 2)
    for servers in (any_broker, target.bootstrap_servers):
        found = await verify(servers, store)
        assert (found.faults, found.records) == ([], done.records)
    # Of the first two offsets after the plain records one was an aborted record, one its marker.
    assert await positions_of(target.bootstrap_servers, topic) == {
        where: half,
        TopicPartition(topic, 1): 5,
    }
    values = await values_of(target.bootstrap_servers, topic, 0, half)
    assert values[0] == f"{topic}-b".encode()
    async with Admin(target.bootstrap_servers) as admin:
        entries = await admin.describe_configs(ResourceType.TOPIC, topic)
        values_by_name = {one.name: one.value for one in entries if one.name in configs}
    assert values_by_name == configs


async def test_offsets_stay_although_the_log_begins_later(
    source: Cluster, store: DirectoryStore, target: Cluster
) -> None:
    """Retention has deleted the beginning; consumers keep their positions outside of Kafka, too."""
    source.create_topic("orders", 1)
    where = TopicPartition("orders", 0)
    await fill(source.bootstrap_servers, "orders", range(100), 1)
    async with Admin(source.bootstrap_servers) as admin:
        await admin.delete_records({where: 37})
    await create(source.bootstrap_servers, store)

    done = await restore(target.bootstrap_servers, store)

    assert (done.records, done.shifted) == (63, 0)
    async with Admin(target.bootstrap_servers) as admin:
        assert await offsets_of(admin, [where], BEGINNING) == {where: 37}
    (value, *_) = await values_of(target.bootstrap_servers, "orders", 0, 37)
    assert value == b"v37" * 20


async def test_a_backup_that_dies_at_any_write_is_finished_by_the_next_run(
    source: Cluster, tmp_path: Path
) -> None:
    """Before and after each file, the plan, the manifest: what is there is used, and whole."""
    source.create_topic("orders", 2)
    await fill(source.bootstrap_servers, "orders", range(COUNT))
    whole = DirectoryStore(tmp_path / "whole")
    counted = BrokenStore(whole)
    expected = await create(source.bootstrap_servers, counted, 8_000)
    records = await stored(whole, expected, "orders")
    assert counted.writes >= 6

    for number in range(1, counted.writes + 1):
        for is_before in (True, False):
            inner = DirectoryStore(tmp_path / f"{number}-{is_before}")

            def die(at: int, name: str, number: int = number) -> None:
                if at >= number:
                    raise Killed(name)

            nothing = lambda at, name: None  # noqa: E731
            broken = BrokenStore(inner, *((die, nothing) if is_before else (nothing, die)))
            with pytest.raises(Killed):
                await create(source.bootstrap_servers, broken, 8_000)
            manifest = await create(source.bootstrap_servers, inner, 8_000)

            assert await stored(inner, manifest, "orders") == records
            assert inner.names("unfinished") == []


async def test_a_restore_that_dies_goes_on_without_a_record_twice(
    source: Cluster, store: DirectoryStore, target: Cluster
) -> None:
    """How far it got is what the target has."""
    source.create_topic("orders", 2)
    source.create_topic("others", 1)
    await fill(source.bootstrap_servers, "orders", range(COUNT))
    await create(source.bootstrap_servers, store, 4_000)
    reads = 0

    class DyingStore(BrokenStore):
        def read(self, name: str) -> bytes:
            nonlocal reads
            reads += name.startswith("records/")
            if reads == 4:
                raise Killed
            return super().read(name)

    with pytest.raises(Killed):
        await restore(target.bootstrap_servers, DyingStore(store))
    async with Admin(target.bootstrap_servers) as admin:
        partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1)]
        ends = await offsets_of(admin, partitions, END)
    done = await restore(target.bootstrap_servers, store)

    assert 0 < sum(ends.values()) < COUNT
    assert done.records == COUNT
    found = await verify(target.bootstrap_servers, store)
    assert (found.faults, found.records) == ([], COUNT)


async def test_a_topic_that_is_there_is_never_written_to(
    source: Cluster, store: DirectoryStore
) -> None:
    """A restore into the cluster of the backup would double its records."""
    source.create_topic("orders", 1)
    await fill(source.bootstrap_servers, "orders", range(5), 1)
    await create(source.bootstrap_servers, store)

    with pytest.raises(BackupError, match="'orders' exists already"):
        await restore(source.bootstrap_servers, store)
    assert (await verify(source.bootstrap_servers, store)).records == 5


async def test_a_full_disk_ends_the_backup_and_the_next_run_finishes_it(
    source: Cluster, store: DirectoryStore
) -> None:
    """Everything that had room stays."""
    source.create_topic("orders", 2)
    await fill(source.bootstrap_servers, "orders", range(COUNT))

    def is_full(number: int, name: str) -> None:
        if number > 3:
            raise OSError(errno.ENOSPC, "No space left on device", name)

    with pytest.raises(OSError, match="No space left"):
        await create(source.bootstrap_servers, BrokenStore(store, is_full), 4_000)
    counted = BrokenStore(store)
    await create(source.bootstrap_servers, counted, 4_000)

    assert (await verify(source.bootstrap_servers, store)).records == COUNT


async def test_a_topic_that_is_deleted_meanwhile_is_left_out(
    source: Cluster, store: DirectoryStore
) -> None:
    """The backup of the others is not lost for it."""
    source.create_topic("orders", 1)
    source.create_topic("others", 1)
    for topic in ("orders", "others"):
        await fill(source.bootstrap_servers, topic, range(COUNT), 1)
        await commit(source.bootstrap_servers, "g", {TopicPartition(topic, 0): 3})

    def delete(number: int, name: str) -> None:
        if number == 1:
            asyncio.run(delete_topic(source.bootstrap_servers, "others"))

    manifest = await create(source.bootstrap_servers, BrokenStore(store, after=delete), 4_000)

    assert [topic.name for topic in manifest.topics] == ["orders"]
    assert [one.topic for one in manifest.positions] == ["orders"]
    assert manifest.notes == ("topic 'others' was deleted while the backup was made",)
    assert (await verify(source.bootstrap_servers, store)).faults == []


async def delete_topic(servers: str, topic: str) -> None:
    async with Admin(servers) as admin:
        await admin.delete_topics([topic])


async def test_records_that_expire_meanwhile_are_left_out(
    source: Cluster, store: DirectoryStore, target: Cluster
) -> None:
    """Retention does not wait for a backup."""
    source.create_topic("orders", 1)
    where = TopicPartition("orders", 0)
    # Several batches: the leader sends whole ones.
    for begin in range(0, COUNT, 40):
        await fill(source.bootstrap_servers, "orders", range(begin, begin + 40), 1)

    async def expire() -> None:
        async with Admin(source.bootstrap_servers) as admin:
            await admin.delete_records({where: 300})

    def after_plan(number: int, name: str) -> None:
        if number == 1:
            asyncio.run(expire())

    manifest = await create(source.bootstrap_servers, BrokenStore(store, after=after_plan), 4_000)
    await restore(target.bootstrap_servers, store)

    (copy,) = manifest.topics[0].partitions
    assert (copy.log_start, copy.end_offset) == (300, COUNT)
    assert (await verify(target.bootstrap_servers, store)).records == COUNT - 300


async def test_a_damaged_file_is_found_and_not_restored(
    source: Cluster, store: DirectoryStore, target: Cluster, tmp_path: Path
) -> None:
    """One flipped bit on a disk."""
    source.create_topic("orders", 1)
    await fill(source.bootstrap_servers, "orders", range(COUNT), 1)
    manifest = await create(source.bootstrap_servers, store, 4_000)
    path = tmp_path / "backup" / manifest.files[1].name
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)

    (fault,) = (await verify(source.bootstrap_servers, store)).faults
    with pytest.raises(BackupError, match="checksum does not fit"):
        await restore(target.bootstrap_servers, store)

    assert fault == f"{path} is damaged: its checksum does not fit"
