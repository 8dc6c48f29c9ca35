"""Members of one group against a real broker: their assignments and their callbacks."""

from __future__ import annotations

import asyncio
import logging
import re
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Admin, CommitFailed, ErrorCode, RequestRefused
from tests.client.support.membered import (
    PROTOCOLS,
    Listener,
    groups_cluster,
    poll_until,
    read,
    site,
)

if TYPE_CHECKING:
    from ottla import Consumer
    from tests.client.support.membered import Site

__all__ = ["groups_cluster", "site"]

BOTH = pytest.mark.parametrize("protocol", PROTOCOLS.values(), ids=PROTOCOLS)


def held(consumer: Consumer) -> set[int]:
    """The numbers of what it has."""
    return {where.partition for where in consumer.assignment}


@BOTH
async def test_members_share_the_partitions_and_take_them_over(
    site: Site, protocol: dict[str, Any]
) -> None:
    """One member has all, two have half each, and the one that stays has all again at once."""
    await site.create(4)
    listener = Listener()
    async with site.consumer(**protocol) as first:
        await first.subscribe([site.topic], listener)
        await poll_until(lambda: len(held(first)) == 4, first)
        second = site.consumer(**protocol)
        await second.start()
        await second.subscribe([site.topic])
        await poll_until(lambda: len(held(first)) == len(held(second)) == 2, first, second)
        assert held(first) | held(second) == {0, 1, 2, 3}
        assert await site.members() == 2

        await second.close()
        await poll_until(lambda: len(held(first)) == 4, first)
        assert await site.members() == 1
    assert await site.members() == 0
    assert listener.told[0] == ("assigned", [0, 1, 2, 3])
    assert listener.told[-1] == ("revoked", [0, 1, 2, 3])


@pytest.mark.parametrize("name", ["cooperative", "newer"])
async def test_partitions_that_stay_keep_their_positions(site: Site, name: str) -> None:
    """KIP-429: nothing was committed, so a restart from the committed offset would repeat
    records."""
    await site.create(2)
    await site.fill(5, 0)
    await site.fill(5, 1)
    settings = {**PROTOCOLS[name], "auto_commit": False}
    async with site.consumer(**settings) as first, site.consumer(**settings) as second:
        await first.subscribe([site.topic])
        await read(first, 10)
        await second.subscribe([site.topic])
        again = await poll_until(lambda: len(held(first)) == len(held(second)) == 1, first, second)
        (kept,) = held(first)
        await site.fill(1, kept)
        (record,) = await read(first, 1)

    assert (record.partition, record.offset) == (kept, 5)
    assert kept not in {one.partition for one in again}


@pytest.mark.requirement("CON-11")
@BOTH
async def test_a_pattern_finds_topics_that_come_later(site: Site, protocol: dict[str, Any]) -> None:
    """Topics that are deleted leave the assignment, and others never enter it."""
    first, second = f"{site.topic}-a", f"{site.topic}-b"
    await site.create(1, f"not-{site.topic}")
    await site.create(1, first)
    async with site.consumer(**protocol) as consumer:
        await consumer.subscribe(re.compile(re.escape(site.topic)))
        await poll_until(lambda: len(consumer.assignment) == 1, consumer)
        assert {one.topic for one in consumer.assignment} == {first}
        await site.create(1, second)
        await site.fill(1, topic=second)
        (record,) = await read(consumer, 1)
        assert record.topic == second

        async with Admin(site.address) as admin:
            await admin.delete_topics([first])
        topics = {second}
        await poll_until(lambda: {one.topic for one in consumer.assignment} == topics, consumer)


@BOTH
async def test_partitions_that_are_added_are_read(site: Site, protocol: dict[str, Any]) -> None:
    """Growing a topic needs no restart of the consumer."""
    await site.create(1)
    async with site.consumer(**protocol) as consumer:
        await consumer.subscribe([site.topic])
        await poll_until(lambda: held(consumer) == {0}, consumer)
        async with Admin(site.address) as admin:
            await admin.create_partitions(site.topic, 3)
        await poll_until(lambda: held(consumer) == {0, 1, 2}, consumer)

        assert held(consumer) == {0, 1, 2}


@BOTH
async def test_a_topic_that_does_not_exist_yet_is_waited_for(
    site: Site, protocol: dict[str, Any]
) -> None:
    """Services start in any order."""
    async with site.consumer(**protocol) as consumer:
        await consumer.subscribe([site.topic])
        assert await consumer.poll(500) == []
        await site.create()
        await poll_until(lambda: held(consumer) == {0}, consumer)


@BOTH
async def test_who_does_not_poll_leaves_and_comes_back(
    site: Site, protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """KIP-62: another member reads on, a late commit is refused, and the log says what to do."""
    await site.create()
    await site.fill(3)
    listener = Listener()
    limits = {"max_poll_interval_ms": 1_000, "auto_commit": False, **protocol}
    async with site.consumer(**limits) as slow, site.consumer(**protocol) as other:
        await slow.subscribe([site.topic], listener)
        await read(slow, 3)
        await other.subscribe([site.topic])
        with caplog.at_level(logging.WARNING, "ottla"):
            records = await poll_until(lambda: held(other) == {0}, other)
            records += await read(other, 3 - len(records))
        with pytest.raises(CommitFailed):
            await slow.commit()
        await slow.poll(100)
        assert listener.told == [("assigned", [0]), ("lost", [0])]
        await other.unsubscribe()
        await poll_until(lambda: held(slow) == {0}, slow)

    assert [record.offset for record in records] == [0, 1, 2]
    assert any("max_poll_interval_ms" in record.message for record in caplog.records)


async def test_iterating_is_a_sign_of_life(site: Site) -> None:
    """Two thousand records are one poll, and may take long in all."""
    await site.create()
    await site.fill(20)
    listener = Listener()
    async with site.consumer(max_poll_interval_ms=4_000) as consumer:
        await consumer.subscribe([site.topic], listener)
        async for record in consumer:
            await asyncio.sleep(0.3)
            if record.offset == 19:
                break

    assert listener.told == [("assigned", [0]), ("revoked", [0])]


@BOTH
async def test_a_static_member_that_is_back_has_what_it_had(
    site: Site, protocol: dict[str, Any]
) -> None:
    """KIP-345: a restart moves nothing."""
    await site.create(4)
    listener = Listener()
    async with site.consumer(group_instance_id="other", **protocol) as other:
        await other.subscribe([site.topic], listener)
        first = site.consumer(group_instance_id="mine", **protocol)
        await first.start()
        await first.subscribe([site.topic])
        await poll_until(lambda: len(held(first)) == len(held(other)) == 2, first, other)
        before, told = held(first), len(listener.told)
        await first.close()
        async with site.consumer(group_instance_id="mine", **protocol) as second:
            await second.subscribe([site.topic])
            await poll_until(lambda: held(second) == before, second, other)
            assert len(listener.told) == told


async def test_the_elder_of_two_with_one_instance_id_is_fenced(site: Site) -> None:
    """Both alive would throw each other out for ever (hazard G-07)."""
    await site.create()
    listener = Listener()
    async with site.consumer(group_instance_id="mine") as elder:
        await elder.subscribe([site.topic], listener)
        await poll_until(lambda: held(elder) == {0}, elder)
        async with site.consumer(group_instance_id="mine") as twin:
            await twin.subscribe([site.topic])
            with pytest.raises(RequestRefused) as caught:
                await poll_until(lambda: False, elder)
            await poll_until(lambda: held(twin) == {0}, twin)

    assert caught.value.code is ErrorCode.FENCED_INSTANCE_ID
    assert listener.told[-1] == ("lost", [0])


async def test_another_subscription_replaces_the_first(site: Site) -> None:
    """An empty subscription unsubscribes."""
    await site.create()
    another = f"{site.topic}-b"
    await site.create(1, another)
    async with site.consumer() as consumer:
        await consumer.subscribe([site.topic])
        await poll_until(lambda: held(consumer) == {0}, consumer)
        await consumer.subscribe([another])
        topics = {another}
        await poll_until(lambda: {one.topic for one in consumer.assignment} == topics, consumer)
        await consumer.unsubscribe()
        assert consumer.assignment == []
        assert await site.members() == 0
