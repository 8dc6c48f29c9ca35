"""In which order a mirror sends, notes and stores: what both clusters show while it copies."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Cluster, TopicPartition
from ottla.client.fetching.offsets import OffsetAt
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.selection import NOTES_TOPIC
from ottla.client.mirror.settings import MirrorSource
from tests.client.mirror.clusters import PATIENCE_S, copy_all, fill, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.mirror.settings import MirrorSettings

REFUSALS = 4
# A position is stored 50 ms after the last one: so many looks at it are many times that.
LOOKS = 20


@pytest.fixture(scope="module")
def central() -> Iterator[Cluster]:
    """A target of two brokers: one of them can refuse what the other takes."""
    with Cluster(brokers=2) as cluster:
        yield cluster


def of(west: Cluster, central: Cluster, topic: str) -> MirrorSettings:
    """Settings of a mirror of that topic, with a unique name."""
    source = MirrorSource(alias="west", bootstrap=west.bootstrap_servers, topics=(topic,))
    return settings(central.bootstrap_servers, source, name=topic)


async def stored(source: Admin, where: TopicPartition) -> int:
    """The position that the mirror has stored at the source; 0 if there is none."""
    position = (await source.groups.offsets(f"{where.topic}.west")).get(where)
    return 0 if position is None else position.offset


async def end(cluster: Admin, where: TopicPartition) -> int:
    """The end of the partition."""
    found = (await cluster.list_offsets({where: -1}))[where]
    assert isinstance(found, OffsetAt)
    return found.offset


async def test_a_position_is_stored_after_the_target_has_its_records(
    west: Cluster, central: Cluster
) -> None:
    """A mirror that dies in between would leave them out for ever. While the target refuses the
    records, the position at the source stays before them."""
    where = TopicPartition("sent", 0)
    for cluster in (west, central):
        cluster.create_topic(where.topic, 1)
    async with (
        Mirror(of(west, central, where.topic)),
        Admin(west.bootstrap_servers) as source,
        Admin(central.bootstrap_servers) as target,
        asyncio.timeout(PATIENCE_S),
    ):
        await fill(west.bootstrap_servers, where.topic, [b"first"])
        while await stored(source, where) < 1:
            await asyncio.sleep(0.01)
        central.faults.fail_request("PRODUCE", "NOT_ENOUGH_REPLICAS", REFUSALS)
        await fill(west.bootstrap_servers, where.topic, [b"second"])
        # In this order: what was stored before the look at the target has to be there.
        while (position := await stored(source, where)) < 2:
            assert position <= await end(target, where)
        assert await end(target, where) == 2


async def test_a_position_is_stored_after_the_notes_of_its_records(
    west: Cluster, central: Cluster
) -> None:
    """A group that moves to the target finds its place by the notes: behind a stored position none
    would be made any more. While the target refuses the notes, the position stays."""
    for cluster in (west, central):
        cluster.create_topic("before", 1)
        cluster.create_topic("noted", 2)
    await copy_all(Mirror(of(west, central, "before"), until_end=True))
    keeper = central.leader(NOTES_TOPIC)
    (number,) = [one for one in range(2) if central.leader("noted", one) != keeper]
    where = TopicPartition("noted", number)
    central.faults.fail_request("PRODUCE", "NOT_ENOUGH_REPLICAS", 100_000, broker=keeper)
    async with (
        Mirror(of(west, central, where.topic)),
        Admin(west.bootstrap_servers) as source,
        Admin(central.bootstrap_servers) as target,
        asyncio.timeout(PATIENCE_S),
    ):
        await fill(west.bootstrap_servers, where.topic, [b"first"], number)
        while await end(target, where) < 1:
            await asyncio.sleep(0.01)
        positions = []
        for _ in range(LOOKS):
            positions.append(await stored(source, where))
            await asyncio.sleep(0.025)
        central.faults.clear()
        while await stored(source, where) < 1:
            await asyncio.sleep(0.01)
        assert await end(target, TopicPartition(NOTES_TOPIC, 0)) > 0

    assert set(positions) == {0}
