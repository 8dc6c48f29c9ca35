"""Whatever is late, lost or doubled between a producer, its coordinator and a partition: nothing
hangs, and with version 2 every record shares the fate of its own transaction (T-13, T-16, KIP-890).

The coordinator is the simplest one that can be right, and in the test; messages arrive when and as
often as hypothesis wants.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.producer import AppendAction
from ottla.broker.replica.verification import Guard, TransactionClaim, Verifications, judge_batch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.control import ControlType, TransactionMarker
from tests.broker.replica.support.batches import data_batch, marker_batch

PRODUCER = 4000
NUMBERS = st.integers(0, 1 << 30)
BACK = st.integers(1, 4)
RARELY = st.sampled_from((False, False, False, True))


class Produce(NamedTuple):
    """One batch on its way, of the transaction with that number."""

    transaction: int
    epoch: int
    sequence: int


@dataclass
class Question:
    """A partition waits for the coordinator's word about a batch."""

    produce: Produce
    guard: Guard
    answer: bool | None = None


class Marker(NamedTuple):
    transaction: int
    epoch: int
    coordinator_epoch: int
    is_commit: bool


class Entry(NamedTuple):
    """An entry of the log: a record of a transaction, or the marker that ends one."""

    transaction: int
    is_marker: bool = False
    is_commit: bool = False


class Transactions(RuleBasedStateMachine):
    """One producer, one partition, and its coordinator."""

    version = 2

    def __init__(self) -> None:
        super().__init__()
        # The coordinator.
        self.epoch = 0
        self.coordinator_epoch = 0
        self.transaction = 0
        self.is_ongoing = False
        self.is_part = False
        self.owed: Marker | None = None
        self.verdicts: dict[int, bool] = {}
        # The producer.
        self.sequence = 0
        # What is on its way, and what was: it may come again.
        self.produces: list[Produce] = []
        self.questions: list[Question] = []
        self.markers: list[Marker] = []
        # The partition.
        self.history = ReplicaHistory()
        self.verifications = Verifications()
        self.log: list[Entry] = []

    # ---- the coordinator ----

    @precondition(lambda self: not self.is_ongoing and self.owed is None)
    @rule()
    def begin(self) -> None:
        self.transaction += 1
        self.is_ongoing, self.is_part = True, self.version < 2
        if self.version >= 2:
            self.sequence = 0

    @precondition(lambda self: self.is_ongoing)
    @rule(is_commit=st.booleans(), is_timeout=RARELY)
    def end(self, is_commit: bool, is_timeout: bool) -> None:
        """Prepared: the verdict is fixed, and the marker is owed to the partition."""
        self.is_ongoing = False
        if is_timeout:
            is_commit = False
        self.verdicts[self.transaction] = is_commit
        if self.version >= 2 or is_timeout:
            self.epoch += 1
            self.sequence = 0
        if self.is_part:
            self.owed = Marker(self.transaction, self.epoch, self.coordinator_epoch, is_commit)

    @rule(happens=RARELY)
    def replace_coordinator(self, happens: bool) -> None:
        """The next one finds the same in its log, and repeats what is owed."""
        self.coordinator_epoch += happens
        if self.owed is not None:
            self.owed = self.owed._replace(coordinator_epoch=self.coordinator_epoch)

    @precondition(lambda self: self.owed is not None)
    @rule()
    def send_marker(self) -> None:
        marker = self.owed
        assert marker is not None
        self.markers.append(marker)
        if self._mark(marker) is ErrorCode.NONE:
            self.owed = None

    @precondition(lambda self: self.markers and self.version >= 2)
    @rule(back=BACK)
    def marker_comes_late(self, back: int) -> None:
        """With version 1 late ones cannot be told from timely ones (T-12)."""
        self._mark(self.markers[-min(back, len(self.markers))])

    @precondition(lambda self: self.questions)
    @rule(number=NUMBERS)
    def coordinator_answers(self, number: int) -> None:
        question = self.questions[number % len(self.questions)]
        if question.answer is not None:
            return
        is_own = question.produce.epoch == self.epoch
        if self.version >= 2 and is_own and self.is_ongoing:
            self.is_part = True
        question.answer = is_own and self.is_ongoing and self.is_part

    # ---- the producer ----

    @precondition(lambda self: not self.is_ongoing and self.owed is None)
    @rule(is_commit=st.booleans())
    def run_one(self, is_commit: bool) -> None:
        """A transaction as nearly all of them are."""
        self.begin()
        self.send(is_lost=False)
        if self.questions:
            self.questions.sort(key=lambda one: one.produce.transaction)
            self.last_question_is_settled()
        self.end(is_commit=is_commit, is_timeout=False)
        if self.owed is not None:
            self.send_marker()

    @precondition(lambda self: self.is_ongoing)
    @rule(is_lost=RARELY)
    def send(self, is_lost: bool) -> None:
        produce = Produce(self.transaction, self.epoch, self.sequence)
        self.sequence += 1
        self.produces.append(produce)
        if not is_lost:
            self._arrive(produce)

    @precondition(lambda self: self.produces)
    @rule(back=BACK)
    def batch_comes_late(self, back: int) -> None:
        """For the first time, or once more."""
        self._arrive(self.produces[-min(back, len(self.produces))])

    # ---- the partition ----

    def _arrive(self, produce: Produce) -> None:
        claim = TransactionClaim(PRODUCER, produce.epoch, produce.sequence, self.version >= 2)
        begun = self.verifications.begin(claim, self.history.producers.get(PRODUCER), 0)
        if begun is None:
            self._write(produce)
        elif isinstance(begun, Guard):
            self.questions.append(Question(produce, begun))

    @precondition(lambda self: self.questions)
    @rule()
    def last_question_is_settled(self) -> None:
        """At once, as nearly all of them are."""
        self.coordinator_answers(len(self.questions) - 1)
        self.partition_hears(len(self.questions) - 1)

    @precondition(lambda self: self.questions)
    @rule(number=NUMBERS)
    def partition_hears(self, number: int) -> None:
        question = self.questions[number % len(self.questions)]
        if question.answer is None:
            return
        self.questions.remove(question)
        if question.answer:
            question.guard.confirm()
            self._write(question.produce)

    def _write(self, produce: Produce) -> None:
        batch = data_batch(
            produce.sequence, at=len(self.log), epoch=produce.epoch, transactional=True
        )
        verdict = judge_batch(self.history.producers, self.verifications, batch)
        if verdict.action is AppendAction.APPEND:
            self.history.observe(batch)
            self.verifications.drop(PRODUCER)
            self.log.append(Entry(produce.transaction))

    def _mark(self, marker: Marker) -> ErrorCode:
        kind = ControlType.COMMIT if marker.is_commit else ControlType.ABORT
        wanted = TransactionMarker(PRODUCER, marker.epoch, kind, marker.coordinator_epoch)
        verdict = self.history.producers.judge_marker(wanted, self.version)
        if verdict.action is AppendAction.REFUSE:
            return verdict.error
        self.verifications.drop(PRODUCER)
        if verdict.action is AppendAction.APPEND:
            batch = marker_batch(
                len(self.log),
                abort=not marker.is_commit,
                epoch=marker.epoch,
                coordinator_epoch=marker.coordinator_epoch,
            )
            self.history.observe(batch)
            self.log.append(Entry(marker.transaction, True, marker.is_commit))
        return ErrorCode.NONE

    @rule(happens=RARELY)
    def fail_over(self, happens: bool) -> None:
        """The next leader has the log and has verified no transaction."""
        if not happens:
            return
        self.verifications = Verifications()
        history = ReplicaHistory()
        assert history.load_snapshot(self.history.snapshot())
        self.history = history

    # ---- what must hold ----

    @property
    def is_open_here(self) -> bool:
        return bool(self.history.producers.transactions.open_transactions)

    @invariant()
    def nothing_hangs(self) -> None:
        """What is open in the partition is open at its coordinator, or its end is on the way."""
        if self.is_open_here:
            assert (self.is_ongoing and self.is_part) or self.owed is not None

    @invariant()
    def the_end_that_is_owed_is_never_refused(self) -> None:
        """Else the coordinator would never come to an end (T-14)."""
        if self.owed is not None:
            kind = ControlType.COMMIT if self.owed.is_commit else ControlType.ABORT
            wanted = TransactionMarker(PRODUCER, self.owed.epoch, kind, self.owed.coordinator_epoch)
            verdict = self.history.producers.judge_marker(wanted, self.version)
            assert verdict.error is ErrorCode.NONE

    @invariant()
    def every_record_shares_the_fate_of_its_transaction(self) -> None:
        pending: list[int] = []
        for entry in self.log:
            if not entry.is_marker:
                pending.append(entry.transaction)
                continue
            for transaction in pending:
                if self.version >= 2:
                    assert transaction == entry.transaction
                    assert self.verdicts[transaction] == entry.is_commit
            pending.clear()
        if self.version >= 2:
            assert set(pending) <= {self.transaction}


class OfVersion1(Transactions):
    """Epochs stay as they are, so a late batch may join the next transaction, but hang none."""

    version = 1


_SETTINGS = settings(max_examples=60, stateful_step_count=40, deadline=None)
TestVersion2 = pytest.mark.requirement("TXN-29", "TXN-30")(Transactions.TestCase)
TestVersion1 = OfVersion1.TestCase
Transactions.TestCase.settings = _SETTINGS
OfVersion1.TestCase.settings = _SETTINGS
