"""Appending: one write for each call, segments rolled in one place, nothing after a torn byte."""

from __future__ import annotations

import errno

import pytest

from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.log_under_test import DIRECTORY, START_MS, LogUnderTest, batch_at, read_all

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)
LOG_NAME = "00000000000000000000.log"


def fault(operation: str, error: int, part: str = "") -> DiskFault:
    return DiskFault(frozenset({operation}), error, part)


@pytest.mark.requirement("LOG-02", "LOG-03")
async def test_each_segment_is_three_files_named_by_its_first_offset() -> None:
    """Kafka's tools and our own start find data by these names alone."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for _ in range(10):
        tested.append(log, 3)

    bases = [segment.base_offset for segment in log.segments]
    assert bases[0] == 0
    assert len(bases) == 3
    for suffix in (".log", ".index", ".timeindex"):
        assert tested.names(suffix) == [f"{base:020d}{suffix}" for base in bases]
    first_batches = [read_all(log)[number * 4][0] for number in range(3)]
    assert bases == first_batches


@pytest.mark.requirement("LOG-31")
async def test_only_the_newest_segment_is_written_and_only_at_its_end() -> None:
    """A sealed segment never changes, so it may be sent, copied and cached without a thought."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    written: list[str] = []
    for _ in range(12):
        before = len(tested.disk.appends)
        active = log.active.path
        tested.append(log, 3)
        data = [path for path, _ in tested.disk.appends[before:] if path.endswith(".log")]
        assert data == [log.active.path]
        written += data
        assert active <= log.active.path
    assert written == sorted(written)
    assert (
        sum(size for path, size in tested.disk.appends if path.endswith(".log")) == log.size_bytes
    )


@pytest.mark.requirement("LOG-05")
async def test_a_segment_that_would_exceed_its_size_is_rolled() -> None:
    """segment.bytes bounds every segment that holds more than one append."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    size = tested.append(log, 3).size_bytes
    while len(log.segments) == 1:
        tested.append(log, 3)

    assert log.segments[0].size_bytes == 600 // size * size
    tested.append(log, 1, value=b"x" * 5000)
    assert log.active.size_bytes > 5000
    tested.append(log, 1)
    assert [segment.size_bytes > 600 for segment in log.segments][-2:] == [True, False]


async def test_a_segment_is_rolled_by_record_time() -> None:
    """Kafka rolls when a record is segment.ms later than the segment's first."""
    tested = LogUnderTest(settings=LogSettings(segment_ms=1000))
    log = await tested.open()
    tested.append(log, timestamp=START_MS)
    tested.append(log, timestamp=START_MS + 1000)
    assert len(log.segments) == 1
    tested.append(log, timestamp=START_MS + 1001)
    assert len(log.segments) == 2


async def test_records_without_time_are_rolled_by_the_clock() -> None:
    """There is nothing else to go by."""
    tested = LogUnderTest(settings=LogSettings(segment_ms=1000))
    log = await tested.open()
    tested.append(log, timestamp=-1)
    tested.clock.time_ms += 1000
    tested.append(log, timestamp=-1)
    assert len(log.segments) == 1
    tested.clock.time_ms += 1
    tested.append(log, timestamp=-1)
    assert len(log.segments) == 2


async def test_jitter_rolls_a_segment_earlier() -> None:
    """A thousand partitions made at once must not all roll in the same moment."""
    tested = LogUnderTest(settings=LogSettings(segment_ms=1000, segment_jitter_ms=900))
    log = await tested.open()
    jitter = log.active.jitter_ms
    assert 0 < jitter < 900
    tested.append(log, timestamp=START_MS)
    tested.append(log, timestamp=START_MS + 1000 - jitter)
    assert len(log.segments) == 1
    tested.append(log, timestamp=START_MS + 1001 - jitter)
    assert len(log.segments) == 2


async def test_a_full_index_rolls_the_segment() -> None:
    """segment.index.bytes bounds what must be in memory."""
    tested = LogUnderTest(settings=LogSettings(index_interval_bytes=1, segment_index_bytes=36))
    log = await tested.open()
    for _ in range(10):
        tested.append(log)

    assert [len(segment.indexes.offsets_or_raise) for segment in log.segments] == [3, 3, 1]


async def test_an_offset_out_of_four_bytes_reach_rolls_the_segment() -> None:
    """S-14: index entries hold the distance from the base offset in an int32."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log)
    log.append([batch_at(2**31 - 1)], 0)
    assert len(log.segments) == 1
    log.append([batch_at(2**31)], 0)
    log.append([batch_at(2**33)], 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**31, 2**33]


async def test_an_empty_segment_is_not_rolled_unless_it_cannot_reach_the_offset() -> None:
    """S-16: rolling it would make a segment of the same name."""
    tested = LogUnderTest(settings=LogSettings(segment_ms=0, segment_bytes=1))
    log = await tested.open()
    log.append([batch_at(0)], 1e9)
    assert len(log.segments) == 1

    far = LogUnderTest()
    log = await far.open()
    log.append([batch_at(2**40)], 0)
    assert [segment.base_offset for segment in log.segments] == [0, 2**40]
    far.kill()
    log = await far.open()
    assert [segment.base_offset for segment in log.segments] == [0, 2**40]
    assert read_all(log)[0][0] == 2**40


async def test_several_batches_are_one_write_into_one_segment() -> None:
    """A follower's fetch brings many; a snapshot between them would be of a wrong moment."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    tested.append(log, 3)
    batches = [batch_at(3 + number) for number in range(20)]
    before = len(tested.disk.appends)
    log.append(batches, 0)

    data = [path for path, _ in tested.disk.appends[before:] if path.endswith(".log")]
    assert data == [f"{DIRECTORY}/00000000000000000003.log"]
    assert log.log_end_offset == 23
    assert len(read_all(log)) == 21


async def test_offsets_must_ascend_from_the_end() -> None:
    """A leader's answer may hold what a follower has already; nothing of it is written."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 5)
    for batches in ([batch_at(4)], [batch_at(5), batch_at(5)], [batch_at(7, 2), batch_at(8)]):
        with pytest.raises(KafkaError) as caught:
            log.append(batches, 0)
        assert caught.value.code == ErrorCode.INVALID_RECORD
    log.append([batch_at(9)], 0)

    assert [(first, last) for first, last, _ in read_all(log)] == [(0, 4), (9, 9)]


@pytest.mark.requirement("LOG-10")
async def test_an_append_is_in_the_page_cache_when_it_returns() -> None:
    """A killed process loses nothing: no buffer of ours holds acknowledged bytes."""
    tested = LogUnderTest()
    log = await tested.open()
    expected = b"".join(bytes(tested.append(log, 3).view) for _ in range(5))

    tested.kill()

    assert bytes(tested.content(LOG_NAME)) == expected
    assert len(read_all(await tested.open())) == 5


async def test_a_full_disk_leaves_no_half_batch_and_may_recover() -> None:
    """S-11: the torn bytes go before anything else may be written."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    size = log.active.size_bytes
    tested.disk.faults.add(fault("append", errno.ENOSPC, ".log"))
    with pytest.raises(KafkaError) as caught:
        tested.append(log, 3)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert len(tested.content(LOG_NAME)) == size
    assert tested.home.health.failure is None
    assert tested.home.health.is_low_on_space

    tested.disk.faults.clear()
    tested.append(log, 3)
    assert [first for first, _, _ in read_all(log)] == [0, 3]


@pytest.mark.parametrize("error", [errno.EIO, errno.EROFS])
async def test_any_other_write_error_is_final(error: int) -> None:
    """R-29: an append after torn bytes would be acknowledged and unreadable."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    tested.disk.faults.add(fault("append", error, ".log")._replace(times=1))
    with pytest.raises(KafkaError):
        tested.append(log, 3)
    changes = tested.disk.changes

    with pytest.raises(KafkaError) as caught:
        tested.append(log, 3)

    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR
    assert tested.disk.changes == changes
    assert tested.home.health.failure is not None
    assert log.log_end_offset == 3


async def test_a_full_disk_that_cannot_be_cut_back_is_final() -> None:
    """S-11, R-29: with torn bytes at the end nothing may follow."""
    tested = LogUnderTest()
    log = await tested.open()
    tested.append(log, 3)
    tested.disk.faults.add(fault("append", errno.ENOSPC, ".log"))
    tested.disk.faults.add(fault("truncate", errno.EIO, ".log"))
    with pytest.raises(KafkaError):
        tested.append(log, 3)
    with pytest.raises(KafkaError, match="offline"):
        tested.home.health.ensure_online()


@pytest.mark.parametrize("name", [".log", ".index", ".timeindex", ".snapshot"])
async def test_a_roll_without_space_changes_nothing(name: str) -> None:
    """Rolling creates files; a full disk fails that too, and passes."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    while log.active.size_bytes < 500:
        tested.append(log, 3)
    tested.disk.faults.add(fault("create", errno.ENOSPC, name))
    if name == ".snapshot":
        # Only a cache: the roll goes on without it.
        tested.append(log, 3)
        assert len(log.segments) == 2
        return
    with pytest.raises(KafkaError):
        tested.append(log, 3)
    assert [segment.base_offset for segment in log.segments] == [0]

    tested.disk.faults.clear()
    tested.append(log, 3)
    assert [segment.base_offset for segment in log.segments] == [0, 12]
    assert len(read_all(log)) == 5


async def test_a_closed_log_refuses_appends() -> None:
    """S-15: what is written behind the clean mark would not be looked at again."""
    tested = LogUnderTest()
    log = await tested.open()
    await log.close()

    with pytest.raises(KafkaError, match="closed"):
        tested.append(log)


@pytest.mark.requirement("LOG-36")
async def test_appending_and_reading_never_look_at_records() -> None:
    """Records may be anything, compressed by whatever: the broker moves batches."""
    tested = LogUnderTest()
    log = await tested.open()
    batch = batch_at(0, 3)
    batch.buffer[batch.position + 61 : batch.position + batch.size_bytes] = b"\xff" * (
        batch.size_bytes - 61
    )
    log.append([batch], 0)

    assert read_all(log) == [(0, 2, bytes(batch.view))]
