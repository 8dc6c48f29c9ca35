"""Several members of one group share a topic: every record is for one of them."""

from __future__ import annotations

import asyncio
from collections import Counter
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING

import pytest

from ottla import Producer
from ottla.client.records.partitioner import partition_for_key
from tests.client.support.membered import Listener, groups_cluster, site

if TYPE_CHECKING:
    from ottla import Consumer, ConsumerRecord
    from tests.client.support.membered import Site

__all__ = ["groups_cluster", "site"]

COUNT = 1_000


class Crew:
    """Members that read until they have everything."""

    def __init__(self, members: list[Consumer], listeners: list[Listener]) -> None:
        self.members = members
        self.listeners = listeners
        self.read: list[list[ConsumerRecord]] = [[] for _ in members]

    async def settle(self, partition_count: int) -> None:
        """Poll until all partitions are assigned, as many to each as there can be."""
        share = partition_count // len(self.members)
        async with asyncio.timeout(90):
            while any(len(one.assignment) != share for one in self.members):
                await asyncio.gather(*(one.poll(50) for one in self.members))

    async def read_all(self, count: int) -> None:
        """Every member polls until they have so many records together, and a little longer."""

        async def follow(number: int) -> None:
            last = 3
            while last:
                self.read[number] += await self.members[number].poll(100)
                last -= sum(map(len, self.read)) >= count

        async with asyncio.timeout(90):
            await asyncio.gather(*map(follow, range(len(self.members))))


async def crew_of(stack: AsyncExitStack, site: Site, count: int) -> Crew:
    members, listeners = [], [Listener() for _ in range(count)]
    for listener in listeners:
        member = await stack.enter_async_context(site.consumer())
        await member.subscribe([site.topic], listener)
        members.append(member)
    return Crew(members, listeners)


@pytest.mark.requirement("ARC-03")
async def test_a_thousand_records_are_each_for_one_of_four_members(site: Site) -> None:
    """The group is a queue: no record is read twice, and nothing rebalances meanwhile."""
    await site.create(4)
    async with AsyncExitStack() as stack:
        crew = await crew_of(stack, site, 4)
        await crew.settle(4)
        before = [list(one.told) for one in crew.listeners]
        async with Producer(site.address) as producer:
            for number in range(COUNT):
                await producer.send(site.topic, b"%d" % number, partition=number % 4)
        await crew.read_all(COUNT)
        after = [list(one.told) for one in crew.listeners]

    counts = Counter(record.value for records in crew.read for record in records)
    assert counts == Counter(b"%d" % number for number in range(COUNT))
    assert all(crew.read)
    assert after == before


@pytest.mark.requirement("PRD-16")
async def test_all_events_of_one_key_are_read_by_one_member_in_their_order(site: Site) -> None:
    """With a user's id as key, all that the user does is in one partition and one stream."""
    await site.create(6)
    users = [b"user-%d" % number for number in range(30)]
    async with AsyncExitStack() as stack:
        crew = await crew_of(stack, site, 3)
        await crew.settle(6)
        async with Producer(site.address) as producer:
            for event in range(10):
                for user in users:
                    await producer.send(site.topic, b"%d" % event, key=user)
        await crew.read_all(10 * len(users))

    for user in users:
        streams = [[one for one in records if one.key == user] for records in crew.read]
        (stream,) = [one for one in streams if one]
        assert [int(one.value or b"") for one in stream] == list(range(10))
        assert {one.partition for one in stream} == {partition_for_key(user, 6)}
    assert all(crew.read)
