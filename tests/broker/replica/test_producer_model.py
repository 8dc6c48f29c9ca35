"""The producer table against the simplest thing that can be right: reading the whole log again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.producer import AppendAction, AppendVerdict
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.control import ControlType, TransactionMarker
from tests.broker.replica.support.batches import data_batch, marker_batch

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch

PRODUCERS = (1, 2)
SEGMENT_BATCHES = 4


def next_sequence(log: list[RecordBatch], producer_id: int, epoch: int) -> int | None:
    """What a producer must send next by the whole log; None if anything goes."""
    own = [batch for batch in log if batch.producer_id == producer_id]
    if not own:
        return None
    same_epoch = [one for one in own if one.producer_epoch == epoch and not one.is_control]
    return (same_epoch[-1].last_sequence + 1) % 2**31 if same_epoch else 0


def has_open_transaction(log: list[RecordBatch], producer_id: int) -> bool:
    own = [batch for batch in log if batch.producer_id == producer_id and batch.is_transactional]
    return bool(own) and not own[-1].is_control


class Leader(RuleBasedStateMachine):
    """A log with snapshots, its table, and clients that send, repeat and reorder."""

    def __init__(self) -> None:
        super().__init__()
        self.log: list[RecordBatch] = []
        self.history = ReplicaHistory()
        self.snapshots: list[tuple[int, bytes]] = [(0, self.history.snapshot())]
        self.epochs = dict.fromkeys(PRODUCERS, 0)

    @property
    def end(self) -> int:
        return self.log[-1].next_offset if self.log else 0

    def _append(self, batch: RecordBatch) -> None:
        if len(self.log) % SEGMENT_BATCHES == SEGMENT_BATCHES - 1:
            self.snapshots.append((self.end, self.history.snapshot()))
        self.log.append(batch)
        self.history.observe(batch)

    def _send(self, batch: RecordBatch) -> AppendVerdict:
        verdict = self.history.producers.judge(batch)
        if verdict.action is AppendAction.APPEND:
            self._append(batch)
        return verdict

    @rule(producer_id=st.sampled_from(PRODUCERS), count=st.integers(1, 3), skip=st.integers(-3, 3))
    def send(self, producer_id: int, count: int, skip: int) -> None:
        epoch = self.epochs[producer_id]
        expected = next_sequence(self.log, producer_id, epoch)
        sequence = max(0, (expected or 0) + skip)
        batch = data_batch(sequence, count=count, at=self.end, producer_id=producer_id, epoch=epoch)
        verdict = self._send(batch)

        if has_open_transaction(self.log, producer_id):
            assert verdict.error is ErrorCode.INVALID_TXN_STATE
        elif expected is None or sequence == expected:
            assert verdict.action is AppendAction.APPEND
        else:
            assert verdict.action is not AppendAction.APPEND

    @rule(back=st.integers(1, 8))
    def repeat(self, back: int) -> None:
        """The answer to an older batch was lost."""
        data = [batch for batch in self.log if not batch.is_control]
        if len(data) < back:
            return
        original = data[-back]
        again = data_batch(
            original.base_sequence,
            count=original.record_count,
            at=self.end,
            producer_id=original.producer_id,
            epoch=original.producer_epoch,
            transactional=original.is_transactional,
        )
        later = [one for one in data[-back:] if one.producer_id == original.producer_id]
        end_before = self.end
        verdict = self._send(again)

        assert self.end == end_before, "one batch is in the log twice"
        if verdict.action is AppendAction.DUPLICATE:
            assert verdict.base_offset == original.base_offset
            assert verdict.last_offset == original.last_offset
        elif verdict.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # The client will believe that it failed, which may only be said of a batch that no
            # client can still be waiting for.
            assert len(later) > 5 or original.is_transactional

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def restart_producer(self, producer_id: int) -> None:
        self.epochs[producer_id] += 1

    @rule(producer_id=st.sampled_from(PRODUCERS), abort=st.booleans())
    def transaction(self, producer_id: int, abort: bool) -> None:
        epoch = self.epochs[producer_id]
        sequence = next_sequence(self.log, producer_id, epoch) or 0
        batch = data_batch(
            sequence, at=self.end, producer_id=producer_id, epoch=epoch, transactional=True
        )
        assert self._send(batch).action is AppendAction.APPEND
        self._append(marker_batch(self.end, abort=abort, producer_id=producer_id, epoch=epoch))

    @rule(producer_id=st.sampled_from(PRODUCERS))
    def open_transaction(self, producer_id: int) -> None:
        """Its end comes later, or never."""
        epoch = self.epochs[producer_id]
        sequence = next_sequence(self.log, producer_id, epoch) or 0
        batch = data_batch(
            sequence, at=self.end, producer_id=producer_id, epoch=epoch, transactional=True
        )
        assert self._send(batch).action is AppendAction.APPEND

    @rule(
        producer_id=st.sampled_from(PRODUCERS), bumps=st.booleans(), coordinator=st.integers(0, 3)
    )
    def mark(self, producer_id: int, bumps: bool, coordinator: int) -> None:
        """Whatever coordinator it comes from: a leader has judged it."""
        self.epochs[producer_id] += bumps
        epoch = self.epochs[producer_id]
        kind = ControlType.ABORT
        marker = TransactionMarker(producer_id, epoch, kind, coordinator)
        was_open = has_open_transaction(self.log, producer_id)
        verdict = self.history.producers.judge_marker(marker)
        if verdict.action is not AppendAction.APPEND:
            return
        done = self.history.producers.transactions.open_transactions.get(producer_id)
        self._append(
            marker_batch(
                self.end,
                abort=True,
                producer_id=producer_id,
                epoch=epoch,
                coordinator_epoch=coordinator,
            )
        )

        assert (done is not None) == was_open
        assert not has_open_transaction(self.log, producer_id)

    @rule(share=st.floats(0, 1))
    def truncate(self, share: float) -> None:
        """A follower finds that the end of its log is not the leader's (T-07)."""
        self.log = self.log[: int(len(self.log) * share)]
        self.snapshots = [one for one in self.snapshots if one[0] <= self.end]
        self._rebuild()

    @rule()
    def crash(self) -> None:
        """The process dies; what was written is still in the page cache."""
        self.history = ReplicaHistory()
        self._rebuild()

    def _rebuild(self) -> None:
        offset, snapshot = self.snapshots[-1]
        self.history.truncated(self.end)
        assert self.history.load_snapshot(snapshot)
        for batch in self.log:
            if batch.base_offset >= offset:
                self.history.observe(batch)

    @invariant()
    def the_table_is_what_the_whole_log_says(self) -> None:
        fresh = ReplicaHistory()
        for batch in self.log:
            fresh.observe(batch)

        assert self.history.snapshot() == fresh.snapshot()
        ours, theirs = self.history.producers, fresh.producers
        assert ours.transactions.open_transactions == theirs.transactions.open_transactions


TestLeader = pytest.mark.requirement("IDM-07", "IDM-09", "FMT-35")(Leader.TestCase)
Leader.TestCase.settings = settings(max_examples=100, stateful_step_count=25, deadline=None)
