"""Logs of Kafka before 0.11 are served: their segments become record batches before they load."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.names import LOG, segment_name
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import read_any
from tests.broker.log.crash_disk import CrashDisk, PowerCut
from tests.broker.log.log_under_test import DIRECTORY, START_MS, LogUnderTest, read_all
from tests.protocol.records.old_bytes import Made, message_set, wrapper

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.protocol.records.record import Record

# In the order of their writing: Kafka 0.8, 0.10 and 0.11; the second was upgraded in its midst.
FIRST = message_set(0, [Made(n, 0, b"k%d" % n, b"v") for n in range(5)]) + wrapper(
    0, [Made(n, 0, b"k%d" % n, b"w") for n in range(5, 9)], Codec.GZIP
)
SECOND = (
    wrapper(1, [Made(n, START_MS + n, b"k%d" % n, b"x") for n in range(9, 14)], Codec.SNAPPY)
    + message_set(1, [Made(n, START_MS + n, b"k%d" % n, b"y") for n in range(14, 16)])
    + encode_batch([(START_MS + 16, b"k", b"z", ())], BatchOptions(base_offset=16, leader_epoch=0))
)
RECORDS = list(read_any(FIRST + SECOND))


async def _written(disk: CrashDisk, *segments: tuple[int, bytes]) -> None:
    """A directory as that Kafka has left it, durable."""
    disk.make_directory("/data")
    disk.make_directory(DIRECTORY)
    for base_offset, content in segments:
        file = disk.open(f"{DIRECTORY}/{segment_name(base_offset, LOG)}", create=True)
        file.append([content])
        await file.fsync()
    await disk.fsync_directory(DIRECTORY)
    await disk.fsync_directory("/data")
    await disk.fsync_directory("/")


def _records(log: PartitionLog) -> list[Record]:
    return [record for _, _, batch in read_all(log) for record in read_any(batch)]


@pytest.mark.requirement("FMT-18")
@pytest.mark.parametrize("recovery_point", [0, 9, 17])
async def test_a_log_of_three_formats_is_served(recovery_point: int) -> None:
    """Every record at its offset; behind them the broker appends its own."""
    tested = LogUnderTest()
    await _written(tested.disk, (0, FIRST), (9, SECOND))
    log = await tested.open(Known(recovery_point))

    assert _records(log) == RECORDS
    assert (log.log_start_offset, log.log_end_offset) == (0, 17)
    assert [segment.base_offset for segment in log.segments] == [0, 9]
    found = await log.offset_for_timestamp(START_MS + 12)
    assert found is not None
    assert found.offset == 12
    tested.append(log)
    tested.kill()
    again = await tested.open(Known(recovery_point))
    assert again.log_end_offset == 18
    assert _records(again)[:17] == RECORDS


@pytest.mark.parametrize("kill", [True, False])
async def test_a_crash_at_any_step_loses_nothing(kill: bool) -> None:
    """The old segment counts until the new one is durable."""
    disk = CrashDisk()
    await _written(disk, (0, FIRST), (9, SECOND))
    before = disk.changes
    tested = LogUnderTest(disk)
    await tested.open(Known(17))
    steps = disk.changes - before
    assert steps > 8
    for step in range(1, steps + 1):
        disk = CrashDisk()
        await _written(disk, (0, FIRST), (9, SECOND))
        disk.crash_at = disk.changes + step
        tested = LogUnderTest(disk)
        with pytest.raises(PowerCut):
            await tested.open(Known(17))
        tested.disk.crash_at = None
        if kill:
            tested.kill()
        else:
            tested.cut_power(step)
        log = await tested.open(Known(17))
        assert _records(log) == RECORDS, step


async def test_a_torn_end_is_cut_where_nothing_was_promised() -> None:
    """As the ends of newer segments are."""
    tested = LogUnderTest()
    torn = message_set(0, [Made(n, 0, b"k", b"v") for n in range(4)])[:-3]
    await _written(tested.disk, (0, torn))
    log = await tested.open(Known(0))
    assert (len(_records(log)), log.log_end_offset) == (3, 3)

    tested = LogUnderTest()
    await _written(tested.disk, (0, torn))
    with pytest.raises(CorruptLogError):
        await tested.open(Known(4))


async def test_damage_leaves_the_file_as_it_is() -> None:
    """An operator can still read with other tools what is behind it."""
    tested = LogUnderTest()
    damaged = bytearray(message_set(1, [Made(n, START_MS, b"k", b"v") for n in range(4)]))
    damaged[len(damaged) // 2 - 1] ^= 1
    await _written(tested.disk, (0, bytes(damaged)))
    with pytest.raises(CorruptLogError, match="of a Kafka before"):
        await tested.open(Known(0))

    assert bytes(tested.content(segment_name(0, LOG))) == bytes(damaged)


async def test_segments_of_batches_are_not_touched() -> None:
    """A start costs one look at each of them."""
    tested = LogUnderTest()
    log = await tested.open(Known())
    tested.append(log)
    await log.flush()
    before = bytes(tested.content(segment_name(0, LOG)))
    inode = tested.disk.files.file(f"{DIRECTORY}/{segment_name(0, LOG)}")
    tested.kill()
    await tested.open(Known(1))

    assert bytes(tested.content(segment_name(0, LOG))) == before
    assert tested.disk.files.file(f"{DIRECTORY}/{segment_name(0, LOG)}") is inode
