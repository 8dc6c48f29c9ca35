"""Fetches in flight: positions that move while a fetch is parked do not wait for it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.consumer import Consumer
from ottla.client.fetching.fetch_request import WantedPartition
from ottla.client.fetching.fetch_slots import FetchSlot
from ottla.client.fetching.positions import Positions
from ottla.client.process.environment import real_environment
from ottla.client.producer import Producer
from ottla.client.settings.config import ClientConfig, parse_addresses
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

# How long a broker keeps a fetch that brings nothing: a test that waits for one is too late.
PARKED_MS = 100_000
IN_TIME_S = 60
pytestmark = pytest.mark.timeout(90)


@pytest.fixture
async def reader(broker: str) -> AsyncIterator[Consumer]:
    """A consumer that has read the two records of partition 0, with a parked fetch of both
    partitions."""
    topic = f"slots-{uuid4().hex[:8]}"
    async with Admin(broker) as admin, Producer(broker) as producer:
        await admin.create_topic(NewTopic(topic, 2))
        for value in (b"a", b"b"):
            await (await producer.send(topic, value, partition=0))
    async with Consumer(
        broker,
        group_id=topic,
        offset_reset="earliest",
        fetch_wait_ms=PARKED_MS,
        request_timeout_ms=2 * PARKED_MS,
        auto_commit=False,
    ) as consumer:
        consumer.assign([TopicPartition(topic, number) for number in range(2)])
        assert await values(consumer, 2) == [b"a", b"b"]
        assert await consumer.poll(50) == []
        yield consumer


async def values(consumer: Consumer, count: int) -> list[bytes | None]:
    found: list[bytes | None] = []
    async with asyncio.timeout(IN_TIME_S):
        while len(found) < count:
            found += [record.value for record in await consumer.poll(PARKED_MS)]
    return found


async def test_a_seek_is_not_held_up_by_a_parked_fetch(reader: Consumer) -> None:
    """Neither the seek nor the one after it waits for the answer of the parked fetch."""
    first, _ = sorted(reader.assignment)
    reader.seek(first, 0)
    assert await values(reader, 2) == [b"a", b"b"]
    reader.seek_to_beginning(first)
    assert await values(reader, 2) == [b"a", b"b"]
    reader.seek_to_end()
    reader.seek(first, 1)
    assert await values(reader, 1) == [b"b"]


async def test_resuming_is_not_held_up_by_a_parked_fetch(reader: Consumer) -> None:
    """The parked fetch was sent without that partition."""
    first, second = sorted(reader.assignment)
    reader.pause(first)
    reader.seek(first, 0)
    reader.seek(second, 0)
    await reader.poll(50)
    reader.resume(first)

    assert await values(reader, 2) == [b"a", b"b"]


async def test_questions_are_not_held_up_by_a_parked_fetch(reader: Consumer) -> None:
    """Answers on one connection come in order, so other requests use a second connection."""
    first, second = sorted(reader.assignment)
    assert await reader.end_offsets([first, second]) == {first: 2, second: 0}
    assert await reader.committed(partitions=[first]) == {}
    await reader.commit({first: 2})
    assert (await reader.committed(partitions=[first]))[first].offset == 2


async def test_what_two_fetches_bring_is_handed_out_once(broker: str) -> None:
    """The first comes back, and takes those along that are asked for beside."""
    topic = f"slots-{uuid4().hex[:8]}"
    where = [TopicPartition(topic, number) for number in range(3)]
    expected = [b"%d" % number for number in range(30)]
    async with (
        Admin(broker) as admin,
        Producer(broker) as producer,
        Consumer(broker, offset_reset="earliest", fetch_wait_ms=40) as consumer,
        asyncio.timeout(IN_TIME_S),
    ):
        await admin.create_topic(NewTopic(topic, 3))
        consumer.assign(where)
        found: list[bytes | None] = []
        for number, value in enumerate(expected):
            consumer.seek(where[number % 3], number // 3)
            await (await producer.send(topic, value, partition=number % 3))
            while len(found) <= number:
                found += [record.value for record in await consumer.poll(PARKED_MS)]

    assert found == expected


def test_what_is_asked_for_from_where_it_is_is_not_missed() -> None:
    """A partition is missed if no fetch in flight asks for its current position, as after a
    seek."""
    one, other = TopicPartition("t", 0), TopicPartition("t", 1)
    positions = Positions(None, 1024)
    positions.assign([one, other])
    positions.seek(one, 5)
    positions.seek(other, 5)
    slot = FetchSlot(
        ClusterClient(real_environment(), parse_addresses("127.0.0.1"), ClientConfig()), "fetch"
    )
    slot.take(1, [WantedPartition(one, positions[one].turn, 5, 1)])

    assert slot.missed(1, [one, other], positions) == [other]
    assert 1 in slot.in_flight
    assert slot.missed(2, [one, other], positions) == [one, other]
    positions.seek(one, 5)
    assert slot.missed(1, [one, other], positions) == [one, other]
    slot.leave(1)
    assert 1 not in slot.in_flight


def test_who_does_not_move_again_is_parked_longer() -> None:
    """Asking often is for those who seek often."""
    one = TopicPartition("t", 0)
    slot = FetchSlot(
        ClusterClient(real_environment(), parse_addresses("127.0.0.1"), ClientConfig()), "fetch"
    )

    waits_ms = [slot.wait_ms(1, [WantedPartition(one, 3, 5, 1)]) for _ in range(3)]
    assert waits_ms == [20, 25, 31.25]
    assert slot.wait_ms(1, [WantedPartition(one, 4, 5, 1)]) == 20
