"""Truncation: exact, durable before anything follows, and never under a running transfer."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.log.storage.txn_index import AbortedTransaction
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.builder import BatchOptions
from tests.broker.log.log_under_test import DIRECTORY, LogUnderTest, batch_at, read_all

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)


async def filled(tested: LogUnderTest, count: int = 20) -> PartitionLog:
    log = await tested.open()
    for number in range(count):
        tested.append(
            log, 3, options=BatchOptions(leader_epoch=number // 8, producer_id=number % 3)
        )
    return log


@pytest.mark.parametrize("reopened", [False, True])
@pytest.mark.parametrize("offset", [0, 1, 3, 11, 12, 13, 30, 57, 59, 60, 100])
async def test_what_lies_before_the_offset_stays_and_nothing_else(
    offset: int, reopened: bool
) -> None:
    """A follower cuts to where it and its leader last agreed."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    before = read_all(log)
    if reopened:
        await log.flush()
        tested.kill()
        log = await tested.open(Known(log.recovery_point))
    end = await log.truncate_to(offset)

    assert end == log.log_end_offset == min(offset, 60) // 3 * 3
    assert read_all(log) == [batch for batch in before if batch[1] < end]
    tested.append(log, 2, options=BatchOptions(leader_epoch=3))
    assert read_all(log)[-1][:2] == (end, end + 1)
    tested.kill()
    again = await tested.open(Known(min(log.recovery_point, end)))
    assert read_all(again) == read_all(log)


async def test_producers_and_epochs_are_those_of_what_is_left() -> None:
    """S-28, R-04: state that follows from the log must not remember what was cut."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.flush()
    await log.truncate_to(30)

    assert tested.observer.producers == {0: 29, 1: 23, 2: 26}
    assert tested.observer.epochs == [(0, 0), (1, 24)]
    assert bytes(tested.content("leader-epoch-checkpoint")) == b"0\n2\n0 0\n1 24\n"


async def test_epochs_are_cut_even_when_no_record_is() -> None:
    """S-28: an epoch that begins at the end would make the follower truncate for ever."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    tested.observer.epochs.append((9, 60))
    await log.truncate_to(60)
    assert tested.observer.epochs == [(0, 0), (1, 24), (2, 48)]


async def test_the_recovery_point_goes_down_first() -> None:
    """S-06: new bytes in the place of flushed ones are not flushed."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.flush()
    saved: list[tuple[int, int]] = []

    async def save() -> None:
        size = sum(len(tested.content(name)) for name in tested.names(".log"))
        saved.append((log.recovery_point, size))

    tested.home.save_recovery_points = save
    size = log.size_bytes
    await log.truncate_to(33)
    assert saved == [(33, size)]


async def test_nothing_is_promised_in_a_gap_that_was_cut_into() -> None:
    """S-06: what is written there later would be missed, after a power cut, as if it had rotted."""
    tested = LogUnderTest()
    log = await tested.open()
    for offset in (0, 10):
        log.append([batch_at(offset, 3)], 0)
    await log.flush()
    saved: list[int] = []

    async def save() -> None:
        saved.append(log.recovery_point)

    tested.home.save_recovery_points = save
    await log.truncate_to(7)

    assert log.log_end_offset == log.recovery_point == saved[-1] == 3
    log.append([batch_at(3, 6)], 0)
    tested.disk = tested.disk.power_cut(1, ordered=True)
    again = await tested.open(Known(saved[-1]))
    assert again.log_end_offset in (3, 9)


async def test_aborted_transactions_whose_marker_goes_are_forgotten() -> None:
    """The marker may come out as a commit the next time."""
    tested = LogUnderTest()
    log = await filled(tested)
    log.append_aborted(AbortedTransaction(1, 0, 20, 21))
    log.append_aborted(AbortedTransaction(2, 0, 40, 41))
    await log.truncate_to(30)
    assert log.aborted_transactions(0, 100) == [(1, 0, 20, 21)]


async def test_a_log_can_start_anew_elsewhere() -> None:
    """A follower so far behind that its leader has nothing in common with it any more."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.truncate_fully_and_start_at(1000)

    assert (log.log_start_offset, log.log_end_offset, log.recovery_point) == (1000, 1000, 1000)
    assert tested.observer.producers == {}
    assert tested.observer.epochs[-1] == (2, 48)
    assert tested.names(".log") == ["00000000000000001000.log"]
    tested.append(log, 3)
    tested.kill()
    again = await tested.open(Known(1000, 1000))
    assert (again.log_start_offset, again.log_end_offset) == (1000, 1003)


async def test_truncating_below_the_log_start_moves_it_down() -> None:
    """R-26: the log start never lies beyond the end."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.delete_records_before(40)
    await log.truncate_to(38)
    assert (log.log_start_offset, log.log_end_offset) == (36, 36)
    await log.truncate_to(5)
    assert (log.log_start_offset, log.log_end_offset) == (5, 5)


async def test_a_running_transfer_never_sees_other_bytes() -> None:
    """S-20: its length was promised in a response header that has left already."""
    tested = LogUnderTest()
    log = await filled(tested)
    read = log.read(0, 1 << 20, 60, at_least_one=True)
    assert read.region is not None
    expected = read.region.read()

    await log.truncate_to(15)
    while log.log_end_offset < 60:
        tested.append(log, 3, value=b"other bytes in the same place")

    assert read.region.read() == expected
    assert len(read_all(log)) == 20


async def test_without_a_transfer_the_file_is_cut_in_place() -> None:
    """Copying a gigabyte to drop its last batch would stall the follower for a second."""
    tested = LogUnderTest()
    log = await filled(tested)
    assert log.read(0, 1 << 20, 60, at_least_one=True).region is not None
    renames = tested.disk.files.file(f"{DIRECTORY}/00000000000000000000.log")
    await log.truncate_to(15)
    assert tested.disk.files.file(f"{DIRECTORY}/00000000000000000000.log") is renames


async def test_a_transfer_begun_while_waiting_for_another_does_not_matter() -> None:
    """It can only send bytes below the truncation point."""
    tested = LogUnderTest()
    log = await filled(tested)
    read = log.read(0, 1 << 20, 60, at_least_one=True)
    truncation = log.truncate_to(15)
    clock_sleep = tested.clock.sleep

    async def sleep(delay_ms: float) -> None:
        nonlocal read
        read = log.read(0, 1 << 20, 60, at_least_one=True)
        await clock_sleep(delay_ms)

    tested.clock.sleep = sleep  # type: ignore[method-assign]
    inode = tested.disk.files.file(f"{DIRECTORY}/00000000000000000000.log")
    await truncation
    assert read.region is not None
    assert read.next_offset == 15
    assert tested.disk.files.file(f"{DIRECTORY}/00000000000000000000.log") is inode
    assert len(read.region.read()) == log.size_bytes


async def test_appends_go_to_the_copy_though_the_file_before_it_was_read_meanwhile() -> None:
    """S-20: what goes to a file that has lost its name is gone at the next start."""
    tested = LogUnderTest()
    log = await filled(tested)
    transfer = log.read(0, 1 << 20, 60, at_least_one=True)
    clock_sleep = tested.clock.sleep

    async def sleep(delay_ms: float) -> None:
        log.read(0, 1 << 20, 60, at_least_one=True)
        await clock_sleep(delay_ms)

    tested.clock.sleep = sleep  # type: ignore[method-assign]
    await log.truncate_to(15)
    while log.log_end_offset < 60:
        tested.append(log, 3, value=b"other bytes in the same place")

    expected = read_all(log)
    await log.flush()
    tested.kill()
    again = await tested.open(Known(log.recovery_point))
    assert transfer.region is not None
    assert len(expected) == 20
    assert read_all(again) == expected


@pytest.mark.parametrize("operation", ["truncate", "fsync", "rename", "fsync_directory"])
async def test_a_truncation_that_fails_leaves_a_log_that_takes_no_appends(operation: str) -> None:
    """R-29: the content of the file is unknown."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    tested.disk.faults.add(DiskFault(frozenset({operation}), errno.EIO))
    with pytest.raises(KafkaError):
        await log.truncate_to(31)
    tested.disk.faults.clear()
    with pytest.raises(KafkaError):
        tested.append(log)


async def test_a_full_disk_before_the_first_cut_leaves_the_log_usable() -> None:
    """S-11: the recovery point could not be saved, so nothing was touched."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.flush()
    before = read_all(log)

    async def save() -> None:
        raise tested.home.health.judge("cannot write", OSError(errno.ENOSPC, "no space"))

    tested.home.save_recovery_points = save
    with pytest.raises(KafkaError):
        await log.truncate_to(31)
    assert read_all(log) == before
    tested.append(log)
