"""A disk that fails under a running broker: who hears of it, and who must not."""

from __future__ import annotations

import errno
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.broker.testing.memory_disk import MemoryDisk
from ottla.client.real import RealClock
from ottla.protocol.errors import ErrorCode
from tests.broker.api.requests import batch, create, fetched, produced
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.support.raw_client import RawClient

TWO_DISKS = {"log.dirs": "/d1,/d2"}
COLD = DiskFault(frozenset({"is_resident"}), 0, ".log", delay_ms=1)


@asynccontextmanager
async def with_faults(
    settings: dict[str, str] | None = None,
) -> AsyncIterator[tuple[RunningBroker, RawClient, FaultPlan]]:
    """A broker, a connection to it, and the faults of its disk."""
    plan = FaultPlan()
    disk = FaultyDisk(MemoryDisk(), plan, RealClock())
    async with running_broker(settings, disk) as running, running.connect() as client:
        yield running, client, plan


def path_of(running: RunningBroker, topic: str) -> str:
    """The data directory that a topic's only partition lies in."""
    partition = running.broker.partitions.find(topic, 0)
    assert partition is not None
    return partition.log.home.health.path


async def two_topics(running: RunningBroker, client: RawClient) -> tuple[str, str]:
    """One on a disk that will fail, one on the disk with the metadata, which will not."""
    for name in ("a", "b"):
        await create(client, name, segment_bytes="200")
        for _ in range(3):
            await produced(client, batch(b"x" * 100), topic=name)
    lost = "a" if path_of(running, "a") == "/d2" else "b"
    return lost, "b" if lost == "a" else "a"


@pytest.mark.parametrize("operation", ["modified_ms", "rename"])
async def test_retention_on_a_failing_disk_spares_the_other_disk(operation: str) -> None:
    """A chore that died of one disk's error stopped the broker with all the others."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        lost, kept = await two_topics(running, client)
        plan.add(DiskFault(frozenset({operation}), errno.EIO, "/d2/"))
        assert running.broker.housekeeping is not None

        await running.broker.housekeeping.apply_retention()

        assert (await produced(client, batch(b"y"), topic=kept)).error_code == ErrorCode.NONE
        code = (await produced(client, batch(b"y"), topic=lost)).error_code
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not running.broker.has_failed


async def test_a_cold_read_that_fails_is_answered_and_the_connection_stays() -> None:
    """A closed connection would have the consumer come back for the same records for ever."""
    async with with_faults(TWO_DISKS) as (running, client, plan):
        lost, kept = await two_topics(running, client)
        plan.add(COLD)
        # Finding the batch reads the file as well, but only its header.
        plan.add(DiskFault(frozenset({"pread"}), errno.EIO, f"/d2/{lost}-0/", after=1, times=1))

        found = await fetched(client, 0, topic=lost)

        assert (found.error_code, bytes(found.records)) == (ErrorCode.KAFKA_STORAGE_ERROR, b"")
        assert (await fetched(client, 0, topic=kept)).error_code == ErrorCode.NONE
        code = (await produced(client, batch(b"y"), topic=lost)).error_code
        assert code == ErrorCode.KAFKA_STORAGE_ERROR
        assert not running.broker.has_failed
