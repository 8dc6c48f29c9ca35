"""Old data leaves by whole segments, oldest first, and deleted records stay deleted."""

from __future__ import annotations

import errno
from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from ottla.broker.testing.faulty_disk import DiskFault
from ottla.protocol.errors import ErrorCode, KafkaError
from tests.broker.log.log_under_test import START_MS, LogUnderTest, read_all

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.log.segment_view import SegmentView

SMALL = LogSettings(segment_bytes=600, index_interval_bytes=100)


async def filled(tested: LogUnderTest, count: int = 20) -> PartitionLog:
    log = await tested.open()
    for number in range(count):
        tested.append(log, 3, timestamp=START_MS + number * 1000)
    return log


def older_than(limit: int) -> Callable[[Sequence[SegmentView]], int]:
    def policy(segments: Sequence[SegmentView]) -> int:
        count = 0
        for segment in segments:
            if segment.max_timestamp >= limit:
                break
            count += 1
        return count

    return policy


def larger_than(limit_bytes: int) -> Callable[[Sequence[SegmentView]], int]:
    def policy(segments: Sequence[SegmentView]) -> int:
        excess = sum(segment.size_bytes for segment in segments) - limit_bytes
        count = 0
        for segment in segments:
            if excess < segment.size_bytes:
                break
            excess -= segment.size_bytes
            count += 1
        return count

    return policy


@pytest.mark.requirement("LOG-17", "LOG-23")
async def test_a_policy_chooses_and_whole_segments_go_oldest_first() -> None:
    """No file is ever rewritten, and the policy is whatever callable was handed in."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    contents = {name: bytes(tested.content(name)) for name in tested.names(".log")}
    seen: list[list[int]] = []

    def policy(segments: Sequence[SegmentView]) -> int:
        seen.append([segment.base_offset for segment in segments])
        return 2

    assert await log.delete_old_segments(policy, log.log_end_offset) == 2
    assert seen == [[0, 12, 24, 36, 48]]
    assert [segment.base_offset for segment in log.segments] == [24, 36, 48]
    assert log.log_start_offset == 24
    assert tested.names(".log") == list(contents)[2:]
    assert all(bytes(tested.content(name)) == contents[name] for name in tested.names(".log"))
    assert not [name for name in tested.names("index") if name < f"{24:020d}"]


@pytest.mark.requirement("LOG-19")
async def test_time_is_judged_by_the_largest_record_timestamp() -> None:
    """One old record among new ones does not condemn a segment, whatever the order."""
    tested = LogUnderTest(settings=SMALL)
    log = await tested.open()
    for number in range(12):
        tested.append(log, 3, timestamp=START_MS + (5000 if number == 2 else number))

    views = log.segment_views()
    assert views[0].max_timestamp == START_MS + 5002
    assert await log.delete_old_segments(older_than(START_MS + 5000), 36) == 0
    assert await log.delete_old_segments(older_than(START_MS + 5003), 36) == 3


@pytest.mark.requirement("LOG-21", "LOG-22")
async def test_size_and_time_policies_may_both_delete() -> None:
    """Either one is enough, and no limit deletes nothing."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    assert await log.delete_old_segments(lambda segments: 0, 60) == 0
    assert await log.delete_old_segments(larger_than(4 * 580), 60) == 1
    by_time, by_size = older_than(START_MS + 8000), larger_than(10**9)
    assert await log.delete_old_segments(lambda s: max(by_time(s), by_size(s)), 60) == 1
    assert log.log_start_offset == 24


async def test_nothing_at_or_beyond_the_bound_goes() -> None:
    """What is not on all replicas yet may be the only copy."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    assert await log.delete_old_segments(len, 30) == 2
    assert log.log_start_offset == 24


async def test_when_everything_goes_the_log_goes_on_in_a_new_segment() -> None:
    """The offsets must not start again at zero."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    assert await log.delete_old_segments(len, 60) == 5
    assert (log.log_start_offset, log.log_end_offset) == (60, 60)
    assert await log.delete_old_segments(len, 60) == 0
    tested.append(log, 3)
    assert read_all(log)[0][:2] == (60, 62)
    tested.kill()
    assert (await tested.open()).log_start_offset == 60


@pytest.mark.requirement("LOG-24")
async def test_a_reader_with_an_old_list_of_segments_goes_on() -> None:
    """The list is replaced, never changed, and the files stay readable by those who hold them."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    segments = log.segments
    read = log.read(0, 1 << 20, 60, at_least_one=True)
    assert read.region is not None
    expected = read.region.read()

    await log.delete_old_segments(lambda segments: 3, 60)
    await tested.home.late_deletions.delete_due(tested.clock.now_ms() + 10**6)

    assert [segment.base_offset for segment in segments] == [0, 12, 24, 36, 48]
    assert read.region.read() == expected


async def test_files_are_removed_after_the_delete_delay() -> None:
    """file.delete.delay.ms: a reader may be about to open them by name."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    await log.delete_old_segments(lambda segments: 1, 60)
    deleted = tested.names(".deleted")
    assert len(deleted) == 3
    assert await tested.home.late_deletions.delete_due(tested.clock.now_ms() + 59_999) == 0
    assert tested.names(".deleted") == deleted
    assert await tested.home.late_deletions.delete_due(tested.clock.now_ms() + 60_000) == 3
    assert tested.names(".deleted") == []


@pytest.mark.requirement("LOG-18")
@pytest.mark.parametrize("suffix", [".log", ".index", ".timeindex"])
async def test_a_file_that_cannot_be_deleted_is_a_storage_error_naming_it(suffix: str) -> None:
    """KafkaStorageException with the path: the operator must know where to look."""
    name = "00000000000000000000" + suffix
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    tested.disk.faults.add(DiskFault(frozenset({"rename"}), errno.EPERM, name))
    with pytest.raises(KafkaError, match=name.replace(".", r"\.")) as caught:
        await log.delete_old_segments(lambda segments: 1, 60)
    assert caught.value.code == ErrorCode.KAFKA_STORAGE_ERROR

    other = LogUnderTest(settings=SMALL)
    log = await filled(other)
    await log.delete_old_segments(lambda segments: 1, 60)
    other.disk.faults.add(DiskFault(frozenset({"unlink"}), errno.EIO, name))
    with pytest.raises(KafkaError, match=name.replace(".", r"\.")):
        await other.home.late_deletions.delete_due(10**9)


async def test_deleted_records_stay_deleted_after_a_crash() -> None:
    """S-19: the new log start is on the disk before the caller is told."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    saved: list[int] = []

    async def save() -> None:
        saved.append(log.log_start_offset)

    tested.home.save_log_starts = save
    assert await log.delete_records_before(40) == 40
    assert saved == [40]
    assert [segment.base_offset for segment in log.segments] == [36, 48]
    assert tested.observer.calls[-1] == "log_start_moved 40"
    assert await log.delete_records_before(20) == 40
    tested.kill()
    again = await tested.open(Known(None, 40))
    assert again.log_start_offset == 40


async def test_deleting_beyond_the_end_deletes_up_to_the_end() -> None:
    """R-26: the log start never passes the log end."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    assert await log.delete_records_before(1000) == 60
    assert log.read(60, 100, 60, at_least_one=True).region is None


async def test_a_log_that_lost_its_end_goes_on_at_its_start() -> None:
    """Log start 50 with data up to 36 left: offsets before 50 must not be given out again."""
    tested = LogUnderTest(settings=SMALL)
    await filled(tested)
    for name in tested.names(".log")[3:]:
        await tested.disk.unlink(f"/data/orders-0/{name}")
    tested.kill()
    log = await tested.open(Known(0, 50))
    assert (log.log_start_offset, log.log_end_offset) == (50, 50)
    tested.append(log, 1)
    tested.kill()
    assert (await tested.open(Known(0, 50))).log_end_offset == 51


async def test_a_log_start_that_could_not_be_saved_is_saved_by_the_next_call() -> None:
    """S-19: the second DeleteRecords must not answer for the first one's failure."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    attempts: list[int] = []

    async def save() -> None:
        attempts.append(log.log_start_offset)
        if len(attempts) == 1:
            raise tested.home.health.judge("cannot write", OSError(errno.ENOSPC, "full"))

    tested.home.save_log_starts = save
    with pytest.raises(KafkaError):
        await log.delete_records_before(40)
    assert await log.delete_records_before(40) == 40
    assert attempts == [40, 40]
    await log.delete_records_before(40)
    assert attempts == [40, 40]
    await log.delete_old_segments(lambda segments: 1, 60)
    await log.delete_records_before(41)
    assert attempts == [40, 40, 48]


async def test_deletion_waits_for_descriptors() -> None:
    """S-30: that none is left says nothing of the disk."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)
    tested.disk.faults.add(DiskFault(frozenset({"fsync_directory"}), errno.EMFILE, times=3))
    assert await log.delete_records_before(40) == 40

    assert log.home.health.is_online
    assert log.segments[0].base_offset > 0
    assert len(tested.names(".log")) == len(log.segments)


async def test_a_full_disk_does_not_stop_deletion() -> None:
    """S-11: nothing is needed more at that moment."""
    tested = LogUnderTest(settings=SMALL)
    log = await filled(tested)

    async def save() -> None:
        raise tested.home.health.judge("cannot write", OSError(errno.ENOSPC, "full"))

    tested.home.save_log_starts = save
    assert await log.delete_old_segments(lambda segments: 2, 60) == 2
    assert [segment.base_offset for segment in log.segments] == [24, 36, 48]


async def test_retention_looks_at_the_ends_of_index_files_only() -> None:
    """P-06: a thousand segments are asked for their age every few minutes."""
    tested = LogUnderTest(settings=LogSettings(segment_bytes=5000, index_interval_bytes=1))
    log = await filled(tested, 200)
    await log.flush()
    expected = [view.max_timestamp for view in log.segment_views()]
    tested.kill()
    log = await tested.open(Known(log.recovery_point))

    assert [view.max_timestamp for view in log.segment_views()] == expected
    assert all(segment.indexes.offsets is None for segment in log.segments[:-1])
