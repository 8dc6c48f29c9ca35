"""Retention, flushing and expiry as a running broker does them, one chore at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.log.storage.checkpoints import decode_wall_clock, read_file
from ottla.broker.replica.retention import ModifiedTimeRetention, SegmentFacts
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.wire.clock import RealClock
from tests.broker.support.requests import NOW, batch, create, fetched, listed, produced
from tests.support.in_process import RunningBroker, running_broker

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.raw_client import RawClient


HOUR_MS = 3_600_000
DAY_MS = 24 * HOUR_MS
NOTED = "/data/wall-clock-checkpoint"


class ShiftedClock(RealClock):
    """The machine's clocks, set by hand."""

    __slots__ = ("now_offset_ms", "wall_offset_ms")

    def __init__(self, wall_offset_ms: int = 0) -> None:
        self.wall_offset_ms = wall_offset_ms
        self.now_offset_ms = 0

    def now_ms(self) -> float:
        return super().now_ms() + self.now_offset_ms

    def wall_ms(self) -> int:
        return super().wall_ms() + self.wall_offset_ms

    def pass_time(self, time_ms: int) -> None:
        """Advances both clocks by the same time."""
        self.now_offset_ms += time_ms
        self.wall_offset_ms += time_ms


async def fill(client: RawClient, count: int, **configs: str) -> int:
    """A topic of segments that hold one batch each; returns the size of a batch."""
    one = batch(b"x" * 1000)
    await create(client, "t", 1, segment_bytes=str(len(one)), **configs)
    for _ in range(count):
        await produced(client, one)
    return len(one)


async def keep_house(running: RunningBroker) -> None:
    """Apply retention now."""
    await running.broker.parts.housekeeping.apply_retention()


@pytest.mark.requirement("LOG-21", "LOG-17")
async def test_size_retention_deletes_whole_segments_from_the_old_end() -> None:
    """No more is left than keeps the limit, and the log start tells where it begins."""
    async with running_broker() as running, running.connect() as client:
        size = await fill(client, 10, retention_bytes="3500", retention_ms="-1")

        await keep_house(running)

        left = -(-3500 // size)
        assert (await listed(client, -2)).offset == 10 - left
        assert (await fetched(client, 10 - left)).log_start_offset == 10 - left


@pytest.mark.requirement("LOG-19", "LOG-22", "ARC-06")
async def test_time_retention_goes_by_the_largest_timestamp() -> None:
    """Records of 2023 are older than a day, whether or not consumers have read them."""
    async with running_broker() as running, running.connect() as client:
        await fill(client, 5, retention_ms="-1")
        await fetched(client, 0)
        await keep_house(running)
        kept = (await listed(client, -2)).offset
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        await create(client, "old", retention_ms="86400000", segment_bytes="2000")
        for _ in range(3):
            await produced(client, batch(b"y" * 1000), topic="old")
        await keep_house(running)

        assert kept == 0
        assert (await listed(client, -2, topic="old")).offset == 3
        assert running.broker.ports.clock.wall_ms() - 86_400_000 > NOW


@pytest.mark.requirement("LOG-23")
async def test_a_policy_of_the_operators_own_is_obeyed() -> None:
    """A callable beside the built-in ones: here, keep the last two segments."""

    def last_two(segments: Sequence[SegmentFacts], _wall_ms: int) -> Sequence[SegmentFacts]:
        return segments[:-2]

    async with running_broker() as running, running.connect() as client:
        await fill(client, 6, retention_ms="-1")
        running.broker.parts.housekeeping.policies.append(last_two)

        await keep_house(running)

        assert (await listed(client, -2)).offset == 4


@pytest.mark.requirement("LOG-20")
async def test_retention_by_file_time_can_be_chosen() -> None:
    """The older rule: a file that was changed just now stays, whatever its records say."""
    async with running_broker() as running, running.connect() as client:
        await fill(client, 4, retention_ms="-1")
        running.broker.parts.housekeeping.policies.append(ModifiedTimeRetention(60_000))

        await keep_house(running)

        assert (await listed(client, -2)).offset == 0


async def test_a_changed_setting_takes_effect_at_once() -> None:
    """Operators do not restart a broker to change retention.bytes."""
    async with running_broker() as running, running.connect() as client:
        await fill(client, 5, retention_ms="-1")
        change = AlterableConfig(name="retention.bytes", config_operation=0, value="1")
        resource = AlterConfigsResource(resource_type=2, resource_name="t", configs=[change])
        answer = await client.call(1, IncrementalAlterConfigsRequest(resources=[resource]))

        await keep_house(running)

        assert answer.responses[0].error_code == 0
        assert (await listed(client, -2)).offset >= 4


async def test_silent_producers_are_forgotten() -> None:
    """Their memory is bounded by producer.id.expiration.ms, not by their number."""
    settings = {"producer.id.expiration.ms": "1"}
    async with running_broker(settings) as running, running.connect() as client:
        await create(client)
        one = batch(b"x", producer_id=9, producer_epoch=0, base_sequence=0)
        await produced(client, one)
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        before = len(partition.replica.history.producers)
        await running.broker.parts.housekeeping.expire_producers()
        await running.broker.ports.clock.sleep(5)
        await running.broker.parts.housekeeping.expire_producers()

        assert before == 1
        assert len(partition.replica.history.producers) == 0


async def fill_now(client: RawClient, clock: ShiftedClock) -> None:
    """A topic with a day of retention and records of this minute, a segment each."""
    await create(client, "t", 1, segment_bytes="1100", retention_ms=str(DAY_MS))
    for _ in range(4):
        record = (clock.wall_ms(), None, b"x" * 1000, ())
        answer = await produced(client, encode_batch([record], BatchOptions()))
        assert answer.error_code == 0


async def start_offset_after(
    disk: MemoryDisk, clock: ShiftedClock, pass_ms: Sequence[int] = ()
) -> int:
    """Start a broker there, apply retention at once and after each time; the log start then."""
    async with running_broker(disk=disk, clock=clock) as running, running.connect() as client:
        await keep_house(running)
        for time_ms in pass_ms:
            clock.pass_time(time_ms)
            await keep_house(running)
        return int((await listed(client, -2)).offset)


async def test_a_clock_that_jumped_while_the_broker_was_down_deletes_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """S-18: the battery of the clock is empty, and the machine comes back in another year. Nor
    does a second start believe what the first one had doubts about."""
    disk, clock = MemoryDisk(), ShiftedClock()
    async with running_broker(disk=disk, clock=clock) as running, running.connect() as client:
        await fill_now(client, clock)

    year_later = ShiftedClock(365 * DAY_MS)
    starts = [await start_offset_after(disk, year_later) for _ in range(2)]
    put_right = await start_offset_after(disk, ShiftedClock(), [DAY_MS + HOUR_MS])

    assert starts == [0, 0]
    assert "deleted by time" in caplog.text
    # Everything is in order again at once; a jump while the broker runs is another matter.
    assert put_right == 4


async def test_a_broker_that_slept_for_weeks_deletes_when_the_clock_has_settled() -> None:
    """S-18: after three weeks off, the old records are deleted, only later."""
    disk, clock = MemoryDisk(), ShiftedClock()
    async with running_broker(disk=disk, clock=clock) as running, running.connect() as client:
        await fill_now(client, clock)

    weeks_later = ShiftedClock(21 * DAY_MS)
    assert await start_offset_after(disk, weeks_later) == 0
    assert await start_offset_after(disk, weeks_later, [HOUR_MS]) == 4


async def test_the_time_is_noted_at_start_and_stop_and_only_while_it_is_believed() -> None:
    """A kill must not make hours of running look like a jump, nor a jump pass for the truth."""
    disk, clock = MemoryDisk(), ShiftedClock()

    def noted() -> int:
        found = decode_wall_clock(read_file(disk, NOTED))
        assert found is not None
        return found - clock.wall_ms() + clock.wall_offset_ms

    async with running_broker(disk=disk, clock=clock) as running:
        while not disk.exists(NOTED):
            await clock.sleep(1)
        at_start = noted()
        clock.pass_time(5 * HOUR_MS)
        await running.broker.parts.housekeeping.note_time()
        later = noted()
        clock.wall_offset_ms += 365 * DAY_MS
        await running.broker.parts.housekeeping.note_time()
    at_stop = noted()

    assert abs(at_start) < 60_000
    assert abs(later - 5 * HOUR_MS) < 60_000
    assert at_stop == pytest.approx(later, abs=60_000)


async def test_coordinators_ask_whether_the_wall_clock_is_believed() -> None:
    """S-18: ids of producers and positions of groups are forgotten by the wall clock, too."""
    clock = ShiftedClock()
    async with running_broker(clock=clock) as running:
        groups, transactions = (
            running.broker.parts.coordinators.groups,
            running.broker.parts.coordinators.transactions,
        )
        before = [now.is_wall_trusted for now in (groups.moment(), transactions.moment())]
        clock.wall_offset_ms = 30 * DAY_MS
        after = [now.is_wall_trusted for now in (groups.moment(), transactions.moment())]

    assert before == [True, True]
    assert after == [False, False]
