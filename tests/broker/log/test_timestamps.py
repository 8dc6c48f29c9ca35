"""From a time to an offset: the first record at or after it, whatever the order of the times."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.log.loading import Known
from ottla.broker.log.settings import LogSettings
from ottla.broker.log.timestamps import TimestampedOffset
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import read_records
from tests.broker.log.bench import Bench, batch_at, read_all

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
    coroutine = _check_times(times, log_start, reopened)
    with pytest.raises(StopIteration):
        coroutine.send(None)


async def _check_times(times: list[int], log_start: int, reopened: bool) -> None:
    bench = Bench(settings=SMALL)
    log = await bench.open()
    for number, time in enumerate(times):
        bench.append(log, 1 + number % 3, timestamp=time)
    await log.delete_records_before(min(log_start, log.log_end_offset))
    if reopened:
        await log.flush()
        bench.kill()
        log = await bench.open(Known(log.recovery_point, log.log_start_offset))
    records = [
        (record.offset, record.timestamp)
        for _, _, content in read_all(log)
        for batch in iterate_batches(content)
        for record in read_records(batch, 1 << 20)
        if record.offset >= log.log_start_offset
    ]
    for wanted in range(-1, 66):
        expected = next((found for found in records if found[1] >= wanted), None)
        answer = log.offset_for_timestamp(wanted)
        assert (answer and answer[:2]) == expected
    largest = max((time for _, time in records), default=None)
    answer = log.offset_of_largest_timestamp()
    assert (answer and answer.timestamp) == largest
    assert answer is None or answer.offset == next(o for o, time in records if time == largest)


async def test_append_time_gives_all_records_of_a_batch_the_same_time() -> None:
    """The first offset of the batch answers, without decoding any record."""
    bench = Bench()
    log = await bench.open()
    batch = batch_at(0, 5, timestamp=10, options=BatchOptions(leader_epoch=4))
    batch.stamp_append_time(5000)
    log.append([batch], 0)

    assert log.offset_for_timestamp(4000) == TimestampedOffset(0, 5000, 4)
    assert log.offset_of_largest_timestamp() == TimestampedOffset(0, 5000, 4)
    assert log.offset_for_timestamp(5001) is None


@pytest.mark.parametrize("codec", list(Codec))
async def test_compressed_batches_answer_for_their_records(codec: Codec) -> None:
    """ListOffsets by time is one of the few places that look into records."""
    bench = Bench()
    log = await bench.open()
    for number in range(3):
        options = BatchOptions(codec=codec, leader_epoch=0)
        bench.append(log, 10, timestamp=1000 + number * 10, options=options)

    assert log.offset_for_timestamp(1017) == TimestampedOffset(17, 1017, 0)


async def test_an_empty_log_and_one_without_times_have_no_answer() -> None:
    """-1 means: the record has no time."""
    bench = Bench()
    log = await bench.open()
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_largest_timestamp() is None
    log.append([batch_at(0, timestamp=-1)], 0)
    assert log.offset_for_timestamp(0) is None
    assert log.offset_of_largest_timestamp() is None
