"""Quotas and credentials of users, clients and addresses: stored, announced, followed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.metadata.config_watch import ConfigWatch
from ottla.broker.metadata.metadata import MetadataCache
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.coordinator.metadata.image import Entity
from ottla.coordinator.store import entities, paths
from tests.broker.support.node import BrokerNode, open_node, quiet

if TYPE_CHECKING:
    import pytest


async def write_as_kafka(node: BrokerNode, name: str, data: bytes) -> None:
    """What kafka-configs does with ZooKeeper: the znodes above have no data."""
    session = node.lifecycle.session
    for above in entities.parents("users", name):
        await session.create(paths.config("users", above))
    await session.create(paths.config("users", name), data)
    announcement = b'{"version":2,"entity_path":"users/%s"}' % name.encode()
    await session.create(paths.CONFIG_CHANGE_PREFIX, announcement, sequential=True)


async def test_quotas_of_users_clients_and_addresses_count_when_the_answer_comes() -> None:
    """Under the quoted names, which Kafka's own tools use, too."""
    node = await open_node(MemoryDisk())
    both = entities.quoted_user_client("a b", None)
    for kind, name in (("users", "a%20b"), ("users", both), ("clients", "c"), ("ips", "<default>")):
        await node.admin.set_configs(kind, name, {"x": name})
        assert node.metadata.config(kind, name) == {"x": name}
    session = node.lifecycle.session
    names = await session.children(paths.CONFIG_CHANGES)
    told = [(await session.get(f"{paths.CONFIG_CHANGES}/{name}")).data for name in names]

    assert told[1] == b'{"version":2,"entity_path":"users/a%20b/clients/<default>"}'
    assert await session.children("/config/users") == ["a%20b"]
    assert await session.children("/config/users/a%20b/clients") == ["<default>"]
    await node.stop()


async def test_the_first_setting_of_a_client_of_a_user_makes_the_znodes_above() -> None:
    """The user's own znode may come earlier, later, or at the same time."""
    node = await open_node(MemoryDisk())
    names = [entities.quoted_user_client("u", client) for client in ("a", "b", None)]
    await asyncio.gather(
        *(node.admin.set_configs("users", name, {"x": "1"}) for name in (*names, "u"))
    )

    assert [node.metadata.config("users", name) for name in (*names, "u")] == [{"x": "1"}] * 4
    await node.stop()


async def test_quotas_that_kafkas_tools_wrote_are_followed() -> None:
    """Also those of a client of a user, whose own znode is empty then."""
    node = await open_node(MemoryDisk())
    name = entities.quoted_user_client("u", "c")
    await write_as_kafka(node, name, paths.build_config({"producer_byte_rate": "5"}))
    await quiet()

    assert node.metadata.config("users", name) == {"producer_byte_rate": "5"}
    await node.lifecycle.session.delete(paths.config("users", name))
    await node.configs.refresh([Entity("users", name)])
    assert Entity("users", name) not in node.metadata.image.configs
    await node.stop()


async def test_credentials_and_quotas_of_one_user_do_not_overwrite_each_other() -> None:
    """They share a znode; a password that is lost locks the user out."""
    node = await open_node(MemoryDisk())

    async def add(name: str) -> None:
        await node.admin.change_configs("users", "u", lambda current: {**current, name: "1"})

    await asyncio.gather(*(add(name) for name in ("SCRAM-SHA-256", "producer_byte_rate", "x")))

    expected = {"SCRAM-SHA-256": "1", "producer_byte_rate": "1", "x": "1"}
    assert node.metadata.config("users", "u") == expected
    await node.stop()


async def test_a_stored_setting_that_is_read_at_the_start_only_is_named_in_the_log(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """kafka-configs reports success: without the warning the operator believes that it works."""
    node = await open_node(MemoryDisk())
    values = {"num.replica.fetchers": "4", "log.cleaner.backoff.ms": "100"}
    await node.admin.set_configs("brokers", "<default>", values)

    warned = [one.getMessage() for one in caplog.records if one.name == "ottla.configs"]
    assert warned
    assert all("num.replica.fetchers is set in the metadata store" in one for one in warned)
    await node.stop()


async def test_a_broker_that_joins_reads_users_and_their_clients() -> None:
    """It hears of no announcement that was made before it came."""
    node = await open_node(MemoryDisk())
    name = entities.quoted_user_client("u", "c")
    await write_as_kafka(node, name, paths.build_config({"x": "1"}))
    await node.admin.set_configs("ips", "127.0.0.1", {"connection_creation_rate": "3"})
    metadata = MetadataCache(node.clock)
    watch = ConfigWatch(metadata, node.tasks)
    await watch.begin(node.lifecycle.session)

    assert metadata.config("users", name) == {"x": "1"}
    assert Entity("users", "u") in metadata.image.configs
    assert metadata.config("ips", "127.0.0.1") == {"connection_creation_rate": "3"}
    await watch.end()
    await node.stop()


async def test_a_change_while_a_broker_reads_the_settings_is_followed_and_those_after_it_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The announcement uses up the watch: a broker that forgot of it would let a user with a
    removed credential in until its session ends."""
    node = await open_node(MemoryDisk())
    await node.admin.set_configs("users", "u", {"x": "1"})
    session = node.lifecycle.session
    metadata = MetadataCache(node.clock)
    watch = ConfigWatch(metadata, node.tasks)
    real = session.get
    is_begun, may_go_on = asyncio.Event(), asyncio.Event()

    async def get(path: str, *rest: Any) -> Any:
        found = await real(path, *rest)
        if path == paths.config("users", "u"):
            is_begun.set()
            await may_go_on.wait()
        return found

    monkeypatch.setattr(session, "get", get)
    begun = asyncio.create_task(watch.begin(session))
    await is_begun.wait()
    monkeypatch.setattr(session, "get", real)
    for value in ("2", "3"):
        await node.admin.set_configs("users", "u", {"x": value})
        await session.sync()
        may_go_on.set()
        await begun
        async with asyncio.timeout(30):
            while metadata.config("users", "u") != {"x": value}:
                await asyncio.sleep(0.005)
    await watch.end()
    await node.stop()
