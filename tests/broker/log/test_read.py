"""Reading by logical offset: whole batches, within limits, whatever the indexes say."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.segment import STARTS_MAX, STARTS_MIN
from ottla.broker.log.storage.settings import LogSettings
from ottla.protocol.errors import CorruptLogError, ErrorCode, KafkaError
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records
from tests.broker.log.log_under_test import LogUnderTest, batch_at, read_all

if TYPE_CHECKING:
    from ottla.broker.log.partition_log import PartitionLog

SMALL = LogSettings(segment_bytes=2000, index_interval_bytes=200)


def ranges(log: PartitionLog, offset: int, max_bytes: int, upper: int) -> list[tuple[int, int]]:
    read = log.read(offset, max_bytes, upper, at_least_one=False)
    content = b"" if read.region is None else read.region.read()
    return [(batch.base_offset, batch.last_offset) for batch in iterate_batches(content)]


async def filled(tested: LogUnderTest, count: int = 60) -> PartitionLog:
    log = await tested.open()
    for number in range(count):
        tested.append(log, 1 + number % 4, value=b"v" * (number * 7 % 50))
    return log


@pytest.mark.requirement("LOG-12", "LOG-14")
async def test_a_read_starts_at_the_batch_that_holds_the_offset() -> None:
    """Two steps: the segment by bisection in memory, then the place within it."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    batches = read_all(log)
    assert len(log.segments) > 3

    for first, last, content in batches:
        for offset in range(first, last + 1):
            read = log.read(offset, len(content), log.log_end_offset, at_least_one=True)
            assert read.region is not None
            assert read.region.read() == content
            assert read.next_offset == last + 1


@pytest.mark.requirement("LOG-12")
async def test_a_read_yields_whole_messages_within_its_byte_budget() -> None:
    """The buffer holds complete messages from the asked offset on, and none is torn."""
    tested = LogUnderTest()
    log = await filled(tested)
    read = log.read(30, 700, log.log_end_offset, at_least_one=False)
    assert read.region is not None
    assert read.region.size_bytes <= 700
    offsets = [
        record.offset
        for batch in iterate_batches(read.region.read())
        for record in read_records(batch, 1 << 20)
        if record.offset >= 30
    ]
    assert offsets == list(range(30, read.next_offset))
    assert len(offsets) > 3


@pytest.mark.requirement("LOG-13")
async def test_an_oversized_message_is_found_by_doubling_the_buffer() -> None:
    """A budget too small for the batch returns nothing, so that the reader can tell."""
    tested = LogUnderTest()
    log = await tested.open()
    size = tested.append(log, value=b"x" * 5000).size_bytes
    budget, tries = size // 5, 0
    while log.read(0, budget, log.log_end_offset, at_least_one=False).region is None:
        budget, tries = budget * 2, tries + 1

    assert tries == 3
    assert ranges(log, 0, budget, 1) == [(0, 0)]


async def test_one_batch_is_returned_whatever_its_size_when_asked() -> None:
    """KIP-74, N-12: a consumer must not get stuck before a large batch."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, value=b"x" * 5000)
    tested.append(log)
    read = log.read(0, 10, log.log_end_offset, at_least_one=True)
    assert read.region is not None
    assert read.region.size_bytes > 5000
    assert read.next_offset == 1


@pytest.mark.requirement("LOG-16")
async def test_offsets_outside_the_log_are_out_of_range() -> None:
    """The reader must hear of it; returning nothing would look like an idle topic."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.delete_records_before(50)
    for offset in (0, 49, log.log_end_offset + 1):
        with pytest.raises(KafkaError) as caught:
            log.read(offset, 1000, log.log_end_offset, at_least_one=True)
        assert caught.value.code == ErrorCode.OFFSET_OUT_OF_RANGE
    assert log.read(50, 1000, log.log_end_offset, at_least_one=True).region is not None


@pytest.mark.requirement("LOG-15")
async def test_reading_at_the_end_returns_only_what_comes_later() -> None:
    """A subscriber that starts now gets what is appended after it."""
    tested = LogUnderTest()
    log = await filled(tested)
    end = log.log_end_offset
    assert log.read(end, 1000, end, at_least_one=True).region is None
    tested.append(log, 2)
    assert ranges(log, end, 1000, log.log_end_offset) == [(end, end + 1)]


@pytest.mark.parametrize("reopened", [False, True])
async def test_no_read_goes_beyond_its_upper_bound(reopened: bool) -> None:
    """R-26: beyond the high watermark lies what may still be truncated."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    batches = read_all(log)
    if reopened:
        await log.flush()
        tested.kill()
        log = await tested.open()
    for _, last, _ in batches:
        bound = last + 1
        for start in {0, bound // 2, max(0, bound - 1)}:
            got = ranges(log, start, 1 << 20, bound)
            assert got
            assert got[-1][1] < bound
            assert all(first < bound for first, _ in got)
        assert log.read(bound, 1000, bound, at_least_one=True).region is None
        assert sorted(got) == got


async def test_offsets_that_compaction_removed_are_passed_over() -> None:
    """The next batch there is answers for them, in a later segment if need be."""
    tested = LogUnderTest(settings=LogSettings(segment_bytes=1))
    log = await tested.open()
    for offset in (0, 10, 20):
        log.append([batch_at(offset)], 0)
    assert ranges(log, 1, 1000, 21) == [(10, 10)]
    assert ranges(log, 11, 1000, 21) == [(20, 20)]
    assert ranges(log, 11, 1000, 20) == []
    assert log.read(11, 1000, 20, at_least_one=True).next_offset == 11


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(0, 300), min_size=1, max_size=40),
    start=st.integers(0, 10**6),
    budget=st.integers(0, 3000),
    bound=st.integers(0, 10**6),
)
def test_every_read_is_the_longest_cheap_prefix_of_what_is_there(
    sizes: list[int], start: int, budget: int, bound: int
) -> None:
    """Whatever the limits: whole batches, contiguous, from the right one on, within bounds."""
    coroutine = _check_read(sizes, start, budget, bound)
    with pytest.raises(StopIteration):
        coroutine.send(None)


async def _check_read(sizes: list[int], start: int, budget: int, bound: int) -> None:
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for size in sizes:
        tested.append(log, 1 + size % 3, value=b"v" * size)
    batches = read_all(log)
    start, bound = start % (log.log_end_offset + 1), bound % (log.log_end_offset + 1)
    bound = next((first for first, _, _ in batches if first >= bound), log.log_end_offset)
    expected = [batch for batch in batches if batch[1] >= start and batch[1] < bound]
    read = log.read(start, budget, bound, at_least_one=False)
    content = b"" if read.region is None else read.region.read()
    got = [(b.base_offset, b.last_offset, bytes(b.view)) for b in iterate_batches(content)]

    assert got == expected[: len(got)]
    assert len(content) <= budget
    if expected and len(expected[0][2]) <= budget:
        assert got
        assert got[-1][1] < read.next_offset <= bound
    else:
        assert read.next_offset == start


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("spoil", ["missing", "empty", "zeros", "shifted", "torn", "swapped"])
async def test_a_spoiled_index_gives_the_same_answers(suffix: str, spoil: str) -> None:
    """S-04: indexes are caches; what they lead to is looked at before it is believed."""
    tested = LogUnderTest(settings=LogSettings(segment_bytes=4000, index_interval_bytes=100))
    log = await filled(tested, 120)
    expected = read_all(log)
    times = [await log.offset_for_timestamp(1_700_000_000_000 + ms) for ms in range(5)]
    await log.flush()
    for name in tested.names(suffix)[:-1]:
        content = tested.content(name)
        if spoil == "missing":
            await tested.disk.unlink(f"/data/orders-0/{name}")
        elif spoil == "empty":
            content.clear()
        elif spoil == "zeros":
            content[:] = bytes(len(content))
        elif spoil == "shifted":
            # Every entry stays plausible, and each is wrong.
            for position in range(3, len(content), 4):
                content[position] ^= 1
        elif spoil == "torn":
            del content[-3:]
        else:
            half = len(content) // 24 * 12 // 8 * 8
            content[:] = content[half:] + content[:half]
    tested.kill()
    log = await tested.open(known_flushed(log))

    assert read_all(log) == expected
    assert read_all(log, 500) == expected
    for first, last, content_bytes in expected[::7]:
        read = log.read(last, 1, log.log_end_offset, at_least_one=True)
        assert read.region is not None
        assert (read.region.read(), first) == (content_bytes, first)
    assert [await log.offset_for_timestamp(1_700_000_000_000 + ms) for ms in range(5)] == times


def known_flushed(log: PartitionLog) -> Known:
    return Known(recovery_point=log.recovery_point)


async def test_a_data_file_that_makes_no_sense_is_reported() -> None:
    """The partition goes offline; guessing would serve garbage."""
    tested = LogUnderTest()
    log = await filled(tested)
    log.active.starts.clear()
    tested.content("00000000000000000000.log")[:200] = bytes(200)

    with pytest.raises(CorruptLogError, match=r"00000000000000000000\.log"):
        log.read(1, 1000, log.log_end_offset, at_least_one=True)


async def test_a_segment_remembers_the_latest_batch_starts_and_few() -> None:
    """Readers near the end need no walk, and thousands of idle partitions no memory for it."""
    tested = LogUnderTest()
    log = await filled(tested, 300)
    starts = dict(log.active.starts)
    lasts = [last + 1 for _first, last, _content in read_all(log)]

    assert STARTS_MIN <= len(starts) <= STARTS_MAX
    assert set(starts) >= set(lasts[-STARTS_MIN:])
