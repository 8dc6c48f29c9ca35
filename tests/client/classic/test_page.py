"""The programs of docs/classic.md run as they are printed, and with the embedded tree."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest

import ottla
import ottla.sync
from ottla.broker.engine.tasks import Tasks
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.classic import ConsumerConnector, ConsumerTimedOut, Producer, ProducerData
from ottla.coordinator.store import paths
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.wire.clock import RealClock
from tests.client.classic.registry.members import add_topic, prepare
from tests.client.classic.site import classic_site
from tests.tidy.tree import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.coordinator.store.store import Store

PAGE = ROOT / "docs" / "classic.md"


def programs(zookeeper: str, broker: str) -> list[str]:
    """The page's programs, for these addresses."""
    found = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    host, _, port = broker.rpartition(":")
    return [
        one.replace("127.0.0.1:2181", zookeeper).replace('"127.0.0.1", 9092', f'"{host}", {port}')
        for one in found
    ]


async def test_the_programs_of_the_page_run(tmp_path: Path) -> None:
    """Readers copy them."""
    async with classic_site(tmp_path) as site:
        await site.topic("orders", {0: [1], 1: [1]})
        await site.topic("audit", {0: [1]})
        produced, consumed, _secured, _, fetched = programs(site.brokers.place, site.bootstrap)
        # The program waits for messages for ever.
        limited = consumed.replace('"group.id"', '"consumer.timeout.ms": 2_000, "group.id"')
        for_one = limited.replace('{"orders": 2}', '{"orders": 1}')
        names: dict[str, Any] = {}
        printed: list[tuple[object, ...]] = []
        names["print"] = lambda *words: printed.append(words)
        await asyncio.to_thread(exec, produced, names)
        with pytest.raises(ConsumerTimedOut):
            await asyncio.to_thread(exec, for_one, names)
        site.connectors.append(names["connector"])
        by_stream = [one[3] for one in printed if isinstance(one[3], bytes)]
        printed.clear()
        await asyncio.to_thread(exec, fetched, names)

    assert limited != consumed
    assert sorted(by_stream) == [b"first", b"second", b"third"]
    assert {one[1] for one in printed} <= set(by_stream)


def test_the_embedded_tree_does_for_a_group_and_a_producer() -> None:
    """The same code without ZooKeeper: what a test of an application may want."""
    with ottla.Cluster() as cluster:
        cluster.create_topic("t", partitions=2)
        host, _, port = cluster.bootstrap_servers.rpartition(":")
        registration = paths.build_broker(
            paths.BrokerPayload((paths.EndpointPayload("P", host, int(port), "PLAINTEXT"),))
        )
        opened: list[EmbeddedStore] = []
        tasks = Tasks()

        async def open_embedded(connect: str, limit_ms: int | None) -> Store:
            store = await EmbeddedStore.open(MemoryDisk(), RealClock(), tasks.spawn, "/store")
            session = await store.connect()
            await prepare(session)
            await session.set(paths.broker(1), registration)
            await add_topic(session, "t", {0: (1,), 1: (1,)})
            await session.create(paths.partitions("t"))
            for number in (0, 1):
                state = paths.build_state(paths.StatePayload(1, 0, (1,), 1))
                await session.create(paths.partition("t", number))
                await session.create(paths.state("t", number), state)
            opened.append(store)
            return store

        with Producer({"zk.connect": "embedded"}, open_embedded) as producer:
            assert producer.partitions_of("t") == [(1, 0), (1, 1)]
            producer.send([ProducerData("t", key, [b"x"]) for key in range(10)])
        properties = {"zk.connect": "embedded", "groupid": "g", "autooffset.reset": "smallest"}
        connector = ConsumerConnector(properties, open_embedded)
        try:
            streams = connector.create_message_streams({"t": 2})
            first = [next(streams["t"][0]) for _ in range(5)]
            second = [next(streams["t"][1]) for _ in range(5)]
        finally:
            connector.shutdown()
        for store in opened:
            connector._run(store.close())
        connector._run(tasks.stop())

    assert {one.partition for one in first} == {0}
    assert {one.partition for one in second} == {1}
