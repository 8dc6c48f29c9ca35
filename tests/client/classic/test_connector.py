"""The classic consumer against brokers on a real ZooKeeper."""

from __future__ import annotations

import asyncio
import re
import socket
from typing import TYPE_CHECKING

import pytest

from ottla.classic import Blacklist, Consumer, ConsumerConnector, ConsumerTimedOut, Whitelist
from ottla.wire.errors import ClientClosed
from tests.client.classic.site import StreamReader, classic_site

if TYPE_CHECKING:
    from pathlib import Path

FOUR = {number: [number % 2 + 1] for number in range(4)}


def numbered(count: int, first: int = 0) -> list[bytes]:
    """Different messages."""
    return [b"%d" % number for number in range(first, first + count)]


@pytest.mark.requirement("CON-06", "CON-07", "CON-08", "CON-09", "CON-16")
async def test_streams_share_the_partitions_of_a_topic(tmp_path: Path) -> None:
    """Four streams in one call make one rebalance; a partition's messages stay in one stream."""
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", {number: [number % 2 + 1] for number in range(6)})
        for partition in range(6):
            await site.send("t", numbered(20, 100 * partition), partition)
        connector = await asyncio.to_thread(
            Consumer.create,
            {"zk.connect": site.brokers.place, "groupid": "g", "autooffset.reset": "smallest"},
        )
        site.connectors.append(connector)
        streams = await asyncio.to_thread(connector.createMessageStreams, {"t": 4})
        readers = [StreamReader(stream) for stream in streams["t"]]
        await site.until(lambda: sum(len(one.messages) for one in readers) == 120)
        rebalances = connector.rebalances
        members = site.brokers.tree.get_children("/consumers/g/ids")

    partitions = [{message.partition for message in one.messages} for one in readers]
    assert list(streams) == ["t"]
    assert partitions == [{0, 1}, {2, 3}, {4}, {5}]
    assert rebalances == 1
    assert len(members) == 1
    first = readers[0].messages[0]
    assert (first.topic, first.offset, first.key) == ("t", 0, None)
    assert first.message in (b"0", b"100")
    for reader in readers:
        for partition in {message.partition for message in reader.messages}:
            own = [one.offset for one in reader.messages if one.partition == partition]
            assert own == list(range(20))


@pytest.mark.requirement("CON-10", "CON-11", "CON-13")
async def test_a_whitelist_consumes_present_and_future_topics(tmp_path: Path) -> None:
    """A new topic needs no restart, and one stream has messages of several topics."""
    async with classic_site(tmp_path) as site:
        for topic in ("a1", "a2", "b1"):
            await site.topic(topic, {0: [1]})
            await site.send(topic, [topic.encode()])
        connector = site.connector()
        streams = await asyncio.to_thread(
            connector.create_message_streams_by_filter, Whitelist("a.*"), 2
        )
        readers = [StreamReader(stream) for stream in streams]
        await site.until(lambda: sum(len(one.messages) for one in readers) == 2)
        await site.topic("a3", {0: [1]})
        await site.send("a3", [b"a3"])
        await site.until(lambda: sum(len(one.messages) for one in readers) == 3)
        found = [message for reader in readers for message in reader.messages]

    assert len(streams) == 2
    assert sorted((one.topic, one.message) for one in found) == [
        ("a1", b"a1"),
        ("a2", b"a2"),
        ("a3", b"a3"),
    ]
    # Every topic has one partition: the first stream has them all.
    assert {one.topic for one in readers[0].messages} == {"a1", "a2", "a3"}


@pytest.mark.requirement("CON-12")
async def test_a_blacklist_consumes_all_other_topics(tmp_path: Path) -> None:
    """Internal topics are no messages of applications."""
    async with classic_site(tmp_path) as site:
        for topic in ("a1", "b1"):
            await site.topic(topic, {0: [1]})
            await site.send(topic, [topic.encode()])
        connector = site.connector(offsets_storage="kafka")
        streams = await asyncio.to_thread(
            connector.createMessageStreamsByFilter, Blacklist("a.*"), 1
        )
        reader = StreamReader(streams[0])
        await site.until(lambda: len(reader.messages) >= 1)
        await asyncio.to_thread(connector.commit_offsets)
        await site.send("a1", [b"more"])
        await site.send("b1", [b"more"])
        await site.until(lambda: len(reader.messages) >= 2)

    assert [(one.topic, one.message) for one in reader.messages] == [("b1", b"b1"), ("b1", b"more")]


@pytest.mark.requirement("CON-14")
async def test_a_commit_covers_everything_that_was_consumed(tmp_path: Path) -> None:
    """Messages that are fetched and not handed out yet are not committed."""
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", FOUR)
        for partition in range(4):
            await site.send("t", numbered(5), partition)
        connector = site.connector(auto_commit_enable="false", consumer_timeout_ms=30_000)
        streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
        taken = await asyncio.to_thread(lambda: [next(streams["t"][0]) for _ in range(7)])
        await asyncio.to_thread(connector.commitOffsets)
        committed = {
            int(name): int(site.brokers.tree.get(f"/consumers/g/offsets/t/{name}")[0])
            for name in site.brokers.tree.get_children("/consumers/g/offsets/t")
        }

    wanted = dict.fromkeys(range(4), 0)
    for message in taken:
        wanted[message.partition] = message.offset + 1
    assert committed == wanted


@pytest.mark.requirement("CON-15")
async def test_a_shutdown_ends_the_iterators_and_releases_the_partitions(tmp_path: Path) -> None:
    """The next consumer gets the partitions at once, and goes on where this one has stopped."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1], 1: [1]})
        await site.send("t", numbered(10), 0)
        first = site.connector()
        streams = await asyncio.to_thread(first.create_message_streams, {"t": 2})
        readers = [StreamReader(stream) for stream in streams["t"]]
        await site.until(lambda: len(readers[0].messages) == 10)
        await asyncio.to_thread(first.shutdown)
        await site.until(lambda: all(one.has_ended for one in readers))
        owners = site.brokers.tree.get_children("/consumers/g/owners/t")
        members = site.brokers.tree.get_children("/consumers/g/ids")
        await site.send("t", numbered(5, 10), 0)
        second = site.connector()
        streams = await asyncio.to_thread(second.create_message_streams, {"t": 1})
        reader = StreamReader(streams["t"][0])
        await site.until(lambda: len(reader.messages) == 5)
        await asyncio.to_thread(first.shutdown)

    assert (owners, members) == ([], [])
    assert [one.failure for one in readers] == [None, None]
    assert reader.values == numbered(5, 10)


@pytest.mark.requirement("CON-17")
def test_a_consumer_id_is_host_and_uuid() -> None:
    """Two consumers of one machine, and two starts of one consumer, have different ids."""
    properties = {"zookeeper.connect": "127.0.0.1:1", "group.id": "g"}
    ids = [ConsumerConnector(properties).consumer_id for _ in range(3)]

    for one in ids:
        host, _, rest = one.partition(":")
        assert host == socket.gethostname()
        assert re.fullmatch(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", rest)
    assert len(set(ids)) == 3
    assert ConsumerConnector({**properties, "consumerid": "mine"}).consumer_id == "mine"


async def test_members_that_come_and_go_hand_out_every_message_once(tmp_path: Path) -> None:
    """A clean change of members commits what was handed out, and drops the rest."""
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", FOUR)
        sent: list[bytes] = []
        readers: list[StreamReader] = []
        connectors = []
        for turn in range(4):
            values = numbered(400, 1_000 * turn)
            sent += values
            for partition in range(4):
                await site.send("t", values[partition::4], partition)
            connector = site.connector()
            connectors.append(connector)
            streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
            readers.append(StreamReader(streams["t"][0]))
            if turn == 2:
                await asyncio.to_thread(connectors[0].shutdown)
        await site.until(lambda: sum(len(one.messages) for one in readers) >= len(sent))

    found = [value for one in readers for value in one.values]
    assert sorted(found) == sorted(sent)


async def test_a_stream_times_out_and_goes_on(tmp_path: Path) -> None:
    """A program that has to look after other things does not wait for ever."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        connector = site.connector(consumer_timeout_ms=50)
        streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
        stream = streams["t"][0]
        with pytest.raises(ConsumerTimedOut):
            await asyncio.to_thread(next, stream)
        await site.send("t", [b"x"])
        async with asyncio.timeout(30):
            while True:
                try:
                    message = await asyncio.to_thread(next, stream)
                    break
                except ConsumerTimedOut:
                    continue

    assert message.message == b"x"


async def test_a_reset_to_the_largest_offset_is_committed_too(tmp_path: Path) -> None:
    """The next owner would begin at a later end otherwise, and lose what came between."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        await site.send("t", numbered(3))
        connector = site.connector(auto_offset_reset="largest")
        await asyncio.to_thread(connector.create_message_streams, {"t": 1})
        path = "/consumers/g/offsets/t/0"

        async def committed() -> bool:
            await asyncio.to_thread(connector.commit_offsets)
            return site.brokers.tree.exists(path) is not None

        async with asyncio.timeout(30):
            while not await committed():
                await asyncio.sleep(0.02)
        assert site.brokers.tree.get(path)[0] == b"3"


async def test_decoders_make_objects_of_keys_and_messages(tmp_path: Path) -> None:
    """The stream's thread decodes, not the one that fetches."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        await site.send("t", [b"17"])
        connector = site.connector()
        streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1}, None, int)
        message = await asyncio.to_thread(next, streams["t"][0])
        with pytest.raises(ClientClosed, match="once"):
            connector.create_message_streams({"t": 1})
        await asyncio.to_thread(connector.shutdown)
        with pytest.raises(ClientClosed, match="shut down"):
            connector.create_message_streams({"t": 1})

    assert message.message == 17


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"group.id": "g"}, "embedded store"),
        ({"zookeeper.connect": "h:1"}, "group.id"),
        ({"zookeeper.connect": "h:1", "group.id": "g", "group.idd": "x"}, "did you mean"),
        ({"zookeeper.connect": "h:1", "group.id": "g", "groupid": "h"}, "two values"),
        ({"zookeeper.connect": "h:1", "group.id": "g", "auto.commit.enable": "x"}, "true or false"),
        ({"zookeeper.connect": "h:1", "group.id": "g", "fetch.size": "x"}, "whole number"),
        ({"zookeeper.connect": "h:1", "group.id": "g", "fetch.size": 0}, "at least 1"),
        ({"zookeeper.connect": "h:1", "group.id": "g", "offsets.storage": "x"}, "one of"),
        ({"zookeeper.connect": "h:1", "group.id": ""}, "at least one character"),
    ],
)
def test_a_wrong_setting_is_told_by_its_name(properties: dict[str, object], words: str) -> None:
    """Not after the consumer has joined a group."""
    with pytest.raises(ValueError, match=words):
        ConsumerConnector(properties)
