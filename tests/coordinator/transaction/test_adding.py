"""Partitions join a transaction, and brokers ask whether they have."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction import adding
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.waiting import HELD_MS_MAX
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.coordinator.transaction.scene import (
    A0,
    A1,
    B0,
    FIRST_PRODUCER_ID,
    WALL_MS,
    Producer,
    begun,
    standing,
)
from tests.coordinator.transaction.tables import STATES, example, read_table

CURRENT = Producer(FIRST_PRODUCER_ID, 5)
IDLE = ["Empty", "CompleteCommit", "CompleteAbort"]
PREPARED = ["PrepareCommit", "PrepareAbort"]
WORDS = {
    "unmapped": ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    "concurrent": ErrorCode.CONCURRENT_TRANSACTIONS,
    "NONE": ErrorCode.NONE,
}
_TABLE = read_table(adding.__doc__, "what")


def expected(row: str, column: str) -> ErrorCode:
    cell = _TABLE[row, column]
    return WORDS.get(cell) or ErrorCode[cell]


def answers(state: str, producer: Producer, *partitions: TopicPartition) -> tuple[object, object]:
    """To the same request, adding and verifying."""
    scene = standing(example(STATES[state]))
    ticket = scene.add(producer, *partitions)
    (verified,) = set(scene.verify(producer, *partitions).values())
    scene.advance(HELD_MS_MAX)
    return scene.error(ticket), verified


@pytest.mark.requirement("TXN-35", "TXN-42")
@pytest.mark.parametrize("state", STATES)
def test_a_producer_with_another_id_or_epoch_adds_no_partition(state: str) -> None:
    """Another producer id, or an epoch that is not exactly the current one (hazard T-11)."""
    waits = WORDS["concurrent"] if state in PREPARED else None
    unmapped, fenced = WORDS["unmapped"], ErrorCode.PRODUCER_FENCED
    assert answers(state, Producer(7, 5), A0) == (waits or unmapped, unmapped)
    for producer_epoch in (4, 6):
        other = Producer(FIRST_PRODUCER_ID, producer_epoch)
        assert answers(state, other, A0) == (waits or fenced, fenced)


@pytest.mark.requirement("TXN-35")
@pytest.mark.parametrize("state", PREPARED)
def test_nothing_is_added_to_a_transaction_that_is_decided(state: str) -> None:
    """Its markers are on their way already, and that partition would get none."""
    added, verified = answers(state, CURRENT, A0)

    assert added is expected("moving: a record or markers are on their way", "adding")
    row = "PrepareCommit, PrepareAbort, and on its way there"
    assert verified is expected(row, "verifying")


@pytest.mark.parametrize("is_verification", [False, True])
def test_an_id_has_to_be_known(is_verification: bool) -> None:
    """The producer asks for a producer id first."""
    scene = standing(example(TransactionState.EMPTY))
    row = "an unknown transactional id", "verifying" if is_verification else "adding"
    unknown = scene.add(CURRENT, A0, transactional_id="other")
    nameless = scene.add(CURRENT, A0, transactional_id="")

    assert scene.error(unknown) is expected(*row)
    assert scene.error(nameless) is ErrorCode.INVALID_REQUEST


def test_an_id_whose_first_record_is_pending_is_unknown() -> None:
    """No client has received its producer id yet."""
    scene, _ = begun()
    scene.init(transactional_id="other")
    scene.give()
    ticket = scene.add(Producer(FIRST_PRODUCER_ID + 1, 0), A0, transactional_id="other")

    assert scene.error(ticket) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_partitions_that_are_in_already_need_no_record() -> None:
    """Producers of the classic protocol ask again for each partition they have forgotten."""
    scene, producer = begun(A0, B0)
    ticket = scene.add(producer, B0)

    assert scene.appends == []
    assert scene.error(ticket) is ErrorCode.NONE


@pytest.mark.requirement("TXN-15", "TXN-16")
@pytest.mark.parametrize("state", IDLE)
def test_the_first_partition_begins_the_transaction(state: str) -> None:
    """beginTransaction is local: the coordinator hears of it with the first partition."""
    scene = standing(example(STATES[state]))
    scene.wall_ms += 7
    before = scene.state
    ticket = scene.add(CURRENT, A0)
    scene.settle()

    known = scene.metadata()
    assert known is not None
    assert before is STATES[state]
    assert scene.error(ticket) is ErrorCode.NONE
    assert known.state is TransactionState.ONGOING
    assert known.partitions == {A0}
    assert known.start_wall_ms == known.last_update_wall_ms == WALL_MS + 7


@pytest.mark.requirement("TXN-16", "TXN-19")
def test_more_partitions_join_the_same_transaction() -> None:
    """It began with the first; a group's offsets partition is one like any other."""
    scene, producer = begun(A0)
    scene.wall_ms += 7
    scene.add(producer, A1, TopicPartition("__consumer_offsets", 3))
    scene.settle()

    known = scene.metadata()
    assert known is not None
    assert known.partitions == {A0, A1, TopicPartition("__consumer_offsets", 3)}
    assert (known.start_wall_ms, known.last_update_wall_ms) == (WALL_MS, WALL_MS + 7)


def test_adding_is_answered_when_it_is_committed() -> None:
    """A partition that only memory knew would get no marker from the next coordinator
    (hazard T-20)."""
    scene, producer = begun()
    ticket = scene.add(producer, A0)
    early = scene.error(ticket)
    verified = scene.verify(producer, A0)
    scene.commit()

    assert early is None
    assert verified == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    assert scene.error(ticket) is ErrorCode.NONE
    assert scene.reloaded().verify(producer, A0) == {A0: ErrorCode.NONE}


def test_adding_that_is_not_written_leaves_no_trace() -> None:
    """The producer retries, and the transaction does not begin before."""
    scene, producer = begun()
    before = scene.metadata()
    refused = scene.add(producer, A0)
    scene.fail(ErrorCode.NOT_ENOUGH_REPLICAS)
    after = scene.metadata()
    ticket = scene.add(producer, A0)
    scene.settle()

    assert scene.error(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert after == before
    assert scene.error(ticket) is ErrorCode.NONE


def test_a_request_that_waits_too_long_is_answered_once_with_a_timeout() -> None:
    """The partition may be in; adding it again does no harm."""
    scene, producer = begun()
    ticket = scene.add(producer, A0)
    scene.overdue()
    told = scene.error(ticket)
    scene.settle()

    assert told is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.error(scene.add(producer, A0)) is ErrorCode.NONE


# Verifying.


def test_each_partition_is_verified_by_itself() -> None:
    """A produce that is late for its transaction must not begin another one (hazard T-13)."""
    scene, producer = begun(A0, B0)

    assert scene.verify(producer, A0, A1, B0) == {
        A0: ErrorCode.NONE,
        A1: ErrorCode.TRANSACTION_ABORTABLE,
        B0: ErrorCode.NONE,
    }
    assert scene.appends == []


@pytest.mark.parametrize("state", IDLE)
def test_no_partition_is_in_a_transaction_that_is_not_open(state: str) -> None:
    """Verifying never begins one."""
    scene = standing(example(STATES[state]))

    assert scene.verify(CURRENT, A0) == {A0: ErrorCode.TRANSACTION_ABORTABLE}
    assert scene.appends == []


@pytest.mark.parametrize("is_commit", [True, False])
def test_no_partition_is_verified_while_the_verdict_is_written(is_commit: bool) -> None:
    """A batch that is allowed now could be written after the marker."""
    scene, producer = begun(A0)
    scene.end(producer, is_commit=is_commit)

    assert scene.verify(producer, A0) == {A0: ErrorCode.CONCURRENT_TRANSACTIONS}


def test_verification_works_while_partitions_are_being_added() -> None:
    """Partitions that were added stay, whatever happens to the others."""
    scene, producer = begun(A0)
    scene.add(producer, B0)

    assert scene.verify(producer, A0) == {A0: ErrorCode.NONE}


# Too many.


def test_a_transaction_that_no_record_can_hold_is_refused() -> None:
    """One that could be opened but not ended would stop its readers for ever."""
    scene, producer = begun(settings=TransactionSettings(max_record_bytes=1_000))
    many = [TopicPartition("topic", number) for number in range(200)]
    refused = scene.add(producer, *many)
    state = scene.state
    accepted = scene.add(producer, *many[:100])
    scene.settle()

    assert scene.error(refused) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert state is TransactionState.EMPTY
    assert scene.error(accepted) is ErrorCode.NONE


@pytest.mark.parametrize("size", range(150, 200, 7))
def test_what_can_be_opened_can_be_ended(size: int) -> None:
    """The records after the one that was allowed are hardly larger than that."""
    scene, producer = begun()
    scene.shard.limit_batches(lambda: 1_000)
    ticket = scene.add(
        producer, *(TopicPartition("x" * 100, number) for number in range(size)),
        transaction_version=1,
    )  # fmt: skip
    if scene.error(ticket) is not None:
        return
    scene.settle()
    scene.advance(10 * 60_000)
    (append,) = scene.appends

    batch_bytes = 61 + 30 + sum(len(key) + len(value or b"") for key, value in append.records)
    assert batch_bytes <= 1_000
