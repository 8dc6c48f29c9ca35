"""Holes after a loss of power end the log and cost nothing that was flushed; other damage stays."""

from __future__ import annotations

import contextlib
import errno

import pytest

from ottla.broker.log.directories.boot_mark import BootMark, decode_boot_mark, encode_boot_mark
from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.recovery.power_loss import SECTOR_BYTES
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.ids import TopicPartition
from tests.broker.log.broker_disk import BrokerDisk, partition
from tests.broker.log.crash_disk import PowerCut
from tests.broker.log.log_under_test import LogUnderTest, read_all
from tests.broker.log.recovery.test_recovery import NAME, SMALL

AFTER_LOSS = Known(0, may_have_lost_writes=True)


async def flushed_then_filled(
    tested: LogUnderTest, flushed: int = 5, more: int = 20
) -> tuple[list[tuple[int, int, bytes]], int]:
    """Batches of uneven sizes, all of them; and how many bytes of them were flushed."""
    log = await tested.open()
    for number in range(flushed):
        tested.append(log, 1 + number % 3, value=b"f" * (40 + 13 * number))
    await log.flush()
    size_bytes = log.size_bytes
    for number in range(more):
        tested.append(log, 1 + number % 3, value=b"u" * (30 + 29 * number))
    return read_all(log), size_bytes


def zero_sector(content: bytearray, sector: int, flushed_bytes: int) -> None:
    """A sector that did not reach the disk since the flush: what is new in it reads as zeros."""
    start = max(sector * SECTOR_BYTES, flushed_bytes)
    end = min((sector + 1) * SECTOR_BYTES, len(content))
    content[start:end] = bytes(max(0, end - start))


def prefix_before(
    batches: list[tuple[int, int, bytes]], position: int
) -> list[tuple[int, int, bytes]]:
    """The batches that end at or before a position of the file."""
    kept, end = [], 0
    for batch in batches:
        end += len(batch[2])
        if end > position:
            break
        kept.append(batch)
    return kept


async def test_any_lost_sector_above_the_flush_ends_the_log_there() -> None:
    """A power cut keeps any of the unflushed pages; it must not cost a lone broker its log."""
    tested = LogUnderTest()
    batches, flushed_bytes = await flushed_then_filled(tested)
    size_bytes = len(tested.content(NAME))
    last = size_bytes - len(batches[-1][2])
    for sector in range(flushed_bytes // SECTOR_BYTES, last // SECTOR_BYTES):
        tested = LogUnderTest()
        await flushed_then_filled(tested)
        before = bytes(tested.content(NAME))
        zero_sector(tested.content(NAME), sector, flushed_bytes)
        tested.kill()
        log = await tested.open(AFTER_LOSS)
        found = read_all(log)
        lost_at = max(sector * SECTOR_BYTES, flushed_bytes)
        assert found == prefix_before(batches, lost_at), sector
        assert prefix_before(batches, flushed_bytes) == found[:5]
        (aside,) = tested.names(".damaged")
        kept_bytes = sum(len(batch[2]) for batch in found)
        assert len(tested.content(aside)) == size_bytes - kept_bytes
        assert aside == f"{log.log_end_offset:020d}.damaged"
        assert bytes(tested.content(aside))[-400:] == before[-400:]


async def test_the_same_hole_without_a_loss_of_power_is_damage() -> None:
    """A killed process loses no page: something else has eaten the records (S-03)."""
    tested = LogUnderTest()
    _, flushed_bytes = await flushed_then_filled(tested)
    zero_sector(tested.content(NAME), flushed_bytes // SECTOR_BYTES + 2, flushed_bytes)
    before = bytes(tested.content(NAME))
    tested.kill()
    with pytest.raises(CorruptLogError, match="damaged"):
        await tested.open(Known(0))
    assert bytes(tested.content(NAME)) == before
    assert tested.names(".damaged") == []


async def test_a_flipped_bit_is_damage_even_after_a_loss_of_power() -> None:
    """Lost pages read as zeros. Acknowledged records behind a rotten bit are not thrown away."""
    tested = LogUnderTest()
    batches, _ = await flushed_then_filled(tested)
    last = sum(len(batch[2]) for batch in batches[:-1])
    for position in range(0, last, 11):
        tested = LogUnderTest()
        await flushed_then_filled(tested)
        content = tested.content(NAME)
        content[position] ^= 0x10
        before = bytes(content)
        tested.kill()
        with pytest.raises(CorruptLogError, match="damaged"):
            await tested.open(AFTER_LOSS)
        assert bytes(tested.content(NAME)) == before


async def test_a_hole_below_the_recovery_point_is_damage() -> None:
    """It was on the disk once; no loss of power takes it away again (S-06)."""
    tested = LogUnderTest()
    batches, flushed_bytes = await flushed_then_filled(tested)
    content = tested.content(NAME)
    assert flushed_bytes > SECTOR_BYTES
    content[:SECTOR_BYTES] = bytes(SECTOR_BYTES)
    tested.kill()
    with pytest.raises(CorruptLogError, match="damaged"):
        await tested.open(Known(batches[5][0], may_have_lost_writes=True))


async def test_an_older_segment_may_have_lost_its_end() -> None:
    """The kernel writes two files back in any order."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(20):
        tested.append(log, 2)
    batches = read_all(log)
    names = tested.names(".log")
    tails = b"".join(bytes(tested.content(name)) for name in names[3:])
    del tested.content(names[2])[-5:]
    tested.kill()
    log = await tested.open(AFTER_LOSS)
    kept = [batch for batch in batches if batch[0] < log.log_end_offset]
    assert read_all(log) == kept
    assert len(log.segments) == 3
    (aside,) = tested.names(".damaged")
    assert bytes(tested.content(aside)).endswith(tails)
    tested.append(log, 1)


async def test_power_lost_again_during_the_cut_ends_in_the_same_place() -> None:
    """Recovery of a recovery: at every operation, with any of the pages."""
    for crash_at in range(1, 14):
        tested = LogUnderTest()
        batches, flushed_bytes = await flushed_then_filled(tested)
        zero_sector(tested.content(NAME), flushed_bytes // SECTOR_BYTES + 2, flushed_bytes)
        for _, inode in tested.disk.files.files():
            inode.finish_sync(inode.begin_sync())
        for directory in ("/", "/data", "/data/orders-0"):
            await tested.disk.fsync_directory(directory)
        tested.kill()
        tested.disk.crash_at = crash_at
        with contextlib.suppress(PowerCut):
            await tested.open(AFTER_LOSS)
        tested.cut_power(crash_at, ordered=False)
        log = await tested.open(AFTER_LOSS)
        kept = read_all(log)
        assert kept == batches[: len(kept)]
        assert len(kept) >= 5
        assert tested.names(".damaged")


async def test_without_room_to_keep_what_is_cut_nothing_is_cut() -> None:
    """The partition waits for space; it does not throw records away."""
    tested = LogUnderTest()
    _, flushed_bytes = await flushed_then_filled(tested)
    zero_sector(tested.content(NAME), flushed_bytes // SECTOR_BYTES + 2, flushed_bytes)
    before = bytes(tested.content(NAME))
    tested.kill()
    tested.disk.faults.add(DiskFault(frozenset({"append"}), errno.ENOSPC, ".damaged"))
    with pytest.raises(KafkaError, match="cannot write"):
        await tested.open(AFTER_LOSS)
    assert bytes(tested.content(NAME)) == before
    assert tested.names(".damaged") == []


async def test_what_an_earlier_loss_has_left_is_not_overwritten() -> None:
    """Each copy may be the only one."""
    tested = LogUnderTest()
    _, flushed_bytes = await flushed_then_filled(tested)
    for value in (b"a" * 500, b"b" * 500):
        zero_sector(tested.content(NAME), flushed_bytes // SECTOR_BYTES, flushed_bytes)
        tested.kill()
        log = await tested.open(AFTER_LOSS)
        assert log.log_end_offset == 9
        for _ in range(9):
            tested.append(log, 3, value=value)
    assert tested.names(f"{9:020d}.damaged")
    assert tested.names(f"{9:020d}.damaged.1")


def test_each_strict_prefix_of_a_boot_mark_says_nothing() -> None:
    """A file cut by a crash must not count as a shorter truth (S-08)."""
    mark = BootMark("b", frozenset({TopicPartition("a", 1)}), frozenset({TopicPartition("c", 0)}))
    content = encode_boot_mark(mark)
    assert decode_boot_mark(content) == mark
    assert all(decode_boot_mark(content[:size]) is None for size in range(len(content)))
    assert decode_boot_mark(None) is None


async def hole(broker: BrokerDisk, *, cut_power: bool) -> None:
    """Fill orders-0, lose a sector of it, and lose the process or the power."""
    logs = await broker.start()
    log = logs.get(partition(0)) or await logs.create(partition(0), None, is_new=True)
    assert log is not None
    for number in range(4):
        broker.append(log, 40)
        if number == 1:
            path = log.active.path
    zero_sector(broker.disk.files.file(path).data, 1, 0)
    for _, inode in broker.disk.files.files():
        inode.finish_sync(inode.begin_sync())
    await broker.disk.fsync_directory(log.directory)
    broker.disk = broker.disk.power_cut(1) if cut_power else broker.disk.killed()


async def test_only_another_run_of_the_machine_may_have_lost_writes() -> None:
    """The page cache outlives a killed broker, so the same hole then has another cause."""
    broker = BrokerDisk()
    await hole(broker, cut_power=True)
    logs = await broker.start()
    assert logs.damaged == {}
    broker.kill()

    await hole(broker, cut_power=False)
    logs = await broker.start()
    assert list(logs.damaged) == [partition(0)]


async def test_damage_is_not_forgiven_by_a_later_loss_of_power() -> None:
    """Switching a machine off and on again must not make a rotten log shorter."""
    broker = BrokerDisk()
    await hole(broker, cut_power=False)
    logs = await broker.start()
    assert list(logs.damaged) == [partition(0)]
    broker.disk = broker.disk.power_cut(2)
    logs = await broker.start()
    assert list(logs.damaged) == [partition(0)]


async def test_a_log_that_a_full_disk_kept_from_being_cut_is_cut_after_the_next_start() -> None:
    """Space comes back, and the loss of power that explains the hole was before the last start."""
    broker = BrokerDisk()
    await hole(broker, cut_power=True)
    broker.disk.faults.add(DiskFault(frozenset({"append"}), errno.ENOSPC, ".damaged"))
    logs = await broker.start()
    assert list(logs.damaged) == [partition(0)]
    broker.kill()
    logs = await broker.start()
    assert logs.damaged == {}
    broker.kill()
    logs = await broker.start()
    assert logs.damaged == {}
