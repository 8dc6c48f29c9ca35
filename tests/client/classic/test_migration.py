"""Where a group's offsets are, and how a group is moved from one storage to the other."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.protocol.ids import TopicPartition
from tests.client.classic.site import StreamReader, classic_site

if TYPE_CHECKING:
    from pathlib import Path

    from ottla.classic import ConsumerConnector
    from tests.client.classic.site import ClassicSite

PARTITIONS = range(4)
STEPS = {
    "kafka": (
        {"offsets_storage": "zookeeper"},
        {"offsets_storage": "kafka", "dual_commit_enabled": "true"},
        {"offsets_storage": "kafka", "dual_commit_enabled": "false"},
    ),
    "zookeeper": (
        {"offsets_storage": "kafka", "dual_commit_enabled": "false"},
        {"offsets_storage": "zookeeper", "dual_commit_enabled": "true"},
        {"offsets_storage": "zookeeper", "dual_commit_enabled": "false"},
    ),
}


def in_zookeeper(site: ClassicSite) -> dict[int, int]:
    """The group's offsets in the tree."""
    tree, path = site.brokers.tree, "/consumers/g/offsets/t"
    names = tree.get_children(path) if tree.exists(path) else []
    return {int(name): int(tree.get(f"{path}/{name}")[0]) for name in names}


async def in_kafka(site: ClassicSite) -> dict[int, int]:
    """The group's offsets at its coordinator."""
    async with ottla.Admin(site.bootstrap) as admin:
        found = await admin.groups.offsets("g")
    return {where.partition: one.offset for where, one in found.items()}


async def consume(
    site: ClassicSite, count: int, **settings: str
) -> tuple[ConsumerConnector, StreamReader]:
    """A new consumer of the group, once it has so many messages."""
    connector = site.connector(**settings)
    streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
    reader = StreamReader(streams["t"][0])
    await site.until(lambda: len(reader.messages) >= count)
    return connector, reader


@pytest.mark.requirement("GRP-11")
async def test_the_setting_chooses_where_offsets_are_committed_and_fetched(tmp_path: Path) -> None:
    """The other storage neither gets nor gives an offset."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        await site.send("t", [b"0", b"1"])
        one, first = await consume(site, 2, offsets_storage="zookeeper")
        await asyncio.to_thread(one.commit_offsets)
        only_tree = (in_zookeeper(site), await in_kafka(site))
        await asyncio.to_thread(one.shutdown)
        settings = {"offsets_storage": "kafka", "dual_commit_enabled": "false"}
        two, second = await consume(site, 2, **settings)
        await asyncio.to_thread(two.commit_offsets)
        site.brokers.tree.set("/consumers/g/offsets/t/0", b"1")
        await asyncio.to_thread(two.shutdown)
        both = (in_zookeeper(site), await in_kafka(site))
        _, third = await consume(site, 1, offsets_storage="zookeeper")
        await site.send("t", [b"2"])
        await site.until(lambda: len(third.messages) == 2)

    assert only_tree == ({0: 2}, {})
    assert both == ({0: 1}, {0: 2})
    assert first.values == second.values == [b"0", b"1"]
    assert third.values == [b"1", b"2"]


@pytest.mark.requirement("GRP-12")
async def test_dual_commits_go_to_both(tmp_path: Path) -> None:
    """The greater offset counts when they are fetched: the other one is out of date."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        await site.send("t", [b"0", b"1"])
        settings = {"offsets_storage": "kafka", "dual_commit_enabled": "true"}
        connector, _ = await consume(site, 2, **settings)
        seen = []
        for count in (3, 4):
            await asyncio.to_thread(connector.commit_offsets)
            seen.append((in_zookeeper(site), await in_kafka(site)))
            await site.send("t", [b"%d" % (count - 1)])
            reader = connector._queues["t", f"{connector.consumer_id}-0"]
            await site.until(
                lambda reader=reader, count=count: (
                    reader.consumed()  # type: ignore[misc]
                    == {TopicPartition("t", 0): count}
                )
            )
        await asyncio.to_thread(connector.shutdown)
        at_end = (in_zookeeper(site), await in_kafka(site))
        site.brokers.tree.set("/consumers/g/offsets/t/0", b"1")
        await site.send("t", [b"4"])
        _, again = await consume(site, 1, **settings)

    assert seen == [({0: 2}, {0: 2}), ({0: 3}, {0: 3})]
    assert at_end == ({0: 4}, {0: 4})
    assert again.values == [b"4"]


@pytest.mark.parametrize(
    "to",
    [
        pytest.param("kafka", marks=pytest.mark.requirement("GRP-13")),
        pytest.param("zookeeper", marks=pytest.mark.requirement("GRP-14")),
    ],
)
async def test_a_group_moves_in_four_steps_while_messages_flow(tmp_path: Path, to: str) -> None:
    """Two rolling restarts of two consumers: no message is lost, none comes twice."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {number: [1] for number in PARTITIONS})
        stop = asyncio.Event()
        sent: list[bytes] = []

        async def produce() -> None:
            while not stop.is_set():
                values = [b"%d" % number for number in range(len(sent), len(sent) + 40)]
                sent.extend(values)
                for partition in PARTITIONS:
                    await site.send("t", values[partition::4], partition)

        producing = asyncio.create_task(produce())
        first, *later = STEPS[to]
        members = [await consume(site, 1, **first) for _ in range(1)]
        members.append(await consume(site, 0, **first))
        readers = [reader for _, reader in members]
        for step in later:
            for place in range(2):
                await asyncio.to_thread(members[place][0].shutdown)
                members[place] = await consume(site, 0, **step)
                readers.append(members[place][1])
                # The health check: the new consumer reads.
                await site.until(lambda: len(readers[-1].messages) >= 5)
        stop.set()
        await producing
        await site.until(lambda: sum(len(one.messages) for one in readers) >= len(sent))
        for connector, _ in members:
            await asyncio.to_thread(connector.shutdown)
        offsets = in_zookeeper(site) if to == "zookeeper" else await in_kafka(site)

    found = [value for one in readers for value in one.values]
    assert sorted(found) == sorted(sent)
    assert offsets == dict.fromkeys(PARTITIONS, len(sent) // 4)


@pytest.mark.parametrize("to", list(STEPS))
async def test_partitions_without_new_messages_are_moved_too(tmp_path: Path, to: str) -> None:
    """A consumer with both storages hands the offset on, even if it has consumed nothing."""
    async with classic_site(tmp_path) as site:
        await site.topic("t", {0: [1]})
        await site.send("t", [b"0", b"1"])
        before, both, after = STEPS[to]
        one, first = await consume(site, 2, **before)
        await asyncio.to_thread(one.shutdown)
        two, second = await consume(site, 0, **both)
        await asyncio.to_thread(two.shutdown)
        await site.send("t", [b"2"])
        _, third = await consume(site, 1, **after)

    assert [one.values for one in (first, second, third)] == [[b"0", b"1"], [], [b"2"]]


@pytest.mark.soak
@pytest.mark.timeout(600)
async def test_two_hundred_thousand_messages_flow_while_a_group_moves_there_and_back(
    tmp_path: Path,
) -> None:
    """ZooKeeper, Kafka, ZooKeeper: eight rolling restarts of two consumers, nothing lost or
    repeated."""
    count = 200_000
    async with classic_site(tmp_path) as site:
        await site.topic("t", {number: [1] for number in PARTITIONS})
        produced = 0

        async def produce() -> None:
            nonlocal produced
            while produced < count:
                values = [b"%d" % number for number in range(produced, produced + 4_000)]
                for partition in PARTITIONS:
                    await site.send("t", values[partition::4], partition)
                produced += len(values)

        producing = asyncio.create_task(produce())
        steps = [*STEPS["kafka"], *STEPS["zookeeper"][1:]]
        members = [await consume(site, 1, **steps[0])]
        members.append(await consume(site, 0, **steps[0]))
        readers = [reader for _, reader in members]
        for step in steps[1:]:
            for place in range(2):
                await asyncio.to_thread(members[place][0].shutdown)
                members[place] = await consume(site, 0, **step)
                readers.append(members[place][1])
        during = produced
        await producing
        await site.until(lambda: sum(len(one.messages) for one in readers) >= count, 300)
        for connector, _ in members:
            await asyncio.to_thread(connector.shutdown)
        offsets = in_zookeeper(site)

    found = [value for one in readers for value in one.values]
    assert during < count
    assert len(found) == count
    assert set(found) == {b"%d" % number for number in range(count)}
    assert offsets == dict.fromkeys(PARTITIONS, count // 4)
