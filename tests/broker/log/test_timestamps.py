"""From a time to an offset: the first record at or after it, whatever the order of the times."""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.log.timestamps import TimestampedOffset
from ottla.broker.testing.faulty_disk import DiskFault, FaultPlan
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import read_records
from tests.broker.log.broker_disk import BrokerDisk
from tests.broker.log.log_under_test import PARTITION, LogUnderTest, batch_at, read_all

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.log.partition_log import PartitionLog

Result = TypeVar("Result")
SMALL = LogSettings(segment_bytes=700, index_interval_bytes=100, segment_ms=10**9)


@settings(max_examples=80, deadline=None)
@given(
    times=st.lists(st.integers(0, 60), min_size=1, max_size=40),
    log_start=st.integers(0, 10),
    reopened=st.booleans(),
)
def test_a_time_finds_the_first_record_that_reaches_it(
    times: list[int], log_start: int, reopened: bool
) -> None:
    """Producers' clocks disagree, so times go up and down in a log; the answer is by offset."""
    asyncio.run(_check_times(times, log_start, reopened))


async def _check_times(times: list[int], log_start: int, reopened: bool) -> None:
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for number, time in enumerate(times):
        tested.append(log, 1 + number % 3, timestamp=time)
    await log.delete_records_before(min(log_start, log.log_end_offset))
    if reopened:
        await log.flush()
        tested.kill()
        log = await tested.open(Known(log.recovery_point, log.log_start_offset))
    records = [
        (record.offset, record.timestamp)
        for _, _, content in read_all(log)
        for batch in iterate_batches(content)
        for record in read_records(batch, 1 << 20)
        if record.offset >= log.log_start_offset
    ]
    for wanted in range(-1, 66):
        expected = next((found for found in records if found[1] >= wanted), None)
        answer = await log.offset_for_timestamp(wanted)
        assert (answer and answer[:2]) == expected
    largest = max((time for _, time in records), default=None)
    answer = await log.offset_of_largest_timestamp()
    assert (answer and answer.timestamp) == largest
    assert answer is None or answer.offset == next(o for o, time in records if time == largest)


async def test_append_time_gives_all_records_of_a_batch_the_same_time() -> None:
    """The first offset of the batch answers, without decoding any record."""
    tested = LogUnderTest()
    log = await tested.open()
    batch = batch_at(0, 5, timestamp=10, options=BatchOptions(leader_epoch=4))
    batch.stamp_append_time(5000)
    log.append([batch], 0)

    assert await log.offset_for_timestamp(4000) == TimestampedOffset(0, 5000, 4)
    assert await log.offset_of_largest_timestamp() == TimestampedOffset(0, 5000, 4)
    assert await log.offset_for_timestamp(5001) is None


@pytest.mark.parametrize("codec", list(Codec))
async def test_compressed_batches_answer_for_their_records(codec: Codec) -> None:
    """ListOffsets by time is one of the few places that look into records."""
    tested = LogUnderTest()
    log = await tested.open()
    for number in range(3):
        options = BatchOptions(codec=codec, leader_epoch=0)
        tested.append(log, 10, timestamp=1000 + number * 10, options=options)

    assert await log.offset_for_timestamp(1017) == TimestampedOffset(17, 1017, 0)


async def test_an_empty_log_and_one_without_times_have_no_answer() -> None:
    """-1 means: the record has no time."""
    tested = LogUnderTest()
    log = await tested.open()
    assert await log.offset_for_timestamp(0) is None
    assert await log.offset_of_largest_timestamp() is None
    log.append([batch_at(0, timestamp=-1)], 0)
    assert await log.offset_for_timestamp(0) is None
    assert await log.offset_of_largest_timestamp() is None


class Meddling:
    """An offload whose work waits until something else has been done to the log."""

    def __init__(self, deed: Callable[[], Awaitable[object]]) -> None:
        self.deed: Callable[[], Awaitable[object]] | None = deed

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        deed, self.deed = self.deed, None
        if deed is not None:
            await deed()
        return function(*arguments)


class Guarded:
    """An offload in which alone the closed segments of a log can be read."""

    def __init__(self, faults: FaultPlan, fault: DiskFault) -> None:
        self.faults, self.fault = faults, fault
        self.count = 0
        faults.add(fault)

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        self.count += 1
        self.faults.clear()
        try:
            return function(*arguments)
        finally:
            self.faults.add(self.fault)


async def reopened(tested: LogUnderTest, count: int = 40) -> PartitionLog:
    """A log of many segments, loaded anew, a record at each millisecond of a thousand on."""
    log = await tested.open()
    for number in range(count):
        tested.append(log, 1, timestamp=1000 + number)
    await log.flush()
    tested.kill()
    return await tested.open(Known(log.recovery_point, 0))


@pytest.mark.parametrize("index", ["there", "gone"])
async def test_closed_segments_are_searched_by_a_worker(index: str) -> None:
    """A cold disk, or an index to be built from a gigabyte, would stop every connection."""
    tested = LogUnderTest(settings=SMALL)
    log = await reopened(tested)
    if index == "gone":
        for name in tested.names(".index")[:-1]:
            tested.content(name).clear()
    active = log.active.path
    sealed = DiskFault(frozenset({"pread", "open"}), errno.EIO, "0000.")
    guard = Guarded(tested.disk.faults, sealed)
    log.home.offload = guard
    assert "0000." not in active
    found = [await log.offset_for_timestamp(1000 + number) for number in (0, 3, 5)]

    assert found == [TimestampedOffset(number, 1000 + number, 0) for number in (0, 3, 5)]
    assert guard.count > 0
    assert log.home.health.is_online


@pytest.mark.parametrize("wanted", [1000, 1010])
async def test_segments_that_go_during_a_search_are_no_fault_of_the_disk(wanted: int) -> None:
    """Their files have other names by then; the answer is that of the log as it is now."""
    tested = LogUnderTest(settings=SMALL)
    log = await reopened(tested)
    log.home.offload = Meddling(lambda: log.delete_records_before(20))

    assert await log.offset_for_timestamp(wanted) == TimestampedOffset(20, 1020, 0)
    assert log.home.health.is_online


async def test_a_log_that_is_cut_during_a_search_does_not_promise_what_it_lost() -> None:
    """A follower cuts what its leader does not have, at any time."""
    tested = LogUnderTest(settings=SMALL)
    log = await reopened(tested)
    log.home.offload = Meddling(lambda: log.truncate_to(4))

    assert await log.offset_for_timestamp(1010) is None
    tested = LogUnderTest(settings=SMALL)
    log = await reopened(tested)
    log.home.offload = Meddling(lambda: log.truncate_fully_and_start_at(100))
    assert await log.offset_of_largest_timestamp() is None
    assert log.home.health.is_online


@pytest.mark.parametrize("wanted", [1000, 1010])
async def test_a_log_that_is_deleted_during_a_search_is_no_fault_of_the_disk(wanted: int) -> None:
    """Taken for one, it would take all logs of the directory offline with it."""
    broker = BrokerDisk()
    directory = (await broker.start()).directories[0]
    log = await directory.create(PARTITION, None)
    for number in range(40):
        log.append([batch_at(number, timestamp=1000 + number)], 0)
    log.home.offload = Meddling(lambda: directory.delete(PARTITION))

    with pytest.raises(KafkaError, match="is deleted"):
        await log.offset_for_timestamp(wanted)
    assert log.home.health.is_online


async def test_a_rebuilt_index_is_kept() -> None:
    """Or the next search would read the whole segment again."""
    tested = LogUnderTest(settings=SMALL)
    log = await reopened(tested)
    name = tested.names(".index")[0]
    content = bytes(tested.content(name))
    tested.content(name)[:] = bytes(3)
    found = await log.offset_for_timestamp(1002)

    assert found == TimestampedOffset(2, 1002, 0)
    assert bytes(tested.content(name)) == content
