"""The power goes at every single operation of a cleaning: the old log is left, or the new."""

from __future__ import annotations

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.testing.faulty_disk import DiskFault
from tests.broker.log.crash_disk import PowerCut
from tests.broker.log.log_under_test import DIRECTORY
from tests.broker.support.clean_room import CleanRoom, latest, living
from tests.simulation.world.random import SimRandom


async def written() -> CleanRoom:
    """Segments that merge, aborted and committed data, tombstones, producers; all of it durable."""
    one = CleanRoom(None, segment_bytes="1200", delete_retention_ms="0")
    await one.open()
    for number in range(7):
        one.write((b"a", b"%d" % number), (b"k%d" % (number % 4), b"v" * 50))
        one.write((b"b", b"bad"), (b"a", b"bad"), producer_id=7, transactional=True)
        one.mark(7, commit=False)
        one.write((b"b", b"%d" % number), producer_id=8, transactional=True)
        one.mark(8, commit=number % 2 == 0)
        if number == 5:
            one.write((b"k1", None))
    one.write((b"tail", b"1"))
    one.roll()
    # The second run meets markers that have nothing left to end, and horizons that have passed.
    await one.clean()
    one.clock.time_ms += 1000
    one.write((b"tail", b"2"), (b"new", b"1"), (b"newer", b"1"), (b"newest", b"1"))
    # The map of keys is full here: what follows stays as it is, but in a new segment.
    one.settings = one.settings._replace(dedupe_buffer_size=300)
    one.write((b"b", b"bad"), producer_id=9, transactional=True)
    one.write((b"odd", b"1"))
    one.write((b"a", b"bad"), (b"z", b"bad"), producer_id=9, transactional=True)
    one.mark(9, commit=False)
    one.roll()
    await one.log.flush()
    for directory in ("/", "/data", DIRECTORY):
        await one.disk.fsync_directory(directory)
    return one


async def crashed_at(operation: int) -> CleanRoom:
    one = await written()
    one.disk.crash_at = one.disk.changes + operation
    with pytest.raises(PowerCut):
        await one.clean()
    return one


async def operations_of_a_run() -> int:
    one = await written()
    before = one.disk.changes
    assert await one.clean()
    return one.disk.changes - before


@pytest.mark.parametrize("fate", ["kill", "ordered", "unordered"])
async def test_a_crash_at_any_step_leaves_a_log_that_reads_the_same(fate: str) -> None:
    """S-14, S-22, S-26: never both, never neither; hidden data stays hidden."""
    count = await operations_of_a_run()
    assert count > 30
    sizes: set[int] = set()
    for operation in range(1, count + 1):
        one = await crashed_at(operation)
        end_offset, recovery_point = one.log.log_end_offset, one.log.recovery_point
        before = latest_now(one)
        if fate == "kill":
            one.disk = one.disk.killed()
        else:
            seed = SimRandom(operation).below(1 << 30)
            one.disk = one.disk.power_cut(seed, ordered=fate == "ordered")
        # As little as a lost checkpoint remembers, and as much as there is to remember.
        await one.open(Known(0 if fate == "kill" else recovery_point, 0))

        assert latest_now(one) == before, operation
        assert one.log.log_end_offset == end_offset
        assert one.history.producers.transactions.open_transactions == {}
        left = [name for name in await one.disk.scan(DIRECTORY) if name.endswith((".swap", "ed"))]
        assert left == []
        sizes.add(one.log.size_bytes)
        one.roll()
        assert await one.clean()
        assert latest_now(one) == before
    assert len(sizes) > 1


def latest_now(one: CleanRoom) -> dict[bytes, tuple[int, bytes | None]]:
    committed = one.committed()
    assert b"bad" not in [record.value for record in committed]
    return living(committed)


async def test_a_run_that_is_cancelled_at_any_step_leaves_a_log_that_can_be_loaded() -> None:
    """A broker that stops cancels its cleaner; the log is closed right after."""
    count = await operations_of_a_run()
    for operation in range(1, count + 1, 3):
        one = await crashed_at(operation)
        before = latest(one.committed())
        one.disk.crash_at = None
        await one.log.close()
        one.disk = one.disk.killed()
        await one.open(Known(one.log.recovery_point, 0))

        after = latest(one.committed())
        assert {key: after[key] for key in after if before.get(key) != after[key]} == {}


@pytest.mark.parametrize("operation", ["rename", "fsync", "fsync_directory"])
async def test_a_failing_disk_is_the_end_of_its_directory_and_of_nothing_else(
    operation: str,
) -> None:
    """S-09, S-12: it may have done half of what was asked; the log is served as it was."""
    after = 0
    while True:
        one = await written()
        before = latest_now(one)
        one.disk.faults.add(DiskFault(frozenset({operation}), after=after))

        done = await one.clean()

        if done:
            break
        assert not one.log.home.health.is_online
        assert latest_now(one) == before
        after += 1
    assert after >= 3
