"""A full disk under one of three real brokers: the partitions stay writable on the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import FaultPlan, FaultyDisk
from ottla.coordinator.store import full_disks
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreateTopicsRequest,
)
from ottla.wire.clock import RealClock
from tests.broker.support.brokers import Brokers
from tests.broker.support.requests import batch, fetched, produced
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

VICTIM = 1
# Nothing here is to be due to followers that lag behind.
SETTINGS = {"replica.lag.time.max.ms": "600000", "ottla.free.space.floor.bytes": "1000000"}


class Site:
    """Three brokers, of which the first has a disk that can be filled."""

    def __init__(self) -> None:
        self.plan = FaultPlan()
        self.brokers = Brokers(3, SETTINGS)
        self.brokers.disks[VICTIM] = FaultyDisk(MemoryDisk(), self.plan, RealClock())  # type: ignore[assignment]

    async def make(self, *replicas: int) -> None:
        brokers = self.brokers
        (found,) = {broker.metadata.controller_id for broker in brokers.alive.values()}
        assignment = [CreatableReplicaAssignment(0, list(replicas))]
        request = CreateTopicsRequest([CreatableTopic("t", -1, -1, assignment)], timeout_ms=30_000)
        address = brokers.alive[found].address
        async with RawClient(address.host, address.port) as client:
            answer = await client.call(5, request)
        assert answer.topics[0].error_code == ErrorCode.NONE
        await brokers.until(lambda: brokers.leader("t") == replicas[0])

    async def put(self, value: bytes) -> ErrorCode:
        """Produces with acks=all to the current leader."""
        leader = self.brokers.leader("t")
        if leader < 0:
            return ErrorCode.LEADER_NOT_AVAILABLE
        address = self.brokers.alive[leader].address
        async with RawClient(address.host, address.port) as client:
            answer = await produced(client, batch(value), acks=-1)
        return ErrorCode(answer.error_code)

    async def put_until_stored(self, value: bytes) -> None:
        clock = RealClock()
        while await self.put(value) is not ErrorCode.NONE:
            await clock.sleep(50)

    def isr(self) -> set[int]:
        """As the living agree; empty while they do not."""
        found = {
            frozenset(broker.metadata.image.topics["t"].partitions[0].isr)
            for broker in self.brokers.alive.values()
        }
        return set(found.pop()) if len(found) == 1 else set()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    """Nothing is full."""
    made = Site()
    await made.brokers.start()
    yield made
    await made.brokers.stop()


async def test_a_leader_with_a_full_disk_is_followed_by_one_with_room(site: Site) -> None:
    """It was unwritable for as long as the disk was full. What is stored stays readable, and the
    broker is in sync again by itself when there is room."""
    brokers = site.brokers
    await site.make(VICTIM, 2, 3)
    await site.put_until_stored(b"before")
    site.plan.is_full = True

    await brokers.until(lambda: brokers.leader("t") in (2, 3))
    await site.put_until_stored(b"while it is full")
    await brokers.until(lambda: site.isr() == {2, 3})
    address = brokers.alive[brokers.leader("t")].address
    async with RawClient(address.host, address.port) as client:
        read = await fetched(client, 0)
    assert (read.error_code, read.high_watermark >= 2) == (ErrorCode.NONE, True)
    assert not brokers.alive[VICTIM].has_failed

    site.plan.is_full = False
    await brokers.until(lambda: site.isr() == {1, 2, 3})
    await site.put_until_stored(b"after")
    await brokers.until_equal("t")
    assert brokers.leader("t") in (2, 3)
    # Until when it may lead again the controller decides: it has to hear of the room.
    lifecycle = brokers.alive[VICTIM].state.lifecycle
    assert lifecycle is not None
    async with asyncio.timeout(60):
        while True:
            node = await lifecycle.session.get(full_disks.path_of(VICTIM))
            if full_disks.parse(node.data) == full_disks.RoomReport():
                break
            await asyncio.sleep(0.05)


async def test_a_follower_with_a_full_disk_is_not_waited_for(site: Site) -> None:
    """Each write with acks=all waited until the follower had lagged for replica.lag.time.max.ms."""
    brokers = site.brokers
    await site.make(2, VICTIM, 3)
    await brokers.until_in_sync("t", 3)
    site.plan.is_full = True

    await site.put_until_stored(b"while it is full")
    await brokers.until(lambda: site.isr() == {2, 3})
    assert brokers.leader("t") == 2

    site.plan.is_full = False
    await brokers.until(lambda: site.isr() == {1, 2, 3})
    await brokers.until_equal("t")


async def test_the_only_replica_leads_on_while_its_disk_is_full(site: Site) -> None:
    """No other replica has its records: it serves reads, and writes again when there is room."""
    await site.make(VICTIM)
    await site.put_until_stored(b"before")
    site.plan.is_full = True
    await site.brokers.until(lambda: site.brokers.partition(VICTIM, "t").log.home.health.gauge.room)
    assert await site.put(b"refused") is ErrorCode.KAFKA_STORAGE_ERROR
    address = site.brokers.alive[VICTIM].address
    async with RawClient(address.host, address.port) as client:
        assert (await fetched(client, 0)).error_code == ErrorCode.NONE
    assert site.brokers.leader("t") == VICTIM

    site.plan.is_full = False
    await site.put_until_stored(b"after")
