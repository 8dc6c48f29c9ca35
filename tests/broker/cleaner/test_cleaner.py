"""Compaction of one partition as its readers see it."""

from __future__ import annotations

import pytest

from ottla.broker.cleaner.candidates import plan_run, survey_partition
from ottla.broker.cleaner.cleaner_run import CleanedGroup, clean_log
from ottla.broker.log.clean_swap import Sources, swap_segments
from ottla.broker.replica.producer import AppendAction
from ottla.protocol.records.batch import check_crc, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from tests.broker.support.clean_room import CleanRoom, latest

DAY_MS = 86_400_000


async def room(**configs: str) -> CleanRoom:
    made = CleanRoom(None, **configs)
    await made.open()
    return made


async def timed_room() -> tuple[CleanRoom, list[int]]:
    """One with a hundred records of thirty keys, a second apart, and their times."""
    one = await room(segment_bytes="1000", index_interval_bytes="100")
    times = []
    for number in range(100):
        one.clock.time_ms += 1000
        times.append(one.clock.wall_ms())
        one.write((b"k%d" % (number % 30), b"v"))
    return one, times


@pytest.mark.requirement("LOG-34")
async def test_the_latest_value_of_each_key_stays_at_its_offset() -> None:
    """Offsets never change, and what was sealed no longer holds older values."""
    one = await room()
    for number in range(10):
        one.write((b"a", b"%d" % number), (b"b", b"%d" % number), (b"c%d" % number, b"x"))
    before = latest(one.records())

    assert await one.seal_and_clean()

    assert latest(one.records()) == before
    assert len(one.records()) == 12
    assert one.cleaning.status().runs == 1
    assert one.log.cleaned_offset == 30


@pytest.mark.requirement("GRP-06")
async def test_ten_thousand_commits_of_one_key_leave_one_record() -> None:
    """The offsets topic of a busy group would otherwise grow for ever (hazard S-25)."""
    one = await room(segment_bytes="50000")
    for number in range(10_000):
        one.write((b"group topic 0", b"%d" % number))

    assert await one.seal_and_clean()

    assert one.values() == [(9_999, b"group topic 0", b"9999")]
    assert one.log.size_bytes < 2000


async def test_what_is_not_sealed_or_not_committed_is_not_touched() -> None:
    """S-21: a value that may still be truncated must not replace one that is committed."""
    one = await room()
    one.write((b"a", b"1"))
    one.roll()
    one.write((b"a", b"2"))
    one.roll()
    one.write((b"a", b"3"))
    one.replica.high_watermark = 1

    await one.clean()

    assert [value for _, _, value in one.values()] == [b"1", b"2", b"3"]
    one.replica.high_watermark = 3
    await one.clean()
    assert [value for _, _, value in one.values()] == [b"2", b"3"]


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.requirement("FMT-32", "FMT-34")
async def test_a_batch_that_loses_records_keeps_offsets_sequence_and_codec(codec: Codec) -> None:
    """Consumers and deduplication count on them; the checksum is right again."""
    one = await room()
    options = BatchOptions(codec=codec)
    old = one.write((b"a", b"1"), (b"b", b"2"), (b"c", b"3"), producer_id=7, options=options)
    one.write((b"a", b"new"))

    await one.seal_and_clean()

    batch = one.batches()[0]
    assert check_crc(batch)
    assert (batch.base_offset, batch.last_offset_delta) == (0, 2)
    assert (batch.base_sequence, batch.last_sequence, batch.producer_id) == (0, 2, 7)
    assert batch.codec is codec
    assert batch.base_timestamp == old.base_timestamp + 1
    assert [(record.offset, record.timestamp) for record in one.records()][:2] == [
        (1, old.base_timestamp + 1),
        (2, old.base_timestamp + 2),
    ]


@pytest.mark.requirement("FMT-33")
async def test_a_producers_last_batch_stays_as_an_empty_one_and_its_retry_is_known() -> None:
    """S-24: after a rebuild from the log the retry would be appended a second time."""
    one = await room()
    one.write((b"a", b"1"), producer_id=7)
    last = bytes(one.write((b"a", b"2"), (b"a", b"3"), producer_id=7).view)
    one.write((b"a", b"4"))
    await one.seal_and_clean()
    for offset in list(one.log.snapshot_offsets):
        await one.disk.unlink(one.log.snapshot_path(offset))
    one.disk = one.disk.killed()
    await one.open()

    verdict = one.history.producers.judge(parse_batch(bytearray(last)))

    assert verdict.action is AppendAction.DUPLICATE
    assert (verdict.base_offset, verdict.last_offset) == (1, 2)
    assert [batch.record_count for batch in one.batches()] == [0, 0, 1]


async def test_a_producer_that_was_forgotten_leaves_nothing_behind() -> None:
    """Empty batches of producers that are long gone would pile up."""
    one = await room()
    one.write((b"a", b"1"), producer_id=7)
    one.write((b"a", b"2"))
    one.history.producers.expire(0, 1)
    one.history.producers.expire(10, 1)

    await one.seal_and_clean()

    assert [batch.base_offset for batch in one.batches()] == [1]


async def test_records_without_a_key_go() -> None:
    """As in Kafka: they can only stem from a time when the topic was not compacted."""
    one = await room()
    one.write((None, b"x"), (b"a", b"1"))

    await one.seal_and_clean()

    assert one.values() == [(1, b"a", b"1")]


async def test_small_neighbours_become_one_segment() -> None:
    """Otherwise a topic of few keys would end as thousands of files."""
    one = await room(segment_bytes="2000")
    for number in range(200):
        one.write((b"k%d" % (number % 5), b"v" * 100))
    one.roll()
    many = len(one.log.segments)

    for _ in range(4):
        await one.clean()
        one.write((b"x", b"y"))
        one.roll()

    assert len(one.log.segments) < many / 3
    assert len(one.records()) < 12
    assert one.log.segments[0].base_offset == 0


async def test_a_full_map_cleans_as_far_as_it_reaches_and_goes_on_there() -> None:
    """More different keys than memory: each run makes progress, and the last is the same."""
    one = await room()
    one.settings = one.settings._replace(dedupe_buffer_size=20_000, io_buffer_load_factor=1.0)
    for _ in range(2):
        for number in range(500):
            one.write((b"key-%d" % number, b"v"))
    one.roll()
    ends = []
    for _ in range(20):
        await one.clean()
        ends.append(one.log.cleaned_offset)

    assert ends[0] < 500
    assert ends == sorted(ends)
    assert ends[-1] == 1000
    assert len(one.records()) == 500
    assert latest(one.records())[b"key-0"] == (500, b"v")


async def test_a_reader_is_not_disturbed_by_a_swap() -> None:
    """S-20: a reply that is on its way keeps the bytes that it promised."""
    one = await room()
    for number in range(50):
        one.write((b"a", b"%d" % number))
    read = one.log.read(0, 1 << 20, 50, at_least_one=True)
    assert read.region is not None
    expected = read.region.read()

    await one.seal_and_clean()

    assert read.region.read() == expected


async def test_times_are_found_in_cleaned_segments() -> None:
    """The time index belongs to what is there now."""
    one, times = await timed_room()
    await one.seal_and_clean()

    for offset in range(70, 100):
        found = await one.log.offset_for_timestamp(times[offset])
        assert found is not None
        assert (found.offset, found.timestamp) == (offset, times[offset])
    found = await one.log.offset_for_timestamp(times[3])
    assert found is not None
    assert found.offset == 70


async def test_a_log_that_was_cleaned_without_result_keeps_its_files() -> None:
    """Writing a terabyte again for nothing would wear out the disk."""
    one = await room()
    for number in range(20):
        one.write((b"k%d" % number, b"v"))
    one.roll()
    segment = one.log.segments[0]

    assert await one.clean()

    assert one.log.segments[0] is segment
    assert one.log.cleaned_offset == 20
    assert not [name for name in await one.disk.scan(one.log.directory) if "cleaned" in name]


@pytest.mark.parametrize(("position", "problem"), [(70, "cannot be there"), (138, "checksum")])
async def test_a_spoiled_batch_sets_the_log_apart_with_its_reason(
    position: int, problem: str
) -> None:
    """S-25: nothing of it is made valid by a new checksum, and nothing stops."""
    one = await room()
    one.write((b"a", b"1"))
    one.write((b"a", b"2"))
    one.roll()
    await one.log.flush()
    one.disk.files.file(one.log.segments[0].path).data[position] ^= 1

    assert not await one.cleaning.clean_dirtiest()

    status = one.cleaning.status()
    assert status.failures == 1
    assert problem in status.uncleanable[one.one.partition]
    assert not await one.cleaning.clean_dirtiest()
    assert one.cleaning.status().failures == 1
    assert one.log.home.health.is_online


async def test_a_full_disk_ends_a_run_and_leaves_nothing_behind() -> None:
    """It may have room again later; until then what was written is only in the way."""
    one = await room(segment_bytes="20000")
    for number in range(200):
        one.write((b"k%d" % number, b"v" * 100))
    one.write((b"k0", b""))
    one.roll()
    one.disk.files.capacity_bytes = one.disk.files.used_bytes() + 5000

    assert not await one.cleaning.clean_dirtiest()

    assert one.log.home.health.is_online
    assert not [name for name in await one.disk.scan(one.log.directory) if "cleaned" in name]
    assert not one.cleaning.status().uncleanable
    assert len(one.records()) == 201


async def test_the_settings_of_the_topic_hold_back_and_force() -> None:
    """The minimal lag keeps young records whole; the maximal one wins over the ratio."""
    one = await room(
        min_compaction_lag_ms="60000",
        max_compaction_lag_ms="600000",
        min_cleanable_dirty_ratio="1.0",
    )
    one.write((b"a", b"1"))
    one.write((b"a", b"2"))
    one.roll()

    assert not await one.clean()
    one.clock.time_ms += 120_000
    assert not await one.cleaning.clean_dirtiest()
    one.clock.time_ms += 600_000
    assert await one.cleaning.clean_dirtiest()
    assert len(one.records()) == 1


async def test_the_rate_limit_slows_a_run_down() -> None:
    """log.cleaner.io.max.bytes.per.second counts what is read and what is written."""
    one = await room()
    for number in range(300):
        one.write((b"k%d" % number, b"v" * 1000))
    one.write((b"k0", b""))
    one.settings = one.settings._replace(io_max_bytes_per_second=100_000.0)
    one.roll()
    before_ms = one.clock.now_ms()

    await one.clean()

    assert 8_000 < one.clock.now_ms() - before_ms < 11_000


async def test_compressed_batches_of_many_keys_are_read_once_more() -> None:
    """A long key is compared by its digest."""
    one = await room()
    long_keys = [b"%d" % number * 100 for number in range(1, 9)]
    for _ in range(3):
        one.append(
            encode_batch([(1, key, b"v", ()) for key in long_keys], BatchOptions(codec=Codec.LZ4))
        )

    await one.seal_and_clean()

    assert [record.key for record in one.records()] == long_keys


async def test_what_changed_before_the_lock_was_had_makes_a_swap_come_to_nothing() -> None:
    """S-26: the policy may have changed, or the log, while the files waited for their turn."""
    one = await room()
    for number in range(5):
        one.write((b"a", b"%d" % number))
    one.roll()
    await one.log.flush_sealed()
    found = survey_partition(one.one, one.clock.wall_ms())
    assert found is not None
    plan = plan_run(found, one.settings, one.clock.wall_ms(), trusts_clock=True)
    (group,) = [step for step in clean_log(one.disk, plan.order) if isinstance(step, CleanedGroup)]
    sources = plan.sources[group.number]

    async def swap(sources: Sources, *, wanted: bool) -> bool:
        return await swap_segments(
            one.log, sources, group.files, drops_markers=False, is_wanted=lambda: wanted
        )

    assert not await swap(sources, wanted=False)
    assert not await swap(sources._replace(sizes=(1,)), wanted=True)
    assert len(one.records()) == 5
    assert await swap(sources, wanted=True)
    assert one.values() == [(4, b"a", b"4")]
