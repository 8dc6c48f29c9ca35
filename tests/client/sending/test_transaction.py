"""The machine of a transactional producer: what may be called, what is asked, what errors do."""

from __future__ import annotations

import pytest

from ottla.client.records.committed import Committed, ConsumerGroupMetadata
from ottla.client.sending.coordinator_requests import (
    NO_IDENTITY,
    AskEnd,
    AskGroup,
    AskIdentity,
    AskOffsets,
    AskPartitions,
)
from ottla.client.sending.sequences import ProducerIdentity
from ottla.client.sending.transaction import ProducerTransaction
from ottla.client.sending.transaction_states import ProducerTransactionState
from ottla.client.sending.transaction_verdict import (
    EVERYWHERE,
    OF_STEP,
    Judgement,
    NextStep,
    judge_error,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

NONE = ErrorCode.NONE
FIRST, SECOND = TopicPartition("t", 0), TopicPartition("t", 1)
ME = ProducerIdentity(7, 0)
OFFSETS = AskOffsets(ConsumerGroupMetadata("g"), {FIRST: Committed(1)})


def ready(version: int) -> ProducerTransaction:
    """An initialized producer."""
    machine = ProducerTransaction()
    machine.initialize()
    assert machine.advance(unresolved=False) == AskIdentity(NO_IDENTITY)
    machine.level, machine.can_renew = version, True
    assert machine.initialized(NONE, ME) is Judgement.DONE
    return machine


def opened(version: int, *partitions: TopicPartition) -> ProducerTransaction:
    """A machine with records in these partitions, which the coordinator knows."""
    machine = ready(version)
    machine.begin()
    for partition in partitions:
        machine.parts.admit(partition)
    ask = machine.advance(unresolved=True)
    if ask is not None:
        machine.added(ask, [NONE for _ in partitions])
    machine.parts.is_known = bool(partitions)
    return machine


# What is asked.


def test_version_1_announces_a_partition_before_its_first_batch() -> None:
    """All partitions that are new are announced in one request."""
    machine = ready(1)
    machine.begin()
    machine.parts.admit(SECOND)
    machine.parts.admit(FIRST)
    ask = machine.advance(unresolved=True)

    assert ask == AskPartitions((FIRST, SECOND))
    assert not machine.may_go(FIRST)
    machine.added(ask, [NONE, NONE])
    assert machine.may_go(FIRST)
    machine.parts.admit(FIRST)
    assert machine.advance(unresolved=True) is None


def test_a_partition_that_comes_while_others_are_announced_is_next() -> None:
    """The partition was not part of the request in flight."""
    machine = ready(1)
    machine.begin()
    machine.parts.admit(FIRST)
    ask = machine.advance(unresolved=True)
    assert ask is not None
    machine.parts.admit(SECOND)
    machine.added(ask, [NONE])

    assert machine.advance(unresolved=True) == AskPartitions((SECOND,))


def test_version_2_lets_everything_go_at_once() -> None:
    """The broker announces it."""
    machine = ready(2)
    machine.begin()
    machine.parts.admit(FIRST)

    assert machine.may_go(FIRST)
    assert machine.advance(unresolved=True) is None


@pytest.mark.requirement("TXN-19")
def test_a_group_is_announced_once() -> None:
    """Its second offsets go straight to its coordinator."""
    machine = ready(1)
    machine.begin()
    machine.parts.send_offsets(OFFSETS)
    machine.parts.send_offsets(AskOffsets(OFFSETS.group, {FIRST: Committed(2)}))
    asked = []
    while (ask := machine.advance(unresolved=False)) is not None:
        asked.append(ask)
        machine.added(ask, [NONE])

    assert asked == [AskGroup("g"), OFFSETS, AskOffsets(OFFSETS.group, {FIRST: Committed(2)})]


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.requirement("TXN-26")
def test_the_end_comes_behind_everything_else(version: int) -> None:
    """Records without a fate, and offsets that are not sent."""
    machine = opened(version, FIRST)
    machine.parts.send_offsets(OFFSETS)
    machine.commit()
    while isinstance(ask := machine.advance(unresolved=True), AskGroup | AskOffsets):
        machine.added(ask, [NONE])

    assert ask is None
    assert machine.advance(unresolved=False) == AskEnd(True)


@pytest.mark.parametrize("version", [1, 2])
def test_nothing_is_asked_about_a_transaction_of_nothing(version: int) -> None:
    """The coordinator does not know of an empty transaction."""
    for is_commit in (True, False):
        machine = ready(version)
        machine.begin()
        (machine.commit if is_commit else machine.abort)()

        assert machine.advance(unresolved=False) is None
        assert (machine.state, machine.outcome) == (ProducerTransactionState.READY, is_commit)


def test_an_abort_forgets_what_was_not_announced() -> None:
    """A partition that was announced would only have to be ended."""
    machine = opened(1, FIRST)
    machine.parts.admit(SECOND)
    machine.parts.send_offsets(OFFSETS)
    machine.abort()

    assert machine.advance(unresolved=True) is None
    assert machine.advance(unresolved=False) == AskEnd(False)


# Doubt.


@pytest.mark.parametrize("is_commit", [True, False])
@pytest.mark.parametrize("version", [1, 2])
def test_an_end_that_is_lost_on_its_way_cannot_end_the_next_transaction(
    version: int, is_commit: bool
) -> None:
    """Half of that would be committed, or all of it aborted after it was called committed (T-12).
    Version 2 has an epoch for each anyway."""
    machine = opened(version, FIRST)
    machine.commit() if is_commit else machine.abort()
    end = machine.advance(unresolved=False)
    assert end == AskEnd(is_commit)
    machine.lost(end)
    assert machine.advance(unresolved=False) == end
    machine.ended(end, NONE, NO_IDENTITY if version == 1 else ProducerIdentity(7, 1))

    renewed = AskIdentity(ME) if version == 1 else None
    assert machine.outcome is is_commit
    assert machine.advance(unresolved=False) == renewed


def test_an_announcement_that_is_lost_cannot_begin_a_transaction_of_its_own() -> None:
    """The coordinator would keep it open until its timeout, and then fence the producer (T-13)."""
    machine = ready(1)
    machine.begin()
    machine.parts.admit(FIRST)
    ask = machine.advance(unresolved=True)
    assert ask is not None
    machine.lost(ask)
    machine.added(ask, [NONE])
    machine.commit()
    machine.ended(AskEnd(True), NONE, NO_IDENTITY)

    assert machine.advance(unresolved=False) == AskIdentity(ME)


@pytest.mark.parametrize(
    "code", [ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED]
)
def test_an_abort_that_is_refused_for_good_is_not_asked_for_again(code: ErrorCode) -> None:
    """Otherwise the producer would retry for ever without an error."""
    machine = opened(1, FIRST)
    machine.abort()
    machine.ended(AskEnd(False), code, NO_IDENTITY)

    assert machine.state is ProducerTransactionState.FATAL
    assert machine.failure is not None
    assert machine.failure.code is code


def test_a_lost_announcement_is_aborted_whether_it_arrived_or_not() -> None:
    """If it did not, the coordinator knows of nothing to abort, and that is well; the epoch goes
    up, because it may still arrive."""
    for code in (NONE, ErrorCode.INVALID_TXN_STATE):
        machine = ready(1)
        machine.begin()
        machine.parts.admit(FIRST)
        ask = machine.advance(unresolved=True)
        assert ask is not None
        machine.lost(ask)
        machine.abort()
        end = machine.advance(unresolved=False)
        assert end == AskEnd(False)
        machine.ended(AskEnd(False), code, NO_IDENTITY)

        assert machine.outcome is False
        assert machine.advance(unresolved=False) == AskIdentity(ME)


def test_a_transaction_that_is_known_cannot_be_unknown_to_its_coordinator() -> None:
    """Client and coordinator disagree, so the client cannot know what is open."""
    machine = opened(1, FIRST)
    machine.abort()
    machine.advance(unresolved=False)
    machine.ended(AskEnd(False), ErrorCode.INVALID_TXN_STATE, NO_IDENTITY)

    assert machine.state is ProducerTransactionState.FATAL


@pytest.mark.parametrize("code", [ErrorCode.PRODUCER_FENCED, ErrorCode.INVALID_PRODUCER_ID_MAPPING])
@pytest.mark.parametrize("was_lost", [True, False])
def test_a_commit_in_doubt_is_never_called_aborted(code: ErrorCode, was_lost: bool) -> None:
    """The first request may have committed before the second was refused."""
    machine = opened(2, FIRST)
    machine.commit()
    ask = machine.advance(unresolved=False)
    assert isinstance(ask, AskEnd)
    if was_lost:
        machine.lost(ask)
    machine.ended(ask, code, NO_IDENTITY)

    failure = machine.failure
    assert failure is not None
    assert failure.is_in_doubt is was_lost
    if was_lost:
        assert machine.state is ProducerTransactionState.FATAL


@pytest.mark.parametrize("first", [ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize(
    "second",
    [
        ErrorCode.PRODUCER_FENCED,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
        ErrorCode.TRANSACTION_ABORTABLE,
    ],
)
def test_an_answer_that_leaves_the_outcome_open_puts_a_commit_in_doubt(
    first: ErrorCode, second: ErrorCode
) -> None:
    """A coordinator says this of a verdict that it has written and whose replicas are slow: the
    application must not abort, and do again, what may be committed by now."""
    machine = opened(2, FIRST)
    machine.commit()
    ask = machine.advance(unresolved=False)
    assert isinstance(ask, AskEnd)
    assert machine.ended(ask, first, NO_IDENTITY) is Judgement.ELSEWHERE
    assert machine.advance(unresolved=False) == ask
    machine.ended(ask, second, NO_IDENTITY)

    assert machine.state is ProducerTransactionState.FATAL
    assert machine.failure is not None
    assert machine.failure.is_in_doubt


def test_errors_of_a_transaction_that_is_being_aborted_are_no_news() -> None:
    """The abort causes gaps in its sequences; being fenced is a new error."""
    machine = opened(2, FIRST)
    machine.abort()
    states = []
    for code in (
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.MESSAGE_TOO_LARGE,
        ErrorCode.PRODUCER_FENCED,
    ):
        machine.batch_failed(code)
        states.append(machine.state)

    assert states == [
        ProducerTransactionState.ABORTING,
        ProducerTransactionState.ABORTING,
        ProducerTransactionState.FATAL,
    ]


def test_of_many_answers_the_worst_one_counts() -> None:
    """OPERATION_NOT_ATTEMPTED would only say that there is another error."""
    machine = ready(1)
    machine.begin()
    machine.parts.admit(FIRST)
    machine.parts.admit(SECOND)
    ask = machine.advance(unresolved=True)
    assert ask is not None
    codes = [ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.TOPIC_AUTHORIZATION_FAILED]
    machine.added(ask, codes)

    assert machine.state is ProducerTransactionState.BROKEN
    assert machine.failure is not None
    assert machine.failure.code is ErrorCode.TOPIC_AUTHORIZATION_FAILED


# The table.


@pytest.mark.requirement("TXN-41", "TXN-43", "TXN-45", "TXN-48")
@pytest.mark.parametrize(
    ("code", "expected"),
    [
        (ErrorCode.INVALID_PRODUCER_EPOCH, Judgement.FATAL),
        (ErrorCode.PRODUCER_FENCED, Judgement.FATAL),
        (ErrorCode.INVALID_TRANSACTION_TIMEOUT, Judgement.FATAL),
        (ErrorCode.NOT_COORDINATOR, Judgement.ELSEWHERE),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, Judgement.ELSEWHERE),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, Judgement.AGAIN),
        (ErrorCode.CONCURRENT_TRANSACTIONS, Judgement.AGAIN),
        (ErrorCode.NETWORK_EXCEPTION, Judgement.AGAIN),
        (ErrorCode.UNKNOWN_SERVER_ERROR, Judgement.FATAL),
    ],
)
def test_the_table_says_the_same_at_every_request(code: ErrorCode, expected: Judgement) -> None:
    """Errors that differ between steps have their own rows."""
    steps = [
        NextStep.INITIALIZE,
        NextStep.ADD_OFFSETS,
        NextStep.COMMIT_OFFSETS,
        NextStep.COMMIT,
        NextStep.ABORT,
    ]

    assert {judge_error(step, code) for step in steps} == {expected}


def test_a_batch_is_never_tried_again_by_the_table() -> None:
    """The producer retries batches by itself before it asks the table."""
    worse = {judge_error(NextStep.PRODUCE, code) for code in ErrorCode if code is not NONE}

    assert worse == {Judgement.ABORTABLE, Judgement.FORGOTTEN, Judgement.FATAL}


def test_no_row_repeats_what_holds_everywhere() -> None:
    """A row that changes nothing hides the ones that do."""
    for rows in OF_STEP.values():
        assert not [code for code, value in rows.items() if EVERYWHERE.get(code) is value]
