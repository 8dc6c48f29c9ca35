"""Transactions that are open for too long, and ids that are not used."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction.records import encode_key
from ottla.coordinator.transaction.settings import DAY_MS, TransactionSettings
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.timing import IdExpiry
from ottla.protocol.errors import ErrorCode
from tests.coordinator.transaction.scene import (
    A0,
    B0,
    CLASSIC,
    FIRST_PRODUCER_ID,
    ID,
    TIMEOUT_MS,
    VERSION_2,
    Producer,
    Scene,
    begun,
    standing,
)
from tests.coordinator.transaction.tables import STATES, example

SETTINGS = TransactionSettings()
WEEK_MS = 7 * 24 * 3_600_000
IDLE = ["Empty", "CompleteCommit", "CompleteAbort"]


@pytest.mark.requirement("TXN-17", "TXN-53")
def test_a_transaction_that_is_open_for_its_timeout_is_aborted() -> None:
    """Counted from its first partition."""
    scene, producer = begun()
    scene.advance(TIMEOUT_MS)
    scene.add(producer, A0)
    scene.settle()
    scene.advance(TIMEOUT_MS - 1)
    scene.add(producer, B0)
    scene.settle()
    before = scene.state
    scene.advance(1)
    scene.settle()

    assert before is TransactionState.ONGOING
    assert scene.state is TransactionState.COMPLETE_ABORT
    assert [markers.partitions for markers in scene.all_markers] == [(A0, B0)]


@pytest.mark.requirement("TXN-54", "TXN-57")
@pytest.mark.parametrize("transaction_version", [1, 2])
def test_the_rollback_of_a_timeout_raises_the_epoch(transaction_version: int) -> None:
    """The marker tells every partition, which then refuse what is still on its way."""
    scene, producer = begun(A0, transaction_version=transaction_version)
    scene.advance(TIMEOUT_MS)
    scene.settle()

    (markers,) = scene.all_markers
    *_, prepared, _ = scene.written()
    raised = producer.producer_epoch + 1
    assert prepared is not None
    assert (prepared.state.label, prepared.producer_epoch) == ("PrepareAbort", raised)
    assert (markers.is_commit, markers.producer_epoch) == (False, raised)
    assert markers.transaction_version == 2
    assert scene.error(scene.add(producer, A0)) is ErrorCode.PRODUCER_FENCED
    fenced = scene.end(producer, is_commit=False, api_version=CLASSIC)
    assert scene.error(fenced) is ErrorCode.PRODUCER_FENCED


def test_a_producer_of_version_2_survives_a_timeout_by_aborting() -> None:
    """It is told the epoch that the rollback has raised to; a commit is refused."""
    scene, producer = begun(A0)
    scene.advance(TIMEOUT_MS)
    scene.settle()
    committed = scene.end(producer)
    aborted = scene.end(producer, is_commit=False, api_version=VERSION_2)

    assert scene.error(committed) is ErrorCode.INVALID_TXN_STATE
    assert scene.producer(aborted) == producer.bumped()


def test_a_transaction_that_ends_in_time_is_not_aborted_later() -> None:
    """The alarm goes with it; the next transaction has its own."""
    scene, producer = begun(A0)
    scene.advance(TIMEOUT_MS - 1)
    ticket = scene.end(producer)
    scene.settle()
    scene.add(scene.producer(ticket), A0)
    scene.settle()
    scene.advance(TIMEOUT_MS - 1)
    before = scene.state
    scene.advance(1)
    scene.settle()

    assert before is TransactionState.ONGOING
    assert [markers.is_commit for markers in scene.all_markers] == [True, False]


def test_the_next_coordinator_gives_all_the_time_again() -> None:
    """What the wall clock of another machine said says little (hazard T-19)."""
    scene, _ = begun(A0)
    scene.advance(TIMEOUT_MS - 1)
    other = scene.reloaded()
    other.advance(TIMEOUT_MS - 1)
    before = other.state
    other.advance(1)
    other.settle()

    assert before is TransactionState.ONGOING
    assert other.state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("wall_ms", [DAY_MS, -DAY_MS])
def test_a_step_of_the_wall_clock_aborts_nothing(wall_ms: int) -> None:
    """Neither forwards nor backwards (hazard T-19)."""
    scene, _ = begun(A0)
    scene.advance(TIMEOUT_MS - 1, wall_ms=wall_ms)
    scene.settle()
    before = scene.state
    scene.advance(1)
    scene.settle()

    assert before is TransactionState.ONGOING
    assert scene.state is TransactionState.COMPLETE_ABORT


def test_a_rollback_that_is_not_written_is_tried_again() -> None:
    """A pending state that stayed would stop the id for ever (hazard T-19)."""
    scene, producer = begun(A0)
    scene.advance(TIMEOUT_MS)
    for _ in range(5):
        scene.fail()
        assert scene.state is TransactionState.ONGOING
        scene.advance(SETTINGS.timeout_check_interval_ms)
    scene.settle()

    known = scene.metadata()
    assert known is not None
    assert known.state is TransactionState.COMPLETE_ABORT
    assert known.producer_epoch == producer.producer_epoch + 1


def test_a_rollback_waits_for_what_is_being_written() -> None:
    """A partition that joins in that moment gets its marker, too."""
    scene, producer = begun(A0)
    scene.add(producer, B0)
    scene.advance(TIMEOUT_MS)
    assert len(scene.appends) == 1

    scene.settle()
    scene.advance(SETTINGS.timeout_check_interval_ms)
    scene.settle()
    assert [markers.partitions for markers in scene.all_markers] == [(A0, B0)]


def test_a_rollback_of_the_last_epoch_waits_for_a_producer_id() -> None:
    """Without a new producer id the rollback is retried."""
    scene = standing(example(TransactionState.ONGOING, 32_766))
    scene.advance(TIMEOUT_MS)
    scene.give_nothing()
    before = scene.state
    scene.advance(SETTINGS.timeout_check_interval_ms)
    scene.settle()

    assert before is TransactionState.ONGOING
    assert scene.state is TransactionState.COMPLETE_ABORT


@pytest.mark.parametrize("state", ["PrepareCommit", "PrepareAbort"])
def test_a_verdict_has_no_timeout(state: str) -> None:
    """However long a partition cannot be reached (TXN-60)."""
    scene = standing(example(STATES[state]))
    scene.advance(10 * TIMEOUT_MS)

    assert scene.state is STATES[state]
    assert len(scene.all_markers) == 1


# Ids that are not used.


@pytest.mark.requirement("TXN-59", "TXN-34")
@pytest.mark.parametrize("state", IDLE)
def test_an_unused_transactional_id_expires(state: str) -> None:
    """The id is removed from memory, and the log gets a tombstone."""
    scene = standing(example(STATES[state]))
    scene.advance(WEEK_MS - 1)
    before = scene.describe().error_code
    scene.advance(SETTINGS.expiry_check_interval_ms)
    scene.settle()

    assert before == ErrorCode.NONE
    assert scene.written()[-1] is None
    assert scene.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert scene.reloaded().metadata() is None


@pytest.mark.requirement("TXN-59")
def test_no_transactional_id_expires_while_the_wall_clock_is_in_doubt() -> None:
    """S-18: after a clock step of a month all ids look unused, and producers at work would fail."""
    scene = standing(example(TransactionState.COMPLETE_COMMIT))
    scene.is_wall_trusted = False
    scene.wall_ms += 5 * WEEK_MS
    scene.advance(10 * SETTINGS.expiry_check_interval_ms)
    kept = scene.describe().error_code
    scene.is_wall_trusted = True
    scene.advance(2 * SETTINGS.expiry_check_interval_ms)
    scene.settle()

    assert kept == ErrorCode.NONE
    assert scene.describe().error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


@pytest.mark.requirement("TXN-59")
@pytest.mark.parametrize("state", ["Ongoing", "PrepareCommit", "PrepareAbort"])
def test_an_id_with_an_open_transaction_is_kept(state: str) -> None:
    """Its partitions still need a marker."""
    known = example(STATES[state])._replace(timeout_ms=2**31 - 1)
    scene = standing(known)
    scene.advance(WEEK_MS + SETTINGS.expiry_check_interval_ms)

    assert scene.appends == []
    assert scene.state is STATES[state]


def test_every_use_keeps_an_id_for_longer() -> None:
    """A week from the last record."""
    scene = standing(example(TransactionState.EMPTY))
    scene.advance(WEEK_MS - 1)
    scene.init()
    scene.settle()
    scene.advance(WEEK_MS - 1)

    assert scene.state is TransactionState.EMPTY


def test_an_id_that_was_used_again_gets_another_producer_id_after_it_expired() -> None:
    """A pair of producer id and epoch must not come twice (hazard T-12)."""
    scene, old = begun()
    scene.advance(WEEK_MS + SETTINGS.expiry_check_interval_ms)
    scene.settle()
    ticket = scene.init(old)
    scene.settle()

    assert scene.producer(ticket) == Producer(FIRST_PRODUCER_ID + 1, 0)


def test_a_request_for_an_expiring_id_gets_a_retriable_error() -> None:
    """No state may come between the decision and its tombstone."""
    scene, producer = begun()
    scene.advance(WEEK_MS + SETTINGS.expiry_check_interval_ms)
    during = [scene.init(), scene.add(producer, A0), scene.end(producer)]
    scene.settle()
    after = scene.add(producer, A0)

    for ticket in during:
        assert scene.error(ticket) is ErrorCode.CONCURRENT_TRANSACTIONS
    assert scene.error(after) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


def test_an_id_whose_tombstone_fails_is_kept() -> None:
    """The id stays until the next sweep (hazard T-19)."""
    scene, producer = begun()
    scene.advance(WEEK_MS + SETTINGS.expiry_check_interval_ms)
    scene.fail()
    ticket = scene.add(producer, A0)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.NONE


def test_a_burst_of_expirations_is_split_into_batches() -> None:
    """A batch that the log refuses would never be smaller the next time (hazard T-19)."""
    scene = Scene()
    scene.shard.limit_batches(lambda: 1_000)
    for number in range(50):
        scene.init(transactional_id=f"id-{number:040}")
    scene.settle()
    scene.advance(WEEK_MS + SETTINGS.expiry_check_interval_ms)

    assert len(scene.appends) > 1
    for append in scene.appends:
        assert 61 + sum(len(key) + 20 for key, _ in append.records) <= 1_000
    scene.settle()
    assert scene.shard.scope.transactions == {}


def test_a_sweep_goes_by_slices() -> None:
    """A million ids must not hold up a producer."""
    scene = Scene()
    for number in range(25):
        scene.init(transactional_id=str(number))
    scene.settle()
    scene.wall_ms += WEEK_MS
    scope = scene.shard.scope
    scope.moment = scene.moment
    expiry = IdExpiry(scope, examined_max=10)
    sizes, alarms = [], []
    for _ in range(3):
        expiry.on_alarm()
        scene.perform(scope.outbox.take_all())
        sizes.append(sum(len(append.records) for append in scene.appends))
        alarms.append(scope.deadlines.next_deadline_ms())
        scene.settle()

    assert sizes == [10, 10, 5]
    assert alarms == [scene.now_ms, scene.now_ms, SETTINGS.expiry_check_interval_ms]


def test_an_id_that_was_never_written_expires_without_a_tombstone() -> None:
    """Only memory has it, with the producer id that was drawn for it."""
    scene = Scene()
    scene.init()
    scene.give()
    scene.fail()
    scene.advance(SETTINGS.expiry_check_interval_ms)

    assert scene.appends == []
    assert scene.shard.scope.transactions == {}


def test_an_id_with_a_pending_write_does_not_expire() -> None:
    """A pending write counts as a use."""
    scene = standing(example(TransactionState.EMPTY))
    scene.advance(WEEK_MS - 1)
    scene.init()
    scene.advance(SETTINGS.expiry_check_interval_ms)
    (append,) = scene.appends

    assert append.records[0].key == encode_key(ID)
    assert append.records[0].value is not None
