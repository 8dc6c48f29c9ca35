"""EndTxn: what each state answers, and what a verdict does to the epoch."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction import ending
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import (
    A0,
    CLASSIC,
    FIRST_PRODUCER_ID,
    ID,
    VERSION_2,
    Producer,
    Scene,
    begun,
    standing,
)
from tests.coordinator.transaction.tables import STATES, example, read_table

CODES = {
    "C": ErrorCode.CONCURRENT_TRANSACTIONS,
    "I": ErrorCode.INVALID_TXN_STATE,
    "F": ErrorCode.PRODUCER_FENCED,
}
CURRENT = Producer(FIRST_PRODUCER_ID, 5)
LAST = Producer(FIRST_PRODUCER_ID, 4)
LIMIT = 32_766

_CLASSIC = read_table(ending.__doc__, "classic")
_VERSION_2 = read_table(ending.__doc__, "version 2")


def cells(table: dict[tuple[str, str], str]) -> list[tuple[str, str, str]]:
    """Row, state and what is expected."""
    prepared = ("PrepareCommit", "PrepareAbort")
    return [
        (row, state, cell)
        for (row, column), cell in table.items()
        for state in (prepared if column == "Prepare*" else (column,))
    ]


def outcome(scene: Scene, ticket: int) -> str:
    """The letter of the tables for what has come of a request."""
    error = scene.error(ticket)
    if error is None:
        (append,) = scene.appends
        assert append.records[0].key.endswith(ID.encode())
        return "end"
    assert scene.appends == []
    letters = {code: letter for letter, code in CODES.items()}
    return letters.get(error, "ok" if error is ErrorCode.NONE else error.name)


@pytest.mark.requirement("TXN-35", "TXN-44")
@pytest.mark.parametrize(("verdict", "state", "expected"), cells(_CLASSIC))
def test_every_state_answers_a_classic_end_as_its_table_says(
    verdict: str, state: str, expected: str
) -> None:
    """A cell that differs commits what was aborted, or stops a producer that did nothing wrong."""
    scene = standing(example(STATES[state]))
    ticket = scene.end(CURRENT, is_commit=verdict == "commit", api_version=CLASSIC)

    assert outcome(scene, ticket) == expected


@pytest.mark.requirement("TXN-35", "TXN-44")
@pytest.mark.parametrize(("verdict", "state", "expected"), cells(_VERSION_2))
def test_every_state_answers_an_end_of_version_2_as_its_table_says(
    verdict: str, state: str, expected: str
) -> None:
    """The epoch alone tells a repetition from the verdict over the next transaction (KIP-890)."""
    scene = standing(example(STATES[state]))
    word, epoch = verdict.split(", ")
    ticket = scene.end(LAST if epoch == "last" else CURRENT, is_commit=word == "commit")

    assert outcome(scene, ticket) == expected
    if expected == "ok":
        assert scene.producer(ticket) == CURRENT


@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("producer_epoch", [-1, 3, 6])
def test_any_other_epoch_is_fenced(api_version: int, state: str, producer_epoch: int) -> None:
    """Older and newer ones alike (hazard T-11): no producer was ever given the newer epoch."""
    known = example(STATES[state])
    if producer_epoch < 0:
        known = known._replace(last_producer_epoch=-1)
    scene = standing(known)
    scene.shard.scope.transactions[ID].metadata = known
    other = Producer(FIRST_PRODUCER_ID, producer_epoch)
    ticket = scene.end(other, is_commit=False, api_version=api_version)
    waits = api_version == VERSION_2 and STATES[state].is_prepared

    assert outcome(scene, ticket) == ("C" if waits else "F")


@pytest.mark.requirement("TXN-41")
@pytest.mark.parametrize(
    ("api_version", "expected"),
    [(0, ErrorCode.INVALID_PRODUCER_EPOCH), (1, ErrorCode.INVALID_PRODUCER_EPOCH)]
    + [(version, ErrorCode.PRODUCER_FENCED) for version in (2, 3, 4, 5)],
)
def test_older_clients_get_the_fencing_code_of_their_version(
    api_version: int, expected: ErrorCode
) -> None:
    """They would treat an unknown code as retriable."""
    scene = standing(example(TransactionState.ONGOING))
    ticket = scene.end(Producer(FIRST_PRODUCER_ID, 2), api_version=api_version)

    assert scene.error(ticket) is expected


@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
def test_no_producer_ends_the_transaction_of_another(api_version: int) -> None:
    """A producer id that this transactional id does not have, an id that is unknown, or none."""
    scene = standing(example(TransactionState.ONGOING))
    stranger = scene.end(Producer(7, 5), api_version=api_version)
    unknown = scene.end(CURRENT, transactional_id="other", api_version=api_version)
    nameless = scene.end(CURRENT, transactional_id="", api_version=api_version)

    assert scene.error(stranger) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert scene.error(unknown) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert scene.error(nameless) is ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_who_comes_while_the_verdict_is_written_comes_again(
    api_version: int, is_commit: bool
) -> None:
    """No request is decided on state that is not yet written."""
    scene = standing(example(TransactionState.ONGOING))
    scene.end(CURRENT, api_version=api_version)
    again = scene.end(CURRENT, is_commit=is_commit, api_version=api_version)
    adding = scene.add(CURRENT, A0)
    initialising = scene.init()

    for ticket in (again, adding, initialising):
        assert scene.error(ticket) is ErrorCode.CONCURRENT_TRANSACTIONS


@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
def test_the_producer_is_answered_when_the_verdict_is_committed(api_version: int) -> None:
    """Before, it could still vanish; after, no marker need be waited for."""
    scene = standing(example(TransactionState.ONGOING))
    ticket = scene.end(CURRENT, api_version=api_version)
    early = scene.error(ticket)
    scene.commit()

    assert early is None
    assert scene.markers
    expected = CURRENT.bumped() if api_version == VERSION_2 else Producer(-1, -1)
    assert scene.producer(ticket) == expected


@pytest.mark.requirement("TXN-52")
@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
@pytest.mark.parametrize("is_commit", [True, False])
def test_an_end_that_is_repeated_to_the_next_coordinator_succeeds_at_once(
    api_version: int, is_commit: bool
) -> None:
    """The answer was lost with the coordinator; the transaction was not."""
    scene, producer = begun(A0)
    first = scene.end(producer, is_commit=is_commit, api_version=api_version)
    scene.settle()
    other = scene.reloaded()
    again = other.end(producer, is_commit=is_commit, api_version=api_version)

    assert other.appends == []
    assert other.producer(again) == scene.producer(first)


@pytest.mark.requirement("TXN-50")
@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
def test_an_end_that_was_never_written_is_written_by_the_next_coordinator(api_version: int) -> None:
    """The producer looks for the new one and repeats its request."""
    scene, producer = begun(A0)
    scene.end(producer, api_version=api_version)
    other = scene.reloaded()
    again = other.end(producer, api_version=api_version)
    other.settle()

    assert other.error(again) is ErrorCode.NONE
    assert other.state is TransactionState.COMPLETE_COMMIT
    assert [markers.partitions for markers in other.all_markers] == [(A0,)]


def test_a_late_verdict_does_not_reach_the_next_transaction() -> None:
    """A commit of the first transaction, held up on its way, must not end the second half-way
    (hazard T-12)."""
    scene, first = begun(A0)
    second = scene.producer(_settled_end(scene, first))
    scene.add(second, A0)
    scene.settle()
    late = [scene.end(first, is_commit=is_commit) for is_commit in (True, False)]

    assert [scene.error(ticket) for ticket in late] == [ErrorCode.PRODUCER_FENCED] * 2
    assert scene.state is TransactionState.ONGOING


def test_a_late_verdict_of_the_classic_protocol_does_reach_it() -> None:
    """Known and documented: only version 2 closes this hole of Kafka's (hazard T-12)."""
    scene, producer = begun(A0, transaction_version=1)
    scene.end(producer, api_version=CLASSIC)
    scene.settle()
    scene.add(producer, A0, transaction_version=1)
    scene.settle()
    scene.end(producer, api_version=CLASSIC)
    scene.settle()

    assert scene.state is TransactionState.COMPLETE_COMMIT


@pytest.mark.requirement("TXN-03")
@pytest.mark.parametrize("is_commit", [True, False])
def test_a_producer_that_was_replaced_does_not_get_the_epoch_of_its_successor(
    is_commit: bool,
) -> None:
    """The older one speaks version 2, the newer one the classic protocol: its end raises nothing,
    so the epoch before is no repetition."""
    scene, old = begun()
    ticket = scene.init()
    scene.settle()
    new = scene.producer(ticket)
    scene.add(new, A0, transaction_version=1)
    scene.settle()
    scene.end(new, is_commit=is_commit, api_version=CLASSIC)
    during = scene.end(old, is_commit=is_commit)
    scene.settle()
    after = scene.end(old, is_commit=is_commit)

    assert scene.error(during) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.error(after) is ErrorCode.PRODUCER_FENCED


# While markers are written.


@pytest.mark.parametrize("limit", [5, LIMIT])
def test_the_next_transaction_waits_for_the_end_of_the_last_one(limit: int) -> None:
    """The producer was answered with the verdict and begins at once: it is no stranger, though the
    producer id and epoch that it has been given are not in force yet."""
    scene = standing(example(TransactionState.ONGOING, limit))
    ticket = scene.end(Producer(FIRST_PRODUCER_ID, limit))
    if scene.draws:
        scene.give()
    scene.commit()
    given = scene.producer(ticket)
    early = [scene.end(given, is_commit=False), scene.init(given)]
    added = [scene.add(given, A0)]
    scene.mark()
    late = [scene.end(given, is_commit=False), scene.init(given)]
    added.append(scene.add(given, A0))
    scene.settle()

    for refused in (*early, *late):
        assert scene.error(refused) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert [scene.error(ticket) for ticket in added] == [ErrorCode.NONE, ErrorCode.NONE]
    assert scene.state is TransactionState.ONGOING


# Nothing to abort.


@pytest.mark.parametrize("state", ["Empty", "CompleteCommit", "CompleteAbort"])
def test_an_abort_of_nothing_needs_no_markers(state: str) -> None:
    """The producer did not know whether its partitions were added (KIP-890)."""
    scene = standing(example(STATES[state]))
    scene.wall_ms += 5
    ticket = scene.end(CURRENT, is_commit=False)
    scene.settle()

    assert scene.all_markers == []
    assert scene.producer(ticket) == CURRENT.bumped()
    known = scene.metadata()
    assert known is not None
    assert known.state is TransactionState.COMPLETE_ABORT
    assert known.start_wall_ms == scene.wall_ms


# Appends that fail.


@pytest.mark.parametrize("api_version", [CLASSIC, VERSION_2])
@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.COORDINATOR_NOT_AVAILABLE),
        (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_COORDINATOR),
        (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_verdict_that_is_not_written_leaves_everything_as_it_was(
    api_version: int, error: ErrorCode, expected: ErrorCode
) -> None:
    """Otherwise the id answers CONCURRENT_TRANSACTIONS until a restart (hazard T-19)."""
    scene = standing(example(TransactionState.ONGOING))
    before = scene.metadata()
    refused = scene.end(CURRENT, api_version=api_version)
    scene.fail(error)
    after = scene.metadata()
    again = scene.end(CURRENT, api_version=api_version)
    scene.settle()

    assert scene.error(refused) is expected
    assert after == before
    assert scene.error(again) is ErrorCode.NONE
    assert len(scene.all_markers) == 1


def test_a_request_that_waits_too_long_is_answered_once_with_a_timeout() -> None:
    """The verdict may still come into force; the producer's repetition will find out."""
    scene = standing(example(TransactionState.ONGOING))
    ticket = scene.end(CURRENT)
    scene.overdue()
    told = scene.error(ticket)
    meanwhile = scene.end(CURRENT)
    scene.settle()
    again = scene.end(CURRENT)

    assert told is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.error(meanwhile) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.producer(again) == CURRENT.bumped()


def _settled_end(scene: Scene, producer: Producer) -> int:
    ticket = scene.end(producer)
    scene.settle()
    return ticket
