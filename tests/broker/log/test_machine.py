"""A log against a list: any order of operations, kills and power cuts gives what a list gives."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from ottla.broker.log.recovery.loading import Known
from ottla.broker.log.storage.settings import LogSettings
from ottla.protocol.errors import CorruptLogError
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import BatchOptions
from ottla.protocol.records.record import read_records
from tests.broker.log.log_under_test import DIRECTORY, LogUnderTest, read_all

if TYPE_CHECKING:
    from collections.abc import Coroutine


class LogMachine(RuleBasedStateMachine):
    """The model is the list of batches, the log start, and what has been made durable."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.saved: dict[str, int] = {"recovery_point": 0, "log_start": 0}
        self.batches: list[tuple[int, int, bytes]] = []
        self.end = 0
        self.start = 0
        self.epoch = 0
        self.times: list[tuple[int, int]] = []
        # A power cut may bring these back.
        self.deleted: list[tuple[int, int, bytes]] = []

    def run(self, coroutine: Coroutine[Any, Any, Any]) -> Any:
        return self.runner.run(coroutine)

    def teardown(self) -> None:
        self.runner.close()

    @initialize(
        segment_bytes=st.sampled_from([200, 700, 5000]), interval=st.sampled_from([1, 100, 4096])
    )
    def begin(self, segment_bytes: int, interval: int) -> None:
        self.tested = LogUnderTest(
            settings=LogSettings(
                segment_bytes=segment_bytes, index_interval_bytes=interval, segment_ms=500
            )
        )
        self.open(Known())
        for directory in ("/", "/data", DIRECTORY):
            self.run(self.tested.disk.fsync_directory(directory))

    def open(self, known: Known) -> None:
        self.log = self.run(self.tested.open(known))

        async def save_recovery_point() -> None:
            self.saved["recovery_point"] = self.log.recovery_point

        async def save_log_start() -> None:
            self.saved["log_start"] = self.log.log_start_offset

        self.tested.home.save_recovery_points = save_recovery_point
        self.tested.home.save_log_starts = save_log_start

    @rule(
        count=st.integers(1, 5),
        size=st.sampled_from([0, 10, 150]),
        timestamp=st.integers(0, 2000),
        producer_id=st.integers(-1, 3),
    )
    def append(self, count: int, size: int, timestamp: int, producer_id: int) -> None:
        options = BatchOptions(leader_epoch=self.epoch, producer_id=producer_id)
        batch = self.tested.append(
            self.log, count, value=b"v" * size, timestamp=timestamp, options=options
        )
        self.batches.append((batch.base_offset, batch.last_offset, bytes(batch.view)))
        self.times += [(batch.base_offset + n, timestamp + n) for n in range(count)]
        self.end += count

    @rule()
    def new_leader(self) -> None:
        self.epoch += 1

    @rule()
    def flush(self) -> None:
        self.run(self.log.flush())
        assert self.log.recovery_point == self.end
        self.saved["recovery_point"] = self.log.recovery_point

    @rule(back=st.integers(0, 30))
    def truncate(self, back: int) -> None:
        whole = [first for first, _, _ in self.batches if first >= self.start]
        offset = max(whole[0] if whole else self.end, self.end - back)
        end = self.run(self.log.truncate_to(offset))
        kept = [batch for batch in self.batches if batch[1] < offset]
        cut = [first for first, last, _ in self.batches if last >= offset]
        expected = min(offset, cut[0]) if cut else offset
        assert end == expected
        self.batches, self.end = kept, end
        self.times = [(o, t) for o, t in self.times if o < end]

    @precondition(lambda self: self.end > 5)
    @rule(gap=st.integers(0, 100))
    def restart(self, gap: int) -> None:
        self.run(self.log.truncate_fully_and_start_at(self.end + gap))
        self.batches, self.times, self.deleted = [], [], []
        self.start = self.end = self.end + gap

    @rule(ahead=st.integers(0, 20))
    def delete_records(self, ahead: int) -> None:
        offset = min(self.start + ahead, self.end)
        assert self.run(self.log.delete_records_before(offset)) == offset
        self.start = offset
        self.forget_deleted()

    @rule(count=st.integers(0, 3))
    def delete_segments(self, count: int) -> None:
        gone = self.run(self.log.delete_old_segments(lambda segments: count, self.end))
        assert gone <= count
        self.start = max(self.start, self.log.log_start_offset)
        self.forget_deleted()

    def forget_deleted(self) -> None:
        self.deleted += [batch for batch in self.batches if batch[1] < self.start]
        self.batches = [batch for batch in self.batches if batch[1] >= self.start]
        self.times = [(offset, time) for offset, time in self.times if offset >= self.start]

    @rule()
    def kill(self) -> None:
        """The page cache survives: nothing at all may be missing."""
        producers, epochs = self.tested.observer.producers, self.tested.observer.epochs
        self.tested.kill()
        self.open(Known(self.saved["recovery_point"], self.start))
        if any(first >= self.start for first, _, _ in self.batches):
            assert self.tested.observer.epochs[-1][0] == epochs[-1][0]
        known = self.tested.observer.producers
        assert {k: v for k, v in producers.items() if v >= self.start} == {
            k: v for k, v in known.items() if v >= self.start
        }

    @rule(seed=st.integers(0, 2**32), ordered=st.booleans())
    def lose_power(self, seed: int, ordered: bool) -> None:
        """Whatever was flushed survives, and what is left is a beginning of what was there."""
        flushed = self.saved["recovery_point"]
        self.tested.cut_power(seed, ordered=ordered)
        start = max(self.saved["log_start"], 0)
        try:
            self.open(Known(flushed, start))
        except CorruptLogError:
            # A hole before records that did reach the disk: the operator decides.
            self.open(Known(flushed, start, cut_damage=True))
        end = self.log.log_end_offset
        assert min(flushed, self.end) <= end <= self.end
        self.end = end
        self.start = self.log.log_start_offset
        self.batches = [b for b in self.deleted + self.batches if self.start <= b[1] < end]
        self.deleted = [batch for batch in self.deleted if batch[1] < self.start]
        self.times = [
            (record.offset, record.timestamp)
            for _, _, content in self.batches
            for record in read_records(parse_batch(content), 1 << 20)
        ]

    @rule()
    def close_idle_files(self) -> None:
        self.tested.home.open_segments.release_idle()
        self.tested.home.open_segments.release_idle()

    @invariant()
    def the_log_is_the_list(self) -> None:
        if not hasattr(self, "log"):
            return
        log = self.log
        assert log.log_end_offset == self.end
        assert log.log_start_offset <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        found = read_all(log)
        assert [b for b in found if b[1] >= self.start] == [
            b for b in self.batches if b[1] >= self.start
        ]
        assert log.active.is_active
        assert not any(segment.is_active for segment in log.segments[:-1])

    @invariant()
    def times_find_the_first_record(self) -> None:
        if not hasattr(self, "log"):
            return
        for wanted in (0, 700, 1500):
            records = [(o, t) for o, t in self.times if o >= self.log.log_start_offset]
            expected = next(((o, t) for o, t in records if t >= wanted), None)
            answer = self.run(self.log.offset_for_timestamp(wanted))
            assert (answer and answer[:2]) == expected


LogMachine.TestCase.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)
TestLogMachine = LogMachine.TestCase
