"""One transactional id through its life, and what holds for all of them in a shard."""

from __future__ import annotations

import pytest

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.transaction.effects import WriteMarkers
from ottla.coordinator.transaction.records import encode_key, tombstone
from ottla.coordinator.transaction.states import TransactionState
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from tests.coordinator.transaction.scene import A0, A1, B0, CLASSIC, ID, Producer, Scene, begun


@pytest.mark.requirement("TXN-16", "TXN-22")
def test_a_transaction_goes_through_its_states_in_order() -> None:
    """The order of the records is the protocol: begin, verdict, markers, end."""
    scene, producer = begun(A0)
    scene.add(producer, B0)
    scene.settle()
    ticket = scene.end(producer)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.NONE
    assert [known.state.label for known in scene.written() if known] == [
        "Empty",
        "Ongoing",
        "Ongoing",
        "PrepareCommit",
        "CompleteCommit",
    ]
    assert [known.partitions for known in scene.written() if known] == [
        set(),
        {A0},
        {A0, B0},
        {A0, B0},
        set(),
    ]


@pytest.mark.requirement("TXN-23", "TXN-24")
@pytest.mark.parametrize("is_commit", [True, False])
def test_markers_are_asked_for_once_the_verdict_is_committed(is_commit: bool) -> None:
    """A marker that goes out before could be contradicted by the next coordinator."""
    scene, producer = begun(B0, A1)
    scene.end(producer, is_commit=is_commit)
    early = list(scene.markers)
    scene.commit()

    (markers,) = scene.markers
    assert early == []
    assert markers == WriteMarkers(
        markers.token, ID, producer.producer_id, producer.producer_epoch + 1, is_commit,
        (A1, B0), 2,
    )  # fmt: skip


@pytest.mark.requirement("TXN-25")
def test_the_end_is_written_after_all_markers() -> None:
    """A partition without its marker would hang for ever once the transaction counts as done."""
    scene, producer = begun(A0)
    scene.end(producer)
    scene.commit()
    before = list(scene.appends)
    scene.mark()
    scene.settle()

    assert before == []
    assert scene.state is TransactionState.COMPLETE_COMMIT


def test_a_classic_transaction_keeps_its_epoch() -> None:
    """Producers of the classic protocol take no epoch from the answer."""
    scene, producer = begun(A0, transaction_version=1)
    ticket = scene.end(producer, api_version=CLASSIC)
    scene.settle()

    (markers,) = scene.all_markers
    assert scene.error(ticket) is ErrorCode.NONE
    assert (markers.producer_epoch, markers.transaction_version) == (0, 0)
    assert scene.add(producer, A0, transaction_version=1)
    assert len(scene.appends) == 1


def test_every_transaction_of_version_2_gets_a_new_epoch() -> None:
    """So no late request can reach the next transaction (hazard T-12)."""
    scene, producer = begun(A0)
    seen = []
    for is_commit in (True, False, True):
        seen.append(producer)
        ticket = scene.end(producer, is_commit=is_commit)
        scene.settle()
        producer = scene.producer(ticket)
        scene.add(producer, A0)
        scene.settle()

    first = seen[0].producer_id
    assert seen == [Producer(first, 0), Producer(first, 1), Producer(first, 2)]


@pytest.mark.requirement("TXN-01", "TXN-05")
def test_ids_do_not_meet_each_other() -> None:
    """One shard has the ids of many applications."""
    scene = Scene()
    tickets = [scene.init(transactional_id=name) for name in ("one", "two")]
    scene.settle()

    one, two = map(scene.producer, tickets)
    assert one.producer_id != two.producer_id
    assert scene.add(one, A0, transactional_id="two") == scene.ticket
    assert scene.error(scene.ticket) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# Loading and ending.


@pytest.mark.requirement("TXN-06")
def test_the_last_record_of_an_id_is_its_state() -> None:
    """After compaction it is the only one; before, there are many."""
    scene, producer = begun(A0)
    scene.init(transactional_id="other")
    scene.settle()
    scene.end(producer)
    scene.settle()
    scene.log.append(tombstone("other"))
    other = scene.reloaded()

    assert other.metadata() == scene.metadata()
    assert other.metadata("other") is None
    assert other.describe("other").error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND


def test_what_cannot_be_read_is_passed_over_when_it_is_loaded() -> None:
    """All other ids of the partition go on."""
    scene, _ = begun(A0)
    scene.log += [
        LogRecord(encode_key("newer"), b"\0\x09"),
        LogRecord(encode_key("broken"), b"\0\0\0"),
        LogRecord(b"\0\x07key", b"value"),
    ]
    other = scene.reloaded()

    skipped = other.shard.scope.skipped
    assert (skipped.unknown_count, skipped.corrupt_count) == (2, 1)
    assert other.state is TransactionState.ONGOING


def test_a_marker_in_this_log_means_nothing() -> None:
    """Transactions are never written into the log of transactions."""
    scene, producer = begun(A0)
    scene.shard.replay_marker(*producer, True)

    assert scene.state is TransactionState.ONGOING
    assert scene.shard.on_topics_changed(scene.moment) == []


def test_every_waiting_request_is_answered_when_the_shard_ends() -> None:
    """Each waiting request is answered once; results of pending work are dropped."""
    scene, producer = begun(A0)
    scene.add(producer, B0)
    other, third = "other", "third"
    scene.init(transactional_id=other)
    scene.init(transactional_id=third)
    scene.give()
    waiting = [ticket for ticket in range(1, scene.ticket + 1) if scene.error(ticket) is None]
    scene.perform(scene.shard.unload(ErrorCode.NOT_COORDINATOR))

    assert len(waiting) == 3
    assert [scene.error(ticket) for ticket in waiting] == [ErrorCode.NOT_COORDINATOR] * 3
    assert not scene.shard.scope.outbox.waits


def test_a_deadline_may_be_looked_at_early() -> None:
    """Timers are not exact."""
    scene, _ = begun(A0)

    assert scene.shard.on_deadline(scene.moment) == []
    assert scene.shard.next_deadline_ms() is not None
    assert not scene.shard.must_reload


def test_a_listing_without_a_moment_counts_up_to_the_last_call() -> None:
    """A caller that wants ages passes a moment."""
    scene, _ = begun(A0)
    scene.wall_ms += 5_000
    request = ListTransactionsRequest(duration_filter=0)
    before = list(scene.shard.listing(request))
    after = list(scene.shard.listing(request, scene.moment))

    assert before == [None]
    assert [found.transactional_id for found in after if found] == [ID]
