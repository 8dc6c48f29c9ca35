"""A disk that fails between a marker and the note of what it has aborted (T-18)."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan, FaultyDisk
from ottla.protocol.errors import ErrorCode
from ottla.wire.clock import RealClock
from tests.broker.support.requests import batch, create, fetched
from tests.broker.support.transactions import in_transaction, marked, produced
from tests.support.in_process import RunningBroker, running_broker
from tests.support.transactions import admit

PRODUCER = 4000
# The metadata lies on the first, which must not fail.
TWO_DISKS = {"log.dirs": "/d1,/d2"}


def topic_on_second_disk(running: RunningBroker, names: list[str]) -> str:
    for name in names:
        partition = running.broker.partitions.find(name, 0)
        if partition is not None and partition.log.home.health.path == "/d2":
            return name
    raise AssertionError("nothing lies there")


@pytest.mark.requirement("TXN-30")
@pytest.mark.parametrize("code", [errno.EIO, errno.ENOSPC])
async def test_what_is_aborted_is_not_shown_though_it_could_not_be_noted(code: int) -> None:
    """The partition is gone at once, and makes its list from the markers when it comes back."""
    plan, disk = FaultPlan(), MemoryDisk()
    faulty = FaultyDisk(disk, plan, RealClock())
    async with running_broker(TWO_DISKS, faulty) as running, running.connect() as client:
        for name in ("a", "b"):
            await create(client, name)
        topic = topic_on_second_disk(running, ["a", "b"])
        partition = running.broker.partitions.find(topic, 0)
        assert partition is not None
        admit(partition, PRODUCER)
        await produced(client, in_transaction(value=b"aborted"), topic=topic)
        await produced(client, batch(b"plain"), topic=topic)
        plan.add(DiskFault(frozenset({"append"}), code, ".txnindex"))
        answer = await marked(client, commit=False, places={topic: [0]})
        gone = await fetched(client, 0, topic=topic, isolation_level=1)
        plan.clear()
        left = running.broker.partitions.find(topic, 0)

    assert answer == [ErrorCode.KAFKA_STORAGE_ERROR]
    assert gone.error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert left is None
    async with running_broker(TWO_DISKS, disk) as running, running.connect() as client:
        view = await fetched(client, 0, topic=topic, isolation_level=1)

        assert (view.high_watermark, view.last_stable_offset) == (3, 3)
        aborted = [(one.producer_id, one.first_offset) for one in view.aborted_transactions]
        assert aborted == [(PRODUCER, 0)]
