"""Several processes of one mirror, and groups that move with the records."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla import Admin, Cluster, Consumer, TopicPartition
from ottla.client.mirror.errors import MirrorError
from ottla.client.mirror.groups import SHARED, carry_over
from ottla.client.mirror.mirror import Mirror
from ottla.client.mirror.notebook import read_notes
from ottla.client.mirror.settings import MirrorSource
from ottla.client.mirror.translation import Notes
from ottla.client.process.environment import real_environment
from tests.client.mirror.clusters import PATIENCE_S, copy_all, fill, read, settings, until

if TYPE_CHECKING:
    from ottla.client.mirror.settings import MirrorSettings


def of(west: Cluster, central: Cluster, topic: str, **changes: object) -> MirrorSettings:
    """Settings of a mirror of that topic, with a unique name."""
    source = MirrorSource(alias="west", bootstrap=west.bootstrap_servers, topics=(topic,))
    return settings(central.bootstrap_servers, source, name=topic, **changes)


def copied(*mirrors: Mirror) -> int:
    """Records of all together."""
    return sum(one.progress()[0].records for one in mirrors)


async def test_processes_of_one_name_share_the_work(west: Cluster, central: Cluster) -> None:
    """No record is copied twice when a process joins, nor skipped when one leaves."""
    west.create_topic("shared", 4)
    how = of(west, central, "shared")
    one, two = Mirror(how), Mirror(how)
    async with one:
        await fill(west.bootstrap_servers, "shared", [b"a%d" % number for number in range(100)])
        await until(lambda: copied(one) == 100)
        async with two:
            await until(lambda: one.progress()[0].partitions == 2 == two.progress()[0].partitions)
            await fill(west.bootstrap_servers, "shared", [b"b%d" % number for number in range(100)])
            await until(lambda: copied(one, two) == 200)
            assert copied(two) > 0
        await until(lambda: one.progress()[0].partitions == 4)
        await fill(west.bootstrap_servers, "shared", [b"c%d" % number for number in range(100)])
        await until(lambda: copied(one, two) == 300)

    copies = await read(central.bootstrap_servers, "shared", 300)
    assert sum(map(len, copies.values())) == 300


async def test_with_transactions_the_newer_process_takes_over(
    west: Cluster, central: Cluster
) -> None:
    """Two that think that they are the only one must not both be right."""
    west.create_topic("taken", 1)
    how = of(west, central, "taken", exactly_once=True)
    older, newer = Mirror(how), Mirror(how)
    async with older:
        await fill(west.bootstrap_servers, "taken", [b"1"])
        await until(lambda: copied(older) == 1)
        async with newer:
            await until(lambda: newer.progress()[0].partitions == 1)
            await fill(west.bootstrap_servers, "taken", [b"2"])
            await until(lambda: copied(newer) == 1)
            with pytest.raises(MirrorError, match="this one ends"):
                async with asyncio.timeout(PATIENCE_S):
                    await older.wait()

    copies = await read(central.bootstrap_servers, "taken", 2)
    assert [one.value for one in copies[0]] == [b"1", b"2"]


async def test_groups_are_carried_over_while_the_mirror_runs(
    west: Cluster, central: Cluster
) -> None:
    """Once the source is gone, the offsets of its groups can no longer be fetched."""
    west.create_topic("carried", 1)
    where = TopicPartition("carried", 0)
    mirror = Mirror(of(west, central, "carried", sync_groups=("^carried-",)))
    async with mirror, Admin(central.bootstrap_servers) as admin:
        await fill(west.bootstrap_servers, "carried", [b"%d" % number for number in range(9)])
        async with Consumer(west.bootstrap_servers, group_id="carried-readers") as consumer:
            consumer.assign([where])
            await consumer.commit({where: 6})
        async with asyncio.timeout(PATIENCE_S):
            while not (stands := await admin.groups.offsets("carried-readers")):
                await asyncio.sleep(0.05)

    assert {one: position.offset for one, position in stands.items()} == {where: 6}


async def test_no_position_is_stored_where_several_sources_share_a_partition(
    west: Cluster, east: Cluster, central: Cluster
) -> None:
    """Below a group's position in one source there are unread records of the other source; they
    would be skipped silently."""
    sources = []
    for alias, cluster in (("west", west), ("east", east)):
        cluster.create_topic("both", 1)
        await fill(cluster.bootstrap_servers, "both", [b"%d" % number for number in range(9)])
        sources.append(
            MirrorSource(alias=alias, bootstrap=cluster.bootstrap_servers, topics=("both",))
        )
    how = settings(central.bootstrap_servers, *sources, name="both")
    await copy_all(Mirror(how, until_end=True))
    where = TopicPartition("both", 0)
    async with Consumer(west.bootstrap_servers, group_id="both-readers") as consumer:
        consumer.assign([where])
        await consumer.commit({where: 6})
    notes = Notes.of("west", await read_notes(central.bootstrap_servers, real_environment()))

    async with Admin(west.bootstrap_servers) as source, Admin(central.bootstrap_servers) as target:
        (told,) = await carry_over(source, target, notes, ["both-readers"])
        stored = await target.groups.offsets("both-readers")

    assert told.outcome == SHARED
    assert told.target == where
    assert stored == {}
