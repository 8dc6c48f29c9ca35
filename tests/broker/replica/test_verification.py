"""Who may open a transaction in a partition: guards, what takes them away, and late batches."""

from __future__ import annotations

import pytest

from ottla.broker.replica.producer import APPEND, AppendAction
from ottla.broker.replica.producers import ProducerTable
from ottla.broker.replica.verification import Guard, TransactionClaim, Verifications, judge_batch
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import NO_SEQUENCE
from tests.broker.replica.support.batches import data_batch, marker_batch

PRODUCER = 4000


class Leader:
    """A partition's table and its guards, and the few steps that its runtime takes."""

    def __init__(self) -> None:
        self.table = ProducerTable()
        self.verifications = Verifications()
        self.end = 0

    def begin(self, sequence: int = 0, epoch: int = 0, *, adds: bool = False) -> Guard:
        guard = self.try_begin(sequence, epoch, adds=adds)
        assert isinstance(guard, Guard)
        return guard

    def try_begin(
        self, sequence: int = 0, epoch: int = 0, *, adds: bool = False
    ) -> Guard | ErrorCode | None:
        claim = TransactionClaim(PRODUCER, epoch, sequence, adds)
        return self.verifications.begin(claim, self.table.get(PRODUCER), 0)

    def send(self, sequence: int = 0, epoch: int = 0) -> ErrorCode | AppendAction:
        batch = data_batch(sequence, at=self.end, epoch=epoch, transactional=True)
        verdict = judge_batch(self.table, self.verifications, batch)
        if verdict.action is AppendAction.APPEND:
            self.table.observe(batch)
            self.verifications.drop(PRODUCER)
            self.end += 1
        return verdict.error or verdict.action

    def mark(self, epoch: int = 0, *, abort: bool = True) -> None:
        self.verifications.drop(PRODUCER)
        self.table.observe(marker_batch(self.end, abort=abort, epoch=epoch))
        self.end += 1


def test_no_producer_begins_a_transaction_without_leave() -> None:
    """A produce that arrives after the abort would open a transaction that never ends (T-13)."""
    leader = Leader()
    unasked = leader.send()
    guard = leader.begin()
    unanswered = leader.send()
    guard.confirm()

    assert [unasked, unanswered] == [ErrorCode.INVALID_TXN_STATE] * 2
    assert leader.send() is AppendAction.APPEND
    assert leader.send(1) is AppendAction.APPEND
    assert len(leader.verifications) == 0


def test_a_marker_between_question_and_answer_makes_the_answer_worthless() -> None:
    """Asked, said yes, aborted, and only then written: the very race of KAFKA-14884 (T-13)."""
    leader = Leader()
    guard = leader.begin()
    leader.mark()

    assert not guard.confirm()
    assert leader.send() is ErrorCode.INVALID_TXN_STATE


def test_a_marker_after_the_answer_counts_as_well() -> None:
    """The batch has waited behind another one while its transaction ended."""
    leader = Leader()
    guard = leader.begin()
    assert guard.confirm()
    leader.mark()

    assert leader.send() is ErrorCode.INVALID_TXN_STATE


def test_a_stale_yes_does_not_serve_the_next_transaction() -> None:
    """The ABA of KIP-890: the next transaction, in the same epoch, has asked for itself."""
    leader = Leader()
    stale = leader.begin()
    leader.mark()
    fresh = leader.begin()

    assert not stale.confirm()
    assert leader.send() is ErrorCode.INVALID_TXN_STATE
    assert fresh.confirm()
    assert leader.send() is AppendAction.APPEND


def test_questions_of_one_epoch_share_a_guard_and_those_of_another_do_not() -> None:
    """An epoch that was fenced meanwhile must not come in on the yes for its successor."""
    leader = Leader()
    first, again = leader.begin(), leader.begin()
    later = leader.begin(epoch=1)
    later.confirm()

    assert first is again
    assert later is not first
    assert leader.send() is ErrorCode.INVALID_TXN_STATE
    assert leader.send(epoch=1) is AppendAction.APPEND
    assert not first.confirm()


def test_an_open_transaction_need_not_ask() -> None:
    """Only the first batch in a partition costs a question."""
    leader = Leader()
    leader.begin().confirm()
    leader.send()

    assert leader.try_begin(1) is None
    leader.mark()
    assert isinstance(leader.try_begin(1), Guard)


def test_what_was_found_open_need_not_be_asked_again() -> None:
    """The batch was refused for another reason, and no end has come meanwhile."""
    leader = Leader()
    leader.begin().confirm()
    again = leader.try_begin()
    leader.mark()

    assert again is None
    assert isinstance(leader.try_begin(), Guard)


def test_a_fenced_producer_need_not_ask_either() -> None:
    """Its coordinator would only say what the partition knows already."""
    leader = Leader()
    leader.mark(epoch=3)

    assert leader.try_begin(epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert leader.send(epoch=2) is ErrorCode.INVALID_PRODUCER_EPOCH


def test_another_epoch_of_an_open_transaction_has_to_ask() -> None:
    """The partition has not heard of the end of the one before yet."""
    leader = Leader()
    leader.begin().confirm()
    leader.send()

    assert leader.send(epoch=1) is ErrorCode.INVALID_TXN_STATE
    assert isinstance(leader.try_begin(epoch=1), Guard)


def test_a_repetition_is_recognised_without_leave() -> None:
    """Its transaction may have been open only a moment ago, on the old connection."""
    leader = Leader()
    leader.begin().confirm()
    leader.send()

    assert leader.send() is AppendAction.DUPLICATE


def test_no_batch_overtakes_one_that_waits_for_its_transaction() -> None:
    """Sequence 0 gets a passing error, sequence 1 comes through: 0 could never be repeated."""
    leader = Leader()
    leader.begin(0)
    leader.begin(1).confirm()
    leader.try_begin(2)

    assert leader.send(1) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.send(0) is AppendAction.APPEND
    assert leader.send(1) is AppendAction.APPEND


def test_sequences_that_wrap_around_do_not_overtake_either() -> None:
    """After 2^31 records of one epoch the small number is the later one (T-03): if the first batch
    were refused for its sake, it could never be repeated with success."""
    leader = Leader()
    leader.begin(2**31 - 1)
    leader.begin(0).confirm()

    assert leader.send(0) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert leader.send(2**31 - 1) is AppendAction.APPEND
    assert leader.send(0) is AppendAction.APPEND


@pytest.mark.parametrize(
    ("adds", "sequence", "answer"),
    [
        (True, 0, AppendAction.APPEND),
        (True, 1, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER),
        (False, 1, AppendAction.APPEND),
    ],
)
def test_in_version_2_an_unknown_producer_begins_with_zero(
    adds: bool, sequence: int, answer: ErrorCode | AppendAction
) -> None:
    """Each transaction has an epoch of its own, so nothing before it can have been deleted."""
    leader = Leader()
    leader.begin(sequence, adds=adds).confirm()

    assert leader.send(sequence) is answer


def test_offsets_need_leave_and_no_sequence() -> None:
    """Group coordinators write them for the producer, without sequences (T-23)."""
    leader = Leader()
    refused = leader.send(NO_SEQUENCE)
    leader.begin(NO_SEQUENCE).confirm()

    assert refused is ErrorCode.INVALID_TXN_STATE
    assert leader.send(NO_SEQUENCE) is AppendAction.APPEND


def test_plain_batches_need_no_leave() -> None:
    """Idempotence alone has no transaction, and leaves guards as they are."""
    leader = Leader()
    guard = leader.begin()

    assert judge_batch(leader.table, leader.verifications, data_batch(0)) == APPEND
    assert guard.is_standing


def test_a_refusal_for_good_leaves_nothing_behind() -> None:
    """A client that tries one producer id after the other must not fill the memory."""
    leader = Leader()
    other = leader.begin(epoch=1)
    leader.verifications.forget(PRODUCER, leader.begin(5))
    forgotten = len(leader.verifications)
    leader.begin(7).confirm()
    leader.verifications.forget(PRODUCER, leader.begin(epoch=1))

    assert forgotten == 1
    assert not other.is_standing
    assert leader.send(7) is AppendAction.APPEND


def test_unused_verification_guards_expire() -> None:
    """Producers die between question and answer; their guards must not accumulate."""
    verifications = Verifications()
    guards = [verifications.begin(TransactionClaim(number, 0), None, number) for number in range(3)]
    verifications.expire(11, 10)

    assert len(verifications) == 1
    assert [isinstance(one, Guard) and one.is_standing for one in guards] == [False, False, True]


def test_an_open_transaction_is_closed_to_another_transactional_id() -> None:
    """Producer ids are numbers that can be guessed; what a coordinator has confirmed decides."""
    leader = Leader()
    leader.begin().confirm()
    mine = TransactionClaim(PRODUCER, 0, transactional_id="mine")
    leader.verifications.own(mine, 0)
    other = mine._replace(transactional_id="other")

    def judged(claim: TransactionClaim) -> Guard | ErrorCode | None:
        return leader.verifications.begin(claim, leader.table.get(PRODUCER), 0)

    before = judged(other), judged(mine._replace(base_sequence=0))
    assert leader.send() is AppendAction.APPEND
    assert before == (ErrorCode.INVALID_PRODUCER_ID_MAPPING, None)
    assert (judged(other), judged(mine)) == before

    leader.verifications.expire(1_000, 1_000)
    assert judged(other) is None
