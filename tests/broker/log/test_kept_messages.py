"""A log that keeps messages of format 1 beside batches: read, recovered, cut, shortened, moved."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.log.admission import admit_messages
from ottla.broker.log.recovery.examining import examine
from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.recovery.recovery import find_batch
from ottla.broker.log.storage import scan
from ottla.broker.log.storage.names import KEPT_FORMAT, LOG, segment_name
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.replica.append import AppendRules
from ottla.broker.replica.kept_sets import kept_set
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import iterate_entries, read_any
from tests.broker.log.crash_disk import PowerCut
from tests.broker.log.log_under_test import DIRECTORY, START_MS, LogUnderTest
from tests.protocol.records.old_bytes import Made, message_set, wrapper

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.protocol.message_sets.kept import KeptSet
    from ottla.protocol.records.record import Record

SMALL = LogSettings(segment_bytes=700, index_interval_bytes=100, segment_ms=10**9)
FIRST_LOG = segment_name(0, LOG)


def kept(count: int, codec: Codec = Codec.GZIP, *, start: int = 0, time: int = START_MS) -> KeptSet:
    """What a producer of format 1 sends: one wrapper, or messages one after the other."""
    made = [Made(n, time + n, b"k%d" % (start + n), b"v" * 20) for n in range(count)]
    content = wrapper(1, made, codec) if codec else message_set(1, made)
    found = kept_set(content, AppendRules(), START_MS, 1 << 20)
    assert found is not None
    return found


class KeepingBench(LogUnderTest):
    """Appends what it is given as a leader does."""

    async def opened(self, known: Known = Known()) -> PartitionLog:  # noqa: B008
        log = await self.open(known)
        await admit_messages(log)
        return log

    def put(self, log: PartitionLog, one: KeptSet) -> None:
        one.stamp(log.log_end_offset, 3)
        log.append(one.entries, self.clock.now_ms())
        self.observer.observe(one)

    async def filled(self) -> PartitionLog:
        """Wrappers, messages and batches in three segments."""
        log = await self.opened()
        for number in range(6):
            time = START_MS + 10 * number
            self.put(log, kept(4, Codec.GZIP, start=log.log_end_offset, time=time))
            self.put(log, kept(2, Codec.NONE, start=log.log_end_offset, time=time + 4))
            self.append(log, 2, timestamp=time + 6)
        return log


def entries(log: PartitionLog, max_bytes: int = 1 << 20) -> bytes:
    """All that readers get, piece by piece."""
    found, offset = b"", log.log_start_offset
    while offset < log.log_end_offset:
        read = log.read(offset, max_bytes, log.log_end_offset, at_least_one=True)
        assert read.region is not None
        content = bytes(read.region.read())
        last = list(read_any(content))[-1].offset
        assert read.next_offset == last + 1
        found, offset = found + content, read.next_offset
    return found


def records(log: PartitionLog) -> list[Record]:
    return list(read_any(entries(log)))


async def test_wrappers_are_stored_byte_for_byte_but_for_their_offsets() -> None:
    """The broker decompresses to judge, and stores what the producer compressed."""
    tested = KeepingBench(settings=SMALL)
    log = await tested.opened()
    sent = bytes(kept(5).buffer)
    tested.put(log, kept(3, Codec.NONE))
    tested.put(log, kept(5))

    *_, last = iterate_entries(entries(log))

    assert bytes(last.view)[8:] == sent[8:]
    assert int.from_bytes(last.view[:8]) == 7
    assert [one.offset for one in records(log)] == list(range(8))


@pytest.mark.parametrize("max_bytes", [1, 100, 250, 1 << 20])
async def test_every_offset_is_read_whatever_the_size_of_the_fetch(max_bytes: int) -> None:
    """Index entries and remembered starts lead to whole entries of either kind."""
    tested = KeepingBench(settings=SMALL)
    log = await tested.filled()

    assert len(log.segments) > 2
    found = list(read_any(entries(log, max_bytes)))
    assert [one.offset for one in found] == list(range(48))
    for offset in range(48):
        read = log.read(offset, max_bytes, log.log_end_offset, at_least_one=True)
        assert read.region is not None
        got = [one.offset for one in read_any(read.region.read())]
        assert got[0] <= offset <= got[-1]


@pytest.mark.parametrize("ends", ["closed", "killed", "without indexes"])
async def test_a_start_finds_everything_again(ends: str) -> None:
    """By the clean mark, by recovery, and with indexes rebuilt from the entries."""
    tested = KeepingBench(settings=SMALL)
    log = await tested.filled()
    before, epochs = entries(log), tested.observer.epochs
    await log.flush()
    if ends == "closed":
        await log.close()
    else:
        tested.kill()
    if ends == "without indexes":
        for name in tested.names("index"):
            await tested.disk.unlink(f"{DIRECTORY}/{name}")
    again = await tested.open(Known(log.recovery_point if ends == "closed" else 0))

    assert again.keeps_messages
    assert entries(again) == before
    assert again.log_end_offset == 48
    assert tested.observer.epochs == epochs
    tested.put(again, kept(2))
    assert records(again)[-1].offset == 49


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 400), st.sampled_from(list(Codec)[:4]))
def test_a_torn_write_is_cut_off(lost_bytes: int, codec: Codec) -> None:
    """Whole entries before it stay; behind them the log goes on."""
    asyncio.run(_check_torn(lost_bytes, codec))


async def _check_torn(lost_bytes: int, codec: Codec) -> None:
    tested = KeepingBench()
    log = await tested.opened()
    tested.put(log, kept(3, Codec.NONE))
    flushed = log.size_bytes
    await log.flush()
    tested.put(log, kept(4, codec))
    tested.put(log, kept(4, codec))
    before = records(log)
    tested.kill()
    content = tested.content(FIRST_LOG)
    del content[max(flushed, len(content) - lost_bytes) :]
    again = await tested.open(Known(3))

    found = records(again)
    assert found == before[: len(found)]
    assert len(found) >= 3
    assert again.log_end_offset == len(found)
    tested.put(again, kept(2))
    assert len(records(again)) == len(found) + 2


@pytest.mark.parametrize("place", [20, 60])
async def test_damage_before_valid_messages_is_no_torn_end(place: int) -> None:
    """Cutting there would lose what was acknowledged; the log is reported and left alone."""
    tested = KeepingBench()
    log = await tested.opened()
    for _ in range(3):
        tested.put(log, kept(4))
    tested.kill()
    content = tested.content(FIRST_LOG)
    content[place] ^= 0x40
    before = bytes(content)

    with pytest.raises(CorruptLogError, match="valid records follow"):
        await tested.open(Known(0))
    assert bytes(tested.content(FIRST_LOG)) == before
    found = await examine(tested.disk, DIRECTORY, 0)
    assert found is not None
    assert found.position == 0


async def test_without_the_mark_messages_become_batches_or_are_damage() -> None:
    """Another log's messages were written by a Kafka before 0.11, and are replicated."""
    tested = KeepingBench()
    log = await tested.filled()
    tested.kill()
    await tested.disk.unlink(f"{DIRECTORY}/{KEPT_FORMAT}")
    again = await tested.open(Known(0))
    assert {one.magic for one in iterate_entries(entries(again))} == {2}
    assert [one.offset for one in records(again)] == list(range(48))

    other = KeepingBench()
    log = await other.opened()
    other.append(log)
    other.put(log, kept(2))
    other.kill()
    await other.disk.unlink(f"{DIRECTORY}/{KEPT_FORMAT}")
    with pytest.raises(CorruptLogError, match=r"before 0\.11"):
        await other.open(Known(0))


async def test_a_crash_while_the_mark_is_written_leaves_a_log_that_loads() -> None:
    """The mark is durable before the first message is appended."""
    for step in range(1, 12):
        tested = KeepingBench()
        log = await tested.open()
        await log.flush()
        for directory in ("/", "/data", DIRECTORY):
            await tested.disk.fsync_directory(directory)
        tested.disk.crash_at = tested.disk.changes + step
        try:
            await admit_messages(log)
        except PowerCut:
            tested.cut_power()
            assert (await tested.open(Known(0))).log_end_offset == 0
            continue
        assert step > 3
        tested.disk.crash_at = None
        tested.put(log, kept(4))
        await log.flush()
        tested.cut_power()
        again = await tested.open(Known(4))
        assert again.keeps_messages
        assert again.log_end_offset == 4
        return
    raise AssertionError("the mark was never written")


@pytest.mark.parametrize("offset", range(49))
async def test_a_log_is_truncated_to_whole_entries(offset: int) -> None:
    """A wrapper cannot be split: the end is then its first message."""
    tested = KeepingBench(settings=SMALL)
    log = await tested.filled()
    before = records(log)

    end = await log.truncate_to(offset)

    assert end <= offset
    assert offset - end < 4
    assert records(log) == before[:end]
    tested.put(log, kept(3))
    assert log.log_end_offset == end + 3
    tested.kill()
    assert records(await tested.open(Known(0)))[:end] == before[:end]


async def test_the_log_start_moves_into_a_wrapper_and_old_segments_go() -> None:
    """Retention and DeleteRecords know offsets alone."""
    tested = KeepingBench(settings=SMALL)
    log = await tested.filled()
    before = records(log)

    assert await log.delete_records_before(18) == 18
    assert [one.offset for one in records(log) if one.offset >= 18] == list(range(18, 48))
    views = log.segment_views()
    assert await log.delete_old_segments(lambda segments: len(segments) - 1, 48) > 0
    assert log.log_start_offset == views[-1].base_offset
    assert records(log) == [one for one in before if one.offset >= log.log_start_offset]


@settings(max_examples=40, deadline=None)
@given(st.integers(START_MS - 1, START_MS + 70), st.booleans())
def test_a_time_finds_the_first_record_that_reaches_it(time: int, reopened: bool) -> None:
    """Inside wrappers too, by the times of their messages."""
    asyncio.run(_check_time(time, reopened))


async def _check_time(time: int, reopened: bool) -> None:
    tested = KeepingBench(settings=SMALL)
    log = await tested.filled()
    if reopened:
        await log.flush()
        tested.kill()
        log = await tested.open(Known(log.recovery_point))
    found = await log.offset_for_timestamp(time)
    wanted = next((one for one in records(log) if one.timestamp >= time), None)
    if wanted is None:
        assert found is None
    else:
        assert found is not None
        assert (found.offset, found.timestamp) == (wanted.offset, wanted.timestamp)
    largest = await log.offset_of_largest_timestamp()
    assert largest is not None
    assert largest.timestamp == max(one.timestamp for one in records(log))


async def test_append_times_are_found_as_the_wrapper_says() -> None:
    """The broker's time holds for all messages inside."""
    tested = KeepingBench()
    log = await tested.opened()
    one = kept(4)
    one.stamp_append_time(START_MS + 500)
    tested.put(log, one)

    found = await log.offset_for_timestamp(START_MS + 400)

    assert found is not None
    assert (found.offset, found.timestamp) == (0, START_MS + 500)
    assert {record.timestamp for record in records(log)} == {START_MS + 500}
    tested.kill()
    assert len(records(await tested.open(Known(0)))) == 4


async def test_power_cuts_leave_a_prefix() -> None:
    """Whatever was written back, recovery ends the log at an entry or reports damage."""
    for seed in range(40):
        tested = KeepingBench()
        log = await tested.opened()
        tested.put(log, kept(3))
        await log.flush()
        for directory in ("/", "/data", DIRECTORY):
            await tested.disk.fsync_directory(directory)
        for _ in range(4):
            tested.put(log, kept(40))
            tested.append(log, 3)
        before = records(log)
        tested.cut_power(seed, ordered=seed % 2 == 0)
        again = await tested.open(Known(3, may_have_lost_writes=True))
        found = records(again)
        assert len(found) >= 3
        assert found == before[: len(found)]


def test_no_search_for_batches_takes_a_message_for_one() -> None:
    """The two searches behind damage know one format each."""
    tested = KeepingBench()
    tested.disk.make_directory("/data")
    file = tested.disk.open("/data/x", create=True)
    file.append([kept(4).view])

    assert find_batch(file, 0, file.size_bytes, 0) is None


async def test_a_message_whose_head_lies_in_two_pieces_is_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The last one of a file may be shorter than the header of a batch, and was taken for torn."""
    tested = KeepingBench()
    log = await tested.opened()
    tested.put(log, kept(2, Codec.NONE))
    file, size_bytes = log.active.file, log.active.size_bytes
    for seen_bytes in range(size_bytes // 2):
        monkeypatch.setattr(scan, "CHUNK_BYTES", size_bytes // 2 + seen_bytes)
        found = scan.BatchScan(file, 0, size_bytes)

        assert [batch.base_offset for _, batch in found] == [0, 1], seen_bytes
        assert found.problem is None
