"""Durability: what an fsync promises, in which order, and that a failed one is final."""

from __future__ import annotations

import asyncio
import errno

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.names import LEADER_EPOCHS
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import KafkaError
from tests.broker.log.crash_disk import CrashDisk, PowerCut
from tests.broker.log.log_under_test import DIRECTORY, LogUnderTest, read_all

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)
LOG_PATH = f"{DIRECTORY}/00000000000000000000.log"


async def test_a_flush_is_due_after_that_many_messages() -> None:
    """flush.messages=100: the hundredth unflushed message asks for an fsync, not a later one."""
    tested = LogUnderTest(settings=LogSettings(flush_messages=100))
    log = await tested.open()
    for _ in range(33):
        tested.append(log, 3)
        assert not log.flush_is_due(tested.clock.now_ms())
    tested.append(log, 1)
    assert log.flush_is_due(tested.clock.now_ms())
    await log.flush()
    assert not log.flush_is_due(tested.clock.now_ms())
    assert LOG_PATH in tested.disk.fsyncs


async def test_a_flush_is_due_that_long_after_the_first_unflushed_append() -> None:
    """flush.ms=1000: later appends do not put it off."""
    tested = LogUnderTest(settings=LogSettings(flush_ms=1000))
    log = await tested.open()
    assert [log.flush_deadline_ms] == [None]
    tested.append(log)
    assert log.flush_deadline_ms == tested.clock.now_ms() + 1000
    tested.clock.time_ms += 999
    tested.append(log)
    assert not log.flush_is_due(tested.clock.now_ms())
    tested.clock.time_ms += 1
    assert log.flush_is_due(tested.clock.now_ms())
    await log.flush()
    assert log.flush_deadline_ms is None


async def test_what_was_cut_off_before_it_was_flushed_asks_for_no_flush() -> None:
    """Such a flush would have nothing to do, and a loop that flushes until none is due would never
    end."""
    tested = LogUnderTest(settings=LogSettings(flush_ms=1000))
    log = await tested.open()
    tested.append(log)
    await log.flush()
    flushed = log.log_end_offset
    tested.append(log)
    await log.truncate_to(flushed)
    tested.clock.time_ms += 1000
    assert not log.flush_is_due(tested.clock.now_ms())
    tested.append(log)
    assert log.flush_deadline_ms is not None


async def test_by_default_nothing_is_ever_forced_to_the_disk() -> None:
    """Durability comes from replication; the page cache writes when it likes."""
    tested = LogUnderTest()
    log = await tested.open()
    for _ in range(50):
        tested.append(log, 100)
    tested.clock.time_ms += 10**9
    assert not log.flush_is_due(tested.clock.now_ms())
    assert log.flush_deadline_ms is None
    assert LOG_PATH not in tested.disk.fsyncs


@pytest.mark.requirement("LOG-08")
@pytest.mark.parametrize("limit", [{"flush_messages": 10}, {"flush_ms": 1_000}])
@pytest.mark.parametrize("ordered", [True, False])
async def test_a_power_cut_loses_nothing_that_was_flushed(
    ordered: bool, limit: dict[str, int]
) -> None:
    """At most ten messages since the last flush go, or those of a second, which are ten here, and
    never one before them."""
    lost: set[int] = set()
    for seed in range(60):
        tested = LogUnderTest(settings=LogSettings(segment_bytes=600, **limit))
        log = await tested.open()
        for directory in ("/", "/data", DIRECTORY):
            await tested.disk.fsync_directory(directory)
        for _ in range(seed % 25):
            tested.append(log, 1)
            tested.clock.time_ms += 100
            if log.flush_is_due(tested.clock.now_ms()):
                await log.flush()
        flushed, end, expected = log.recovery_point, log.log_end_offset, read_all(log)
        tested.cut_power(seed, ordered=ordered)
        again = await tested.open(Known(flushed, cut_damage=True))

        assert flushed <= again.log_end_offset <= end
        assert end - again.log_end_offset < 10
        assert read_all(again) == expected[: again.log_end_offset]
        lost.add(end - again.log_end_offset)
    assert len(lost) > 3


async def test_a_flush_keeps_the_index_of_aborted_transactions_with_its_name() -> None:
    """T-18: without it, consumers would see aborted records after a power cut."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    await log.flush()

    tested.append(log, 1)
    log.append_aborted(AbortedTransaction(4000, 0, 2, 3))
    tested.disk.fsyncs.clear()
    await log.flush()

    fsyncs = tested.disk.fsyncs
    assert fsyncs.index(log.active.path_of(".txnindex")) < fsyncs.index(DIRECTORY)


async def test_the_recovery_point_moves_only_when_data_and_names_are_safe() -> None:
    """S-06, S-07: data, then indexes, then the directory; a power cut in between moves nothing."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(10):
        tested.append(log, 3)
    tested.disk.fsyncs.clear()
    await log.flush()
    fsyncs = tested.disk.fsyncs
    data = [fsyncs.index(segment.path) for segment in log.segments]
    assert data == sorted(data)
    assert all(fsyncs.index(s.path) < fsyncs.index(s.path_of(".index")) for s in log.segments)
    assert fsyncs.index(DIRECTORY) > max(data)
    assert log.recovery_point == 30

    for crash_at in range(1, 30):
        tested.append(log, 3)
        before = log.recovery_point
        tested.disk.crash_at = tested.disk.changes + crash_at
        try:
            await log.flush()
        except PowerCut:
            assert log.recovery_point == before
        tested.disk.crash_at = None


async def test_sealed_segments_can_be_flushed_without_the_active_one() -> None:
    """After a roll: the recovery point reaches the active segment at least."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(6):
        tested.append(log, 3)
    assert log.has_unflushed_segments
    await log.flush_sealed()
    assert log.recovery_point == log.active.base_offset
    assert log.active.path not in tested.disk.fsyncs


async def test_appends_go_on_while_a_flush_waits() -> None:
    """S-10: the recovery point covers what was there when the flush began."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    change = tested.disk.change

    def append_meanwhile(operation: str, path: str) -> float:
        if (operation, path) == ("fsync", LOG_PATH):
            tested.disk.change = change  # type: ignore[method-assign]
            tested.append(log, 2)
        return change(operation, path)

    tested.disk.change = append_meanwhile  # type: ignore[method-assign]
    await log.flush()
    assert (log.recovery_point, log.log_end_offset) == (3, 5)
    await log.flush()
    assert log.recovery_point == 5


@pytest.mark.parametrize("operation", ["fsync", "fsync_directory"])
async def test_a_failed_fsync_is_final(operation: str) -> None:
    """S-09: the kernel tells once and marks the pages clean; a retry proves nothing."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    failures: list[str] = []
    tested.home.health.on_failure(lambda: failures.append("offline"))
    tested.disk.faults.add(DiskFault(frozenset({operation}), errno.EIO, times=1))
    with pytest.raises(KafkaError):
        await log.flush()
    fsyncs = list(tested.disk.fsyncs)
    with pytest.raises(KafkaError):
        await log.flush()

    assert tested.disk.fsyncs == fsyncs
    assert failures == ["offline"]
    assert log.recovery_point == 0
    with pytest.raises(KafkaError):
        tested.append(log)


@pytest.mark.parametrize("operation", ["open", "fsync_directory"])
async def test_a_flush_waits_for_descriptors(operation: str) -> None:
    """S-30: who opens a thousand connections must not take the disk offline with them."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(20):
        tested.append(log, 3)
    tested.disk.faults.add(DiskFault(frozenset({operation}), errno.EMFILE, times=3))
    began_ms = tested.clock.now_ms()
    await log.flush()

    assert tested.clock.now_ms() > began_ms
    assert log.home.health.is_online
    assert log.recovery_point == log.log_end_offset
    expected = read_all(log)
    tested.disk = tested.disk.power_cut(1, ordered=False)
    assert read_all(await tested.open(Known(log.recovery_point))) == expected


async def test_a_flush_waits_for_a_descriptor_for_the_leader_epochs() -> None:
    """S-30: the records are on the disk by then, and the missing file is no fault of the disk."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    tested.append(log, 3)
    tested.observer.epochs = [(4, 0)]
    fault = DiskFault(frozenset({"open", "create"}), errno.EMFILE, LEADER_EPOCHS, times=3)
    tested.disk.faults.add(fault)
    began_ms = tested.clock.now_ms()
    await log.flush()

    assert tested.clock.now_ms() > began_ms
    assert log.home.health.is_online
    assert (log.recovery_point, log.saved_leader_epochs) == (3, [(4, 0)])


@pytest.mark.parametrize("stage", range(1, 9))
async def test_a_flush_that_was_cancelled_promises_nothing_and_forgets_nothing(stage: int) -> None:
    """P-04, S-07: the next one must sync the names that the first one had not come to."""
    tested = LogUnderTest(settings=LogSettings(segment_bytes=600, flush_ms=1000))
    log = await tested.open()
    for _ in range(6):
        tested.append(log, 3)
    deadline_ms = log.flush_deadline_ms
    tested.disk.crash_at = tested.disk.changes + stage
    with pytest.raises(PowerCut):
        await log.flush()
    tested.disk.crash_at = None
    assert log.recovery_point == 0
    assert log.flush_deadline_ms == deadline_ms

    tested.disk.fsyncs.clear()
    await log.flush()
    assert log.recovery_point == 18
    assert tested.disk.fsyncs.count(DIRECTORY) >= 1
    snapshots = tested.names(".snapshot")
    assert snapshots
    for name in snapshots:
        assert tested.disk.files.file(f"{DIRECTORY}/{name}").is_durable


async def test_a_close_that_was_cancelled_does_not_count_as_clean() -> None:
    """S-05: the mark must not speak of what was not flushed."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    tested.disk.crash_at = tested.disk.changes + 2
    with pytest.raises(PowerCut):
        await log.close()
    tested.disk.crash_at = None
    assert not await log.close()


async def test_an_index_without_space_does_not_stop_a_flush() -> None:
    """S-11: the index is a cache; the data is what was promised."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(10):
        tested.append(log, 3)
    tested.disk.faults.add(DiskFault(frozenset({"append"}), errno.ENOSPC, "index"))
    await log.flush()
    assert log.recovery_point == 30
    tested.disk.faults.clear()
    tested.kill()
    again = await tested.open(Known(30))
    assert len(read_all(again)) == 10


async def test_producers_are_saved_at_a_flush_when_much_was_written() -> None:
    """S-29: otherwise a restart would read a whole segment to know them."""
    tested = LogUnderTest()
    log = await tested.open()
    big = b"x" * (1 << 20)
    for _ in range(6):
        for _ in range(9):
            tested.append(log, value=big)
        await log.flush()
    saved = [int(name[:20]) for name in tested.names(".snapshot")]
    assert saved == [18, 36, 54]
    for _ in range(4):
        for _ in range(17):
            tested.append(log, value=big)
        await log.flush()
    assert len(tested.names(".snapshot")) == 3, "old ones go"
    tested.kill()
    await tested.open(Known(log.recovery_point))
    assert len(tested.observer.observed) <= 2


async def test_producers_are_saved_in_each_segment_anew() -> None:
    """What was written counts from the segment's start."""
    tested = LogUnderTest(settings=LogSettings(segment_bytes=20 << 20))
    log = await tested.open()
    big = b"x" * (1 << 20)
    for count in (17, 4, 15):
        for _ in range(count):
            tested.append(log, value=big)
        await log.flush()
    assert [segment.base_offset for segment in log.segments] == [0, 19]
    assert [int(name[:20]) for name in tested.names(".snapshot")] == [17, 19, 36]


async def test_an_idle_segment_holds_no_file() -> None:
    """S-30: a thousand partitions of many segments each must fit into the descriptor limit."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(20):
        tested.append(log, 3)
    pool = tested.home.open_segments
    assert len(pool) == 5
    pool.release_idle()
    pool.release_idle()
    assert len(pool) == 5, "unsynced data keeps the descriptor that wrote it"
    await log.flush()
    pool.release_idle()
    pool.release_idle()
    assert len(pool) == 0
    assert len(read_all(log)) == 20
    assert len(pool) == 5


class LateDisk(CrashDisk):
    """Holds renames back; like a thread, it finishes although its caller is cancelled."""

    gate: asyncio.Event

    async def rename(self, source: str, target: str) -> None:
        async def work() -> None:
            await self.gate.wait()
            await CrashDisk.rename(self, source, target)

        await asyncio.shield(asyncio.ensure_future(work()))


async def test_a_stop_in_the_middle_of_a_flush_leaves_its_files_to_one_writer() -> None:
    """P-04: the stop cancels the flush and closes the log. With the epochs' file in two hands, one
    found it gone, and took the directory for broken."""
    disk = LateDisk()
    disk.gate = asyncio.Event()
    tested = LogUnderTest(disk)
    log = await tested.open()
    tested.append(log)
    flushing = asyncio.ensure_future(log.flush())
    for _ in range(10):
        await asyncio.sleep(0)
    flushing.cancel()
    closing = asyncio.ensure_future(log.close())
    for _ in range(10):
        await asyncio.sleep(0)
    disk.gate.set()

    with pytest.raises(asyncio.CancelledError):
        await flushing
    assert await closing
    assert tested.home.health.is_online
    assert tested.names("-checkpoint") == ["leader-epoch-checkpoint"]
    assert log.recovery_point == log.log_end_offset
