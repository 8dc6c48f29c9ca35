"""A backup is made while its source changes: leaders fail, and the cleaner compacts."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla import Admin, Cluster, Producer
from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.protocol.configs import ConfigOperation
from tests.client.backup.shelves import BrokenStore, create, restore, stored, verify
from tests.client.backup.test_backups import fill

if TYPE_CHECKING:
    from ottla.client.backup.store import DirectoryStore

COUNT = 600
KEYS = 40
PATIENCE_S = 60
# Before this file is written the source is disturbed: others have been copied, and others follow.
DISTURBED_AT = 4


async def test_a_leader_that_dies_in_the_middle_costs_no_record(store: DirectoryStore) -> None:
    """The rest is copied from the new leaders; offsets and records are the same there."""
    with Cluster(brokers=3) as source, Cluster() as target:
        await asyncio.to_thread(source.create_topic, "orders", 2, replication_factor=3)
        await fill(source.bootstrap_servers, "orders", range(COUNT))
        killed: list[int] = []

        def before(number: int, name: str) -> None:
            if name.startswith("records/"):
                killed.append(number)
                if len(killed) == DISTURBED_AT:
                    source.faults.kill(source.leader("orders", 0))

        manifest = await create(
            source.bootstrap_servers, BrokenStore(store, before=before), file_bytes=2_000
        )
        found = await verify(source.bootstrap_servers, store)
        done = await restore(target.bootstrap_servers, store)
        again = await verify(target.bootstrap_servers, store)

    assert len(killed) > DISTURBED_AT
    assert (found.faults, found.records) == ([], COUNT)
    assert (done.records, again.faults, again.records) == (COUNT, [], COUNT)
    assert manifest.is_exact


async def test_compaction_in_the_middle_leaves_the_newest_value_of_each_key(
    store: DirectoryStore,
) -> None:
    """Segments are replaced between two fetches; a table that is restored must not miss a key."""
    settings = {"log.cleaner.backoff.ms": "20"}
    configs = {
        "cleanup.policy": "compact",
        "segment.bytes": "4000",
        "min.cleanable.dirty.ratio": "0",
        "min.compaction.lag.ms": "3600000",
    }
    with Cluster(settings=settings) as source, Cluster() as target:
        await asyncio.to_thread(source.create_topic, "table", 1, configs=configs)
        await _write(source, range(COUNT))
        loop = asyncio.get_running_loop()
        written: list[str] = []
        sizes: list[int] = []

        def before(_number: int, name: str) -> None:
            if name.startswith("records/"):
                written.append(name)
                if len(written) == DISTURBED_AT:
                    compacted = asyncio.run_coroutine_threadsafe(_compact(source), loop)
                    sizes.extend(compacted.result(PATIENCE_S))

        manifest = await create(
            source.bootstrap_servers, BrokenStore(store, before=before), file_bytes=1_500
        )
        (records,) = await stored(store, manifest, "table")
        found = await verify(source.bootstrap_servers, store)
        done = await restore(target.bootstrap_servers, store)
        again = await verify(target.bootstrap_servers, store)

    assert sizes[1] < sizes[0] / 2
    assert len(written) > DISTURBED_AT
    latest = {one.key: one.value for one in records}
    newest = range(COUNT - KEYS, COUNT)
    assert latest == {b"k%d" % (number % KEYS): b"v%d" % number * 10 for number in newest}
    offsets = [one.offset for one in records]
    assert offsets == sorted(set(offsets))
    assert KEYS < len(records) < COUNT
    assert found.faults == again.faults == []
    assert found.expired > 0
    assert done.records == len(records) == again.records


async def _write(source: Cluster, numbers: range) -> None:
    """Write each key again and again."""
    async with Producer(source.bootstrap_servers, batch_bytes=500, linger_ms=0) as producer:
        for number in numbers:
            await producer.send("table", b"v%d" % number * 10, key=b"k%d" % (number % KEYS))


async def _compact(source: Cluster) -> tuple[int, int]:
    """Allow the cleaner to compact the topic; return its size before it and after it."""
    async with Admin(source.bootstrap_servers) as admin, asyncio.timeout(PATIENCE_S):
        before = await _size(admin)
        change = ConfigChange("min.compaction.lag.ms", ConfigOperation.SET, "0")
        await admin.alter_configs(ResourceType.TOPIC, "table", [change])
        while (after := await _size(admin)) >= before / 2:
            await asyncio.sleep(0.02)
        return before, after


async def _size(admin: Admin) -> int:
    (directories,) = (await admin.brokers.log_dirs()).values()
    assert isinstance(directories, list)
    return sum(
        replica.size_bytes
        for directory in directories
        for replica in directory.replicas
        if replica.partition.topic == "table"
    )
