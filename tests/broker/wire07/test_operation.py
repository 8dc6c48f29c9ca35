"""What an operator sees and sets of the listener for 0.7, and what it leaves in the store."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.wire07.stored import PATH
from ottla.coordinator.store.store import NoNode
from ottla.protocol.messages import incremental_alter_configs
from ottla.protocol.messages.delete_topics import DeleteTopicsRequest
from tests.broker.support.requests import batch, create, created_meanwhile, produced
from tests.broker.wire07.site import site_07
from tests.protocol.wire07.client_07 import LATEST
from tests.support.pages import page

if TYPE_CHECKING:
    from tests.broker.wire07.site import Site07
    from tests.support.raw_client import RawClient


async def _kept(site: Site07) -> list[str]:
    session = site.broker.requests.services.session()
    try:
        return await session.children(PATH)
    except NoNode:
        return []


async def _kept_are(site: Site07, names: list[str]) -> None:
    async with asyncio.timeout(60):
        while await _kept(site) != names:
            await asyncio.sleep(0.01)


async def _used(client: RawClient, site: Site07, *topics: str) -> None:
    """Topics of which clients of 0.7 have been told positions."""
    for topic in topics:
        await create(client, topic)
        await created_meanwhile(client, topic)
        await produced(client, batch(b"x"), topic=topic)
        async with site.connect_07() as old:
            assert await old.offsets(topic, LATEST) == (0, [11])


async def test_positions_of_deleted_topics_leave_the_store() -> None:
    """Each was a znode for ever; those of other topics stay."""
    async with site_07() as site, site.connect() as today:
        await _used(today, site, "a", "b-1", "b")
        assert await _kept(site) == ["a-0", "b-0", "b-1-0"]
        await today.call(5, DeleteTopicsRequest(topic_names=["b"], timeout_ms=5_000))
        await _kept_are(site, ["a-0", "b-1-0"])
        await create(today, "b")
        await today.call(5, DeleteTopicsRequest(topic_names=["a"], timeout_ms=5_000))
        await _kept_are(site, ["b-1-0"])
        async with site.connect_07() as old:
            assert await old.offsets("b-1", LATEST) == (0, [11])


async def test_a_start_finds_what_was_deleted_meanwhile() -> None:
    """The topic was deleted while no listener for 0.7 was open."""
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today:
        await _used(today, site, "a", "b")
    async with site_07({"ottla.listener.07": ""}, disk=disk) as site, site.connect() as today:
        await today.call(5, DeleteTopicsRequest(topic_names=["a"], timeout_ms=5_000))
        assert await _kept(site) == ["a-0", "b-0"]
    async with site_07(disk=disk) as site:
        await _kept_are(site, ["b-0"])


async def test_the_metrics_show_the_listener() -> None:
    """Its connections are in no other figure."""
    async with site_07({"ottla.metrics.listener": "127.0.0.1:0"}) as site, site.connect_07() as old:
        await old.offsets("t", LATEST)
        text = (await page(site.broker.pages.address, "/metrics")).text

    assert "ottla_listener_07_connection_count 1\n" in text
    assert "ottla_listener_07_request_total 1\n" in text
    assert "ottla_listener_07_connection_refused_total 0\n" in text


async def _limited(client: RawClient, count: int) -> None:
    line = incremental_alter_configs.AlterableConfig(
        name="max.connections.per.ip", config_operation=0, value=str(count)
    )
    resource = incremental_alter_configs.AlterConfigsResource(
        resource_type=4, resource_name="", configs=[line]
    )
    request = incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    answer = await client.call(1, request)
    assert answer.responses[0].error_code == 0


async def test_changed_limits_of_connections_hold_for_the_listener() -> None:
    """At once, and for the listener of the next start."""
    disk = MemoryDisk()
    async with site_07(disk=disk) as site, site.connect() as today:
        await _limited(today, 1)
        await _refuses_the_second(site)
    async with site_07(disk=disk) as site:
        await _refuses_the_second(site)


async def _refuses_the_second(site: Site07) -> None:
    listener = site.broker.state.listener_07
    assert listener is not None
    async with asyncio.timeout(60):
        while not listener.network.diagnostics().acceptor.refused_count:
            async with site.connect_07() as one:
                await one.offsets("t", LATEST)
                async with site.connect_07() as two:
                    # A changed setting arrives by the metadata.
                    with contextlib.suppress(ConnectionError, EOFError):
                        await two.offsets("t", LATEST)
            await asyncio.sleep(0.01)
