"""Any history, cleaned at any moment while other tasks change the log.

The model is the list of what was appended. A reader of the compacted log must end with the same
table of keys, wherever it began, and never see what was aborted (hazards S-21 to S-26).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.broker.log.recovery.loading import Known
from ottla.broker.replica.leading import PartitionLeadership
from tests.broker.log.crash_disk import CrashDisk, CrashFile, ManualClock
from tests.broker.support.clean_room import CleanRoom, latest

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.protocol.records.batch import RecordBatch

Step = tuple[str, int]
KEYS = 4
PRODUCERS = (7, 8)


class SlowFile(CrashFile):
    """A file whose fsync takes its time."""

    __slots__ = ()

    async def fsync(self) -> None:
        await asyncio.sleep(0)
        await super().fsync()


class SlowDisk(CrashDisk):
    """Lets others run before every operation that may wait for a device."""

    def open(self, path: str, *, create: bool = False) -> SlowFile:
        super().open(path, create=create)
        return SlowFile(self, path, self.files.file(path))

    async def rename(self, source: str, target: str) -> None:
        await asyncio.sleep(0)
        await super().rename(source, target)

    async def unlink(self, path: str) -> None:
        await asyncio.sleep(0)
        await super().unlink(path)

    async def fsync_directory(self, directory: str) -> None:
        await asyncio.sleep(0)
        await super().fsync_directory(directory)

    async def scan(self, directory: str) -> list[str]:
        await asyncio.sleep(0)
        return await super().scan(directory)


class SlowClock(ManualClock):
    """Sleeping lets others run, too."""

    async def sleep(self, delay_ms: float) -> None:
        await asyncio.sleep(0)
        self.time_ms += delay_ms


class Story:
    """A log, and beside it the list of what was appended to it."""

    def __init__(self, budget_bytes: int) -> None:
        self.one = CleanRoom(SlowDisk(), segment_bytes="400", delete_retention_ms="2000")
        self.one.clock = SlowClock()
        self.one.settings = self.one.settings._replace(dedupe_buffer_size=budget_bytes)
        # offset -> key, value, whether its outcome is known and good
        self.written: dict[int, tuple[bytes, bytes | None]] = {}
        self.open: dict[int, list[int]] = {}
        self.aborted: set[int] = set()
        self.count = 0
        # A truncation below the high watermark may take a value that has replaced another.
        self.is_unclean = False

    def note(self, batch: RecordBatch, pairs: list[tuple[bytes, bytes | None]]) -> None:
        for number, pair in enumerate(pairs):
            self.written[batch.base_offset + number] = pair

    def append(self, argument: int) -> None:
        """Appends one batch; the argument selects its keys and values."""
        self.count += 1
        keys = [b"key%d" % ((argument + number) % KEYS) for number in range(1 + argument % 3)]
        value = None if argument % 5 == 0 else b"value%d" % self.count
        pairs = [(key, value) for key in keys]
        producer_id = (-1, -1, 6, *PRODUCERS)[argument % 5]
        is_open = producer_id in PRODUCERS
        batch = self.one.write(*pairs, producer_id=producer_id, transactional=is_open)
        self.note(batch, pairs)
        if is_open:
            offsets = range(batch.base_offset, batch.next_offset)
            self.open.setdefault(producer_id, []).extend(offsets)

    def end(self, argument: int) -> None:
        """End a transaction."""
        producer_id = PRODUCERS[argument % 2]
        if producer_id in self.open:
            offsets = self.open.pop(producer_id)
            if argument % 4 < 2:
                self.aborted.update(offsets)
            self.one.mark(producer_id, commit=argument % 4 >= 2)

    async def do(self, step: Step) -> None:
        kind, argument = step
        one = self.one
        if kind == "append":
            self.append(argument)
        elif kind == "end":
            self.end(argument)
        elif kind == "roll":
            one.roll()
        elif kind == "wait":
            one.clock.time_ms += 1000 * (argument % 4)
        elif kind == "clean":
            await one.clean()
        elif kind == "flush":
            await one.log.flush()
        elif kind == "delete records":
            await one.log.delete_records_before(self.pick(argument))
            one.replica.on_cut(one.log.log_start_offset, one.log.log_end_offset)
        elif kind == "delete segment":
            await one.log.delete_old_segments(lambda _views: 1, one.replica.last_stable_offset)
            one.replica.on_cut(one.log.log_start_offset, one.log.log_end_offset)
        elif kind == "truncate":
            await self.truncate(self.pick(argument))

    def pick(self, argument: int) -> int:
        """An offset of the log, at or before the first open transaction."""
        start = self.one.log.log_start_offset
        return start + argument % (max(0, self.one.replica.last_stable_offset - start) + 1)

    async def truncate(self, offset: int) -> None:
        one = self.one
        offset = max(offset, one.log.log_start_offset)
        self.is_unclean = True
        end = await one.log.truncate_to(offset)
        one.replica.resign()
        one.replica.on_cut(one.log.log_start_offset, end)
        leader_epoch = one.replica.leader_epoch + 1
        one.replica.become_leader(
            PartitionLeadership(1, leader_epoch, 0, (1,), (1,)), one.clock.now_ms()
        )
        self.written = {at: pair for at, pair in self.written.items() if at < end}
        self.aborted = {at for at in self.aborted if at < end}
        cut = {key: [at for at in offsets if at < end] for key, offsets in self.open.items()}
        self.open = {producer_id: offsets for producer_id, offsets in cut.items() if offsets}

    async def reopen(self) -> None:
        one = self.one
        known = Known(one.log.recovery_point, one.log.log_start_offset)
        cleaned_offset = one.log.cleaned_offset
        files = one.disk.killed().files
        one.disk = SlowDisk(files)
        log = await one.open(known)
        log.cleaned_offset = cleaned_offset

    def check(self) -> None:
        """The table of a reader, and every record that is left, are as they were appended."""
        one = self.one
        start, stable = one.log.log_start_offset, one.replica.last_stable_offset
        seen = one.committed()
        offsets = [record.offset for record in seen]
        assert offsets == sorted(set(offsets))
        for record in seen:
            assert self.written[record.offset] == (record.key, record.value)
            assert record.offset not in self.aborted
        if self.is_unclean:
            return
        expected: dict[bytes, tuple[int, bytes | None]] = {}
        for offset, (key, value) in sorted(self.written.items()):
            if start <= offset < stable and offset not in self.aborted:
                expected[key] = (offset, value)
        found = latest(seen)
        for key, (offset, value) in expected.items():
            if value is not None:
                assert found.get(key) == (offset, value)
            else:
                # Seen as deleted, or not at all: never with an older value.
                assert found.get(key, (offset, None)) == (offset, None)
        assert set(found) <= set(expected)


steps = st.tuples(
    st.sampled_from(["append"] * 8 + ["end"] * 3 + ["roll"] * 2 + ["wait", "clean", "clean"]),
    st.integers(0, 99),
)
meddling = st.tuples(
    st.sampled_from(
        ["append", "end", "roll", "flush", "delete records", "delete segment", "truncate"]
    ),
    st.integers(0, 99),
)


def play(story: Callable[[], Awaitable[None]]) -> None:
    asyncio.run(story())  # type: ignore[arg-type]  # a coroutine function


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, max_size=60), st.sampled_from([400, 700, 1 << 20]))
def test_a_reader_of_a_cleaned_log_has_the_same_table(script: list[Step], budget: int) -> None:
    """Also after a restart, which rebuilds producers and transactions from what is left."""

    async def story() -> None:
        tale = Story(budget)
        await tale.one.open()
        for step in script:
            await tale.do(step)
            tale.check()
        await tale.reopen()
        tale.check()
        open_now = set(tale.one.history.producers.transactions.open_transactions)
        assert open_now == set(tale.open)

    play(story)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(steps, min_size=20, max_size=50),
    st.lists(st.tuples(st.integers(0, 12), meddling), max_size=5),
)
def test_a_change_of_the_log_meanwhile_finds_it_whole_and_leaves_it_whole(
    script: list[Step], others: list[tuple[int, Step]]
) -> None:
    """S-26: cleaner, retention, truncation, deletion and rolling at the same time."""

    async def story() -> None:
        tale = Story(1 << 20)
        await tale.one.open()
        for step in script:
            await tale.do(step)
        tale.one.roll()
        cleaning = asyncio.ensure_future(tale.one.clean())
        for turns, step in others:
            for _ in range(turns):
                await asyncio.sleep(0)
            await tale.do(step)
            tale.check()
        await cleaning
        tale.check()
        assert tale.one.log.home.health.is_online
        assert not tale.one.cleaning.status().uncleanable
        tale.one.roll()
        await tale.one.clean()
        tale.check()
        await tale.reopen()
        tale.check()

    play(story)
