"""An application's calls on its group, against a real broker."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla import ClientClosed, Consumer, Producer, RebalanceListener
from tests.client.support.membered import Listener, groups_cluster, poll_until, read, site

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla import TopicPartition
    from tests.client.support.membered import Site

__all__ = ["groups_cluster", "site"]


@pytest.mark.requirement("CON-22", "LOG-15")
@pytest.mark.parametrize(("reset", "expected"), [("earliest", b"0"), ("latest", b"3")])
async def test_a_group_without_a_position_starts_where_its_policy_says(
    site: Site, reset: str, expected: bytes
) -> None:
    """Neither skipping nor repeating records is right for all applications."""
    await site.create()
    await site.fill(3)
    async with site.consumer(offset_reset=reset) as consumer:
        await consumer.subscribe([site.topic])
        await poll_until(lambda: reset == "earliest" or _position(consumer, site) == 3, consumer)
        if reset == "earliest":
            consumer.seek_to_beginning()
        await site.fill(1)
        (record,) = await read(consumer, 1)

    assert record.value == expected


def _position(consumer: Consumer, site: Site) -> int | None:
    (first,) = site.parts(0)
    return consumer.position(first) if first in consumer.assignment else None


@pytest.mark.requirement("CON-18", "GRP-08")
async def test_with_manual_commits_only_an_explicit_one_counts(site: Site) -> None:
    """Records that were read and not committed are read again by the next member."""
    await site.create()
    await site.fill(10)
    async with site.consumer(auto_commit=False) as consumer:
        await consumer.subscribe([site.topic])
        await read(consumer, 4)
        await consumer.commit()
        await read(consumer, 3)
    assert await site.committed() == {0: 4}

    async with site.consumer(auto_commit=False) as consumer:
        await consumer.subscribe([site.topic])
        records = await read(consumer, 6)
        await consumer.commit({site.parts(0)[0]: 5})
    assert [record.offset for record in records] == [4, 5, 6, 7, 8, 9]
    assert await site.committed() == {0: 5}


@pytest.mark.requirement("CON-18")
async def test_automatic_commits_follow_what_was_read(site: Site) -> None:
    """Automatic commits happen while the consumer runs, without a call by the application."""
    await site.create()
    await site.fill(10)
    async with site.consumer(auto_commit_interval_ms=100) as consumer:
        await consumer.subscribe([site.topic])
        await read(consumer, 10)
        async with asyncio.timeout(90):
            while await site.committed() != {0: 10}:
                await consumer.poll(50)

        assert await site.committed() == {0: 10}


@pytest.mark.requirement("CON-18")
async def test_what_was_handed_out_is_committed_when_the_consumer_is_closed(site: Site) -> None:
    """Of an iteration that was left: up to the record at which it was left, and no further."""
    await site.create()
    await site.fill(10)
    async with site.consumer() as consumer:
        await consumer.subscribe([site.topic])
        async for record in consumer:
            if record.offset == 3:
                break
        (first,) = site.parts(0)
        assert consumer.position(first) == 4

    assert await site.committed() == {0: 4}


class Failed(Exception):
    """An application's error during processing."""


async def test_a_record_whose_processing_fails_is_not_committed(site: Site) -> None:
    """Automatic commits lose nothing: the next member gets it again."""
    await site.create()
    await site.fill(10)

    async def iterate() -> None:
        async with site.consumer() as consumer:
            await consumer.subscribe([site.topic])
            async for record in consumer:
                if record.offset == 3:
                    raise Failed

    async def poll() -> None:
        async with site.consumer() as consumer:
            await consumer.subscribe([site.topic])
            await read(consumer, 2)
            await consumer.poll(5_000)
            raise Failed

    with pytest.raises(Failed):
        await iterate()
    assert await site.committed() == {0: 3}
    with pytest.raises(Failed):
        await poll()
    assert await site.committed() == {0: 5}


async def test_a_commit_within_an_iteration_is_up_to_its_record(site: Site) -> None:
    """Two thousand records are in memory; those that were not handed out are not read."""
    await site.create()
    await site.fill(10)
    async with site.consumer(auto_commit=False) as consumer:
        await consumer.subscribe([site.topic])
        async for record in consumer:
            if record.offset == 5:
                await consumer.commit()
                break

    assert await site.committed() == {0: 6}


@pytest.mark.parametrize("offset", [None, 4])
async def test_an_automatic_commit_takes_back_no_other_one(site: Site, offset: int | None) -> None:
    """An explicit commit says that the application has finished with what is before it; a crash
    after that must not repeat those records."""
    (first,) = site.parts(0)
    await site.create()
    await site.fill(10)
    async with site.consumer(auto_commit_interval_ms=50) as consumer:
        await consumer.subscribe([site.topic])
        await read(consumer, 1)
        await consumer.poll()
        await consumer.commit(None if offset is None else {first: offset})
        expected = offset or consumer.position(first)
        for _ in range(15):
            await asyncio.sleep(0.1)
            assert await site.committed() == {0: expected}


async def test_a_seek_within_a_group_is_where_the_next_record_comes_from(site: Site) -> None:
    """A seek takes effect also within an iteration."""
    await site.create()
    await site.fill(10)
    (first,) = site.parts(0)
    offsets = []
    async with site.consumer() as consumer:
        await consumer.subscribe([site.topic])
        async for record in consumer:
            offsets.append(record.offset)
            if record.offset == 2:
                consumer.seek(first, 7)
            if record.offset == 9:
                break

    assert offsets == [0, 1, 2, 7, 8, 9]


async def test_a_seek_in_the_listener_goes_before_the_committed_position(site: Site) -> None:
    """Applications that keep their positions elsewhere begin there."""
    await site.create()
    await site.fill(10)

    class Seeking(RebalanceListener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            for where in partitions:
                consumer.seek(where, 6)

    async with site.consumer() as consumer:
        await consumer.subscribe([site.topic], Seeking())
        (record,) = await read(consumer, 1)

    assert record.offset == 6


async def test_partitions_assigned_by_hand_begin_where_the_group_stands(site: Site) -> None:
    """A group is useful for its positions alone."""
    await site.create()
    await site.fill(10)
    async with site.consumer() as consumer:
        consumer.assign(site.parts(0))
        await read(consumer, 4)
    assert await site.committed() == {0: 4}

    async with site.consumer() as consumer:
        consumer.assign(site.parts(0))
        (record,) = await read(consumer, 1)
        with pytest.raises(ValueError, match="by hand"):
            await consumer.subscribe([site.topic])
    assert record.offset == 4


async def test_what_needs_a_group_says_so(site: Site) -> None:
    """The commonest mistake gets an error message that names the missing setting."""
    async with Consumer(site.address) as consumer:
        with pytest.raises(ValueError, match="group_id"):
            await consumer.subscribe(["t"])
        with pytest.raises(ValueError, match="group_id"):
            await consumer.commit()
        with pytest.raises(ValueError, match="group_id"):
            consumer.group_metadata()


async def test_the_group_assigns_what_is_subscribed(site: Site) -> None:
    """Two masters would undo each other's work."""
    await site.create()
    async with site.consumer() as consumer:
        await consumer.subscribe(site.topic)
        await poll_until(lambda: bool(consumer.assignment), consumer)
        with pytest.raises(ValueError, match="unsubscribe"):
            consumer.assign(site.parts(0))
        await consumer.unsubscribe()
        assert consumer.assignment == []
        consumer.assign(site.parts(0))


async def test_what_a_listener_raises_the_poll_raises(site: Site) -> None:
    """The assignment has changed all the same: the group believes so."""
    await site.create()

    class Failing(Listener):
        def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
            super().on_assigned(partitions)
            raise RuntimeError("mine")

    async with site.consumer() as consumer:
        await consumer.subscribe([site.topic], Failing())
        with pytest.raises(RuntimeError, match="mine"):
            await read(consumer, 1)
        await site.fill(1)
        assert len(await read(consumer, 1)) == 1


async def test_a_poll_in_another_task_ends_when_the_consumer_is_closed(site: Site) -> None:
    """Shutting down must not wait for records that do not come."""
    await site.create()
    consumer = site.consumer()
    await consumer.start()
    await consumer.subscribe([site.topic])
    polling = asyncio.create_task(consumer.poll(60_000))
    await asyncio.sleep(0.5)
    await consumer.close()

    with pytest.raises(ClientClosed):
        await asyncio.wait_for(polling, 60)


async def test_positions_join_a_transaction_in_the_members_name(site: Site) -> None:
    """KIP-447: a member that has lost its partitions cannot commit for them."""
    await site.create()
    await site.fill(5)
    producer = Producer(site.address, transactional_id=site.group)
    async with site.consumer(auto_commit=False) as consumer, producer:
        await consumer.subscribe([site.topic])
        await read(consumer, 5)
        await producer.init_transactions()
        async with producer.transaction():
            metadata = consumer.group_metadata()
            await producer.send_offsets_to_transaction({site.parts(0)[0]: 5}, metadata)

    assert metadata.names_a_member
    assert await site.committed() == {0: 5}
