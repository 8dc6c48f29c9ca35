"""A power cut at every single operation of starting, working and stopping.

Whatever the disk then holds, the next start finds every flushed record, nothing else than records
that were appended, and a clean mark only after a clean stop; and the start after it the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.protocol.ids import TopicPartition
from tests.broker.log.broker_disk import TOPIC_ID, BrokerDisk
from tests.broker.log.crash_disk import CrashDisk, PowerCut
from tests.broker.log.log_under_test import read_all
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from ottla.broker.log.directories.directories import LogDirectories
    from tests.simulation.world.filesystem import SimFileSystem

ORDERS = TopicPartition("orders", 0)
Batches = list[tuple[int, int, bytes]]


class Life:
    """One run of a broker's logs, with what it was told is durable."""

    def __init__(self, files: SimFileSystem | None = None, crash_at: int | None = None) -> None:
        self.broker = BrokerDisk(disk=CrashDisk(files, crash_at))
        self.appended: Batches = []
        self.promised = 0
        self.start_offset = 0
        self.was_clean = False
        self.at_close: Batches = []

    async def run(self, *, rounds: int = 1) -> None:
        """Start, append over several segments, flush, truncate, delete, stop cleanly."""
        logs = await self.broker.start()
        log = await logs.create(ORDERS, TOPIC_ID, is_new=True)
        self.appended = read_all(log)
        for _ in range(rounds):
            for number in range(9):
                self.broker.append(log, 1 + number % 2)
                self.appended = read_all(log)
            await log.flush()
            self.promised = log.log_end_offset
            await logs.checkpoint({ORDERS: log.log_end_offset}.copy)
            self.broker.append(log, 2)
            self.appended = read_all(log)
        self.promised = min(self.promised, self.promised - 3)
        end = await log.truncate_to(self.promised)
        self.promised = min(self.promised, end)
        self.broker.append(log, 1)
        self.appended += [batch for batch in read_all(log) if batch not in self.appended]
        start = await log.delete_records_before(5)
        self.start_offset = start
        self.at_close = read_all(log)
        self.was_clean = await logs.close(42)

    async def crashed(self) -> bool:
        try:
            await self.run()
        except PowerCut:
            return True
        return False


def operations(life: Life) -> int:
    return life.broker.disk.changes


async def found_after(files: SimFileSystem) -> tuple[LogDirectories, BrokerDisk]:
    broker = BrokerDisk(disk=CrashDisk(files))
    files.locks.clear()
    return await broker.start(), broker


@pytest.mark.parametrize("ordered", [True, False])
async def test_a_power_cut_at_any_operation_loses_nothing_promised(ordered: bool) -> None:
    """S-05 to S-08: the order of operations is right only if every prefix of it is."""
    whole = Life()
    assert not await whole.crashed()
    assert whole.was_clean
    last = operations(whole)
    assert last > 50
    for crash_at in range(1, last + 2):
        for seed in range(2):
            life = Life(crash_at=crash_at)
            crashed = await life.crashed()
            assert crashed == (crash_at <= last)
            life.broker.disk.files.lose_power(SimRandom(seed), ordered=ordered)
            logs, broker = await found_after(life.broker.disk.files)
            check(life, logs, crash_at)
            again, _ = await found_after(broker.disk.files)
            for log in logs:
                other = again.get(log.partition)
                assert other is not None
                assert read_all(other) == read_all(log)


def check(life: Life, logs: LogDirectories, crash_at: int) -> None:
    """The promises, for one image of the disk."""
    if life.was_clean:
        assert logs.clean_broker_epoch == 42
    elif logs.clean_broker_epoch is not None:
        # Cut between the mark and the last fsync: all that it speaks of was durable before.
        assert [read_all(log) for log in logs] == [life.at_close]
    log = logs.get(ORDERS)
    if log is None:
        # A hole between what reached the disk and what did not: left to the operator, and only
        # possible above what was promised.
        if ORDERS in logs.damaged:
            return
        assert life.promised <= 0
        return
    found = read_all(log)
    assert log.log_end_offset >= life.promised, crash_at
    assert log.log_start_offset >= life.start_offset
    allowed = set(life.appended)
    assert all(batch in allowed for batch in found)
    assert log.topic_id == TOPIC_ID or not life.appended


async def test_a_power_cut_during_recovery_changes_nothing() -> None:
    """S-05: the mark is gone before anything is loaded, and recovery may be begun anew."""
    for seed in range(4):
        life = Life()
        assert not await life.crashed()
        files = life.broker.disk.files
        log_file = files.file("/d1/orders-0/00000000000000000000.log")
        assert len(log_file.data) > 0
        crash_at = 0
        finished = False
        while not finished:
            crash_at += 1
            life = Life(crash_at=operations_until_stop(seed))
            assert await life.crashed()
            life.broker.disk.files.lose_power(SimRandom(seed), ordered=True)
            starting = BrokerDisk(disk=CrashDisk(life.broker.disk.files, crash_at))
            try:
                await starting.start()
                finished = True
            except PowerCut:
                life.broker.disk.files.lose_power(SimRandom(seed + 1), ordered=True)
            logs, _ = await found_after(life.broker.disk.files)
            assert logs.clean_broker_epoch is None
            check(life, logs, crash_at)


def operations_until_stop(seed: int) -> int:
    return 30 + seed * 7


async def test_a_kill_at_any_operation_loses_nothing_at_all() -> None:
    """The page cache outlives the process: every append that returned is found."""
    whole = Life()
    await whole.crashed()
    for crash_at in range(1, operations(whole) + 2):
        life = Life(crash_at=crash_at)
        await life.crashed()
        logs, _ = await found_after(life.broker.disk.files)
        log = logs.get(ORDERS)
        assert logs.damaged == {}
        if log is None:
            assert life.appended == []
            continue
        assert set(read_all(log)) <= set(life.appended) | set(read_all(log)[-1:])
        assert log.log_end_offset >= life.promised
