"""InitProducerId: who gets which producer id and epoch, and whom that stops."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.transaction import initialising
from ottla.coordinator.transaction.settings import TransactionSettings
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import (
    A0,
    CLASSIC,
    FIRST_PRODUCER_ID,
    ID,
    NEXT_PRODUCER_ID,
    NOBODY_YET,
    TIMEOUT_MS,
    VERSION_2,
    Producer,
    Scene,
    begun,
    standing,
)
from tests.coordinator.transaction.tables import STATES, example, read_table

if TYPE_CHECKING:
    from ottla.coordinator.transaction.metadata import TransactionMetadata

LIMIT = 32_766
CURRENT = Producer(FIRST_PRODUCER_ID, 5)
ROWS = {
    "PrepareCommit, PrepareAbort": ("PrepareCommit", "PrepareAbort"),
    "Ongoing": ("Ongoing",),
    "Empty, Complete*, below 32766": ("Empty", "CompleteCommit", "CompleteAbort"),
    "Empty, Complete*, from 32766 on": ("Empty", "CompleteCommit", "CompleteAbort"),
}
_TABLE = read_table(initialising.__doc__, "state, epoch")
CELLS = [(row, column, state) for row, column in _TABLE for state in ROWS.get(row, ())]


def outcome(scene: Scene, ticket: int, known: TransactionMetadata) -> str:
    """The words of the table for what has come of a request once everything is settled."""
    scene.settle()
    error = scene.error(ticket)
    if error is ErrorCode.CONCURRENT_TRANSACTIONS:
        return "concurrent" if scene.metadata() == known else "fence"
    if error is ErrorCode.PRODUCER_FENCED:
        return "fenced"
    if error is not ErrorCode.NONE:
        return str(error)
    given = scene.producer(ticket)
    words = {
        Producer(NEXT_PRODUCER_ID, 0): "new id, epoch 0",
        Producer(known.producer_id, known.producer_epoch): "as it is",
        Producer(known.producer_id, known.producer_epoch + 1): "epoch + 1",
    }
    return words[given]


def had(column: str, known: TransactionMetadata) -> Producer:
    return {
        "had nothing": NOBODY_YET,
        "had the current": Producer(known.producer_id, known.producer_epoch),
        "had the last": Producer(known.producer_id, known.producer_epoch - 1),
        "other": Producer(known.producer_id, known.producer_epoch - 2),
    }[column]


def known_in(row: str, state: str) -> TransactionMetadata:
    known = example(STATES[state], LIMIT if row.endswith("from 32766 on") else 5)
    return known._replace(last_producer_epoch=known.producer_epoch - 1)


@pytest.mark.requirement("TXN-02", "TXN-12", "TXN-13", "TXN-35")
@pytest.mark.parametrize(("row", "column", "state"), CELLS)
def test_every_state_answers_as_its_table_says(row: str, column: str, state: str) -> None:
    """A cell that differs lets two producers live, or none."""
    known = known_in(row, state)
    scene = standing(known)
    # The log does not have the last epoch; this coordinator has seen it being raised.
    transaction = scene.shard.scope.transactions[ID]
    transaction.metadata = known
    held, scene.markers = scene.markers, []
    ticket = scene.init(had(column, known))
    found = outcome(scene, ticket, known)
    scene.markers = held

    assert found == _TABLE[row, column].replace("concurr.", "concurrent")


@pytest.mark.requirement("TXN-42")
@pytest.mark.parametrize("who", [NOBODY_YET, CURRENT, Producer(7, 0)])
def test_an_unknown_id_gets_a_producer_id_whatever_its_producer_has_had(who: Producer) -> None:
    """Its old producer id may have expired: it continues with another one."""
    scene = Scene()
    ticket = scene.init(who)
    scene.settle()

    assert scene.producer(ticket) == Producer(FIRST_PRODUCER_ID, 0)


@pytest.mark.parametrize("who", [NOBODY_YET, CURRENT, Producer(7, 0)])
@pytest.mark.parametrize("is_drawn", [False, True])
def test_who_comes_while_another_is_served_comes_again(who: Producer, is_drawn: bool) -> None:
    """While the producer id is drawn, and while the record is written."""
    scene = Scene()
    first = scene.init()
    if is_drawn:
        scene.give()
    second = scene.init(who)
    scene.settle()

    assert scene.error(second) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.error(first) is ErrorCode.NONE


@pytest.mark.requirement("TXN-11")
def test_the_answer_leaves_when_the_record_is_committed() -> None:
    """A producer id that the next coordinator does not know is no good."""
    scene = Scene()
    ticket = scene.init()
    scene.give()
    early = scene.error(ticket)
    scene.commit()

    assert early is None
    assert scene.producer(ticket) == Producer(FIRST_PRODUCER_ID, 0)
    again = scene.reloaded()
    ticket = again.init()
    again.settle()
    assert again.producer(ticket) == Producer(FIRST_PRODUCER_ID, 1)


@pytest.mark.requirement("TXN-03", "TXN-41")
@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
def test_every_request_of_the_producer_before_is_refused(api_version: int) -> None:
    """While the new instance works the old one can no longer write."""
    scene, old = begun()
    scene.init()
    scene.settle()
    requests = [
        scene.add(old, A0),
        scene.end(old, api_version=api_version),
        scene.end(old, is_commit=False, api_version=api_version),
    ]
    scene.init()
    scene.settle()
    requests.append(scene.init(old))

    for ticket in requests:
        assert scene.error(ticket) is ErrorCode.PRODUCER_FENCED
    assert scene.verify(old, A0) == {A0: ErrorCode.PRODUCER_FENCED}


@pytest.mark.requirement("TXN-04", "TXN-13", "TXN-14")
def test_an_open_transaction_is_aborted_before_the_next_producer_begins() -> None:
    """The new instance comes until it is told a producer id, and then nothing is open."""
    scene, old = begun(A0)
    first = scene.init()
    scene.commit()
    during = scene.init()
    (markers,) = scene.markers
    scene.mark()
    completing = scene.init()
    scene.settle()
    last = scene.init()
    scene.settle()

    for ticket in (first, during, completing):
        assert scene.error(ticket) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert (markers.is_commit, markers.producer_epoch) == (False, old.producer_epoch + 1)
    assert scene.producer(last) == Producer(old.producer_id, old.producer_epoch + 2)
    assert scene.state is TransactionState.EMPTY


@pytest.mark.requirement("TXN-13")
def test_a_transaction_that_is_decided_is_completed_and_not_aborted() -> None:
    """A new producer does not change the decision."""
    scene, old = begun(A0)
    scene.end(old)
    scene.commit()
    refused = scene.init()
    scene.settle()

    assert scene.error(refused) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.state is TransactionState.COMPLETE_COMMIT
    assert [markers.is_commit for markers in scene.all_markers] == [True]


def test_a_record_without_an_epoch_is_taken_as_new() -> None:
    """A first write that failed half-way has left such records (hazard T-10)."""
    for who in (NOBODY_YET, Producer(7, 3)):
        scene = standing(example(TransactionState.EMPTY, -1))
        ticket = scene.init(who)
        scene.settle()

        assert scene.producer(ticket) == Producer(FIRST_PRODUCER_ID, 0)


def test_the_timeout_is_that_of_the_newest_producer() -> None:
    """Each instance brings its own configuration."""
    scene, _ = begun()
    scene.init(timeout_ms=5_000)
    scene.settle()

    assert scene.describe().transaction_timeout_ms == 5_000


# What is refused at sight.


@pytest.mark.requirement("TXN-48")
@pytest.mark.parametrize("timeout_ms", [-1, 0, 900_001])
def test_a_timeout_outside_of_what_is_allowed_is_refused(timeout_ms: int) -> None:
    """A producer that is never timed out can stop all readers."""
    scene = Scene()
    ticket = scene.init(timeout_ms=timeout_ms)

    assert scene.error(ticket) is ErrorCode.INVALID_TRANSACTION_TIMEOUT
    assert scene.draws == []


@pytest.mark.parametrize("timeout_ms", [1, 900_000])
def test_a_timeout_up_to_what_is_allowed_is_taken(timeout_ms: int) -> None:
    """The limits themselves are fine."""
    scene = Scene(TransactionSettings(max_timeout_ms=900_000))
    ticket = scene.init(timeout_ms=timeout_ms)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.NONE


@pytest.mark.parametrize("who", [Producer(-1, 0), Producer(1_000, -1)])
def test_an_epoch_without_producer_id_is_refused_and_the_reverse(who: Producer) -> None:
    """Half of them says nothing (KIP-360)."""
    scene = Scene()

    assert scene.error(scene.init(who)) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("transactional_id", ["", "x" * 32_768])
def test_an_id_that_no_record_can_have_is_refused(transactional_id: str) -> None:
    """Empty ones are those of configurations that went wrong."""
    scene = Scene()

    assert scene.error(scene.init(transactional_id=transactional_id)) is ErrorCode.INVALID_REQUEST


@pytest.mark.requirement("TXN-41")
@pytest.mark.parametrize(
    ("api_version", "expected"),
    [(version, ErrorCode.INVALID_PRODUCER_EPOCH) for version in range(4)]
    + [(version, ErrorCode.PRODUCER_FENCED) for version in (4, 5)],
)
def test_older_clients_get_the_fencing_code_of_their_version(
    api_version: int, expected: ErrorCode
) -> None:
    """They would treat an unknown code as retriable."""
    scene = standing(example(TransactionState.EMPTY))
    ticket = scene.init(Producer(FIRST_PRODUCER_ID, 1), api_version=api_version)

    assert scene.error(ticket) is expected


# What fails on the way.


def test_a_log_that_takes_no_records_raises_no_epoch() -> None:
    """Once for each record that is written, however often a producer tries (hazard T-10)."""
    scene, producer = begun()
    for _ in range(10_000):
        scene.init()
        scene.fail()
    ticket = scene.init()
    scene.settle()

    assert scene.producer(ticket) == producer.bumped()


def test_a_first_record_that_is_not_written_wastes_no_producer_ids() -> None:
    """The one that was drawn waits for the next attempt."""
    scene = Scene()
    refused = scene.init()
    scene.give()
    scene.fail()
    unknown = scene.describe().error_code
    ticket = scene.init()
    scene.settle()

    assert scene.error(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert unknown == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert scene.producer(ticket) == Producer(FIRST_PRODUCER_ID, 0)
    assert scene.next_producer_id == FIRST_PRODUCER_ID + 1


def test_a_producer_gets_the_error_of_the_producer_id_service() -> None:
    """The coordinator passes on the error of the service that allocates producer ids."""
    scene = Scene()
    refused = scene.init()
    scene.give_nothing(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    ticket = scene.init()
    scene.settle()

    assert scene.error(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.error(ticket) is ErrorCode.NONE


def test_a_fence_that_is_not_written_leaves_the_transaction_open() -> None:
    """It is aborted with the next attempt, and its epoch raised once."""
    scene, producer = begun(A0)
    refused = scene.init()
    scene.fail()
    state = scene.state
    scene.init()
    scene.settle()
    known = scene.metadata()

    assert scene.error(refused) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state is TransactionState.ONGOING
    assert known is not None
    assert known.producer_epoch == producer.producer_epoch + 1


def test_a_request_that_waits_too_long_is_answered_once_with_a_timeout() -> None:
    """The next attempt finds what was written."""
    scene = Scene()
    ticket = scene.init(timeout_ms=TIMEOUT_MS)
    scene.give()
    scene.overdue()
    told = scene.error(ticket)
    scene.settle()

    assert told is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.describe().producer_id == FIRST_PRODUCER_ID
