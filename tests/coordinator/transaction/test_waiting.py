"""Requests that come a moment too early are held for that moment."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.transaction.completing import RETRY_PAUSE_MS
from ottla.coordinator.transaction.records import state_record
from ottla.coordinator.transaction.scope import Alarm
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.transitions import added
from ottla.coordinator.transaction.waiting import (
    HELD_MS_MAX,
    HELD_NEXT_MS_MAX,
    HELD_PER_ID_MAX,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from tests.coordinator.transaction.scene import (
    A0,
    A1,
    B0,
    CLASSIC,
    ID,
    Producer,
    Scene,
    begun,
)

if TYPE_CHECKING:
    from ottla.coordinator.transaction.metadata import TransactionMetadata

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def decided() -> tuple[Scene, Producer]:
    """A scene whose producer knows the verdict, and has the epoch of its next transaction."""
    scene, producer = begun(A0)
    ticket = scene.end(producer)
    scene.commit()
    return scene, scene.producer(ticket)


def ended_classic(connection_id: str) -> tuple[Scene, Producer]:
    """A scene whose classic producer has ended its transaction over that connection."""
    scene, producer = begun(A0, transaction_version=1)
    scene.connection_id = connection_id
    scene.end(producer, api_version=CLASSIC)
    scene.commit()
    return scene, producer


def _known(scene: Scene) -> TransactionMetadata:
    known = scene.metadata()
    assert known is not None
    return known


def test_what_comes_while_partitions_are_added_is_written_together() -> None:
    """A producer sends to several brokers at once, and each of them adds its partitions."""
    scene, producer = begun()
    tickets = [scene.add(producer, place) for place in (A0, A1, B0)]
    open_count = len(scene.appends)
    scene.commit()
    scene.commit()

    assert open_count == 1
    assert scene.appends == []
    assert [scene.error(ticket) for ticket in tickets] == [ErrorCode.NONE] * 3
    assert [known.partitions for known in scene.written() if known][1:] == [{A0}, {A0, A1, B0}]


def test_the_next_transaction_begins_when_the_last_one_has_ended() -> None:
    """The producer was told its epoch with the verdict; the markers take a little longer."""
    scene, producer = decided()
    scene.mark()
    ticket = scene.add(producer, B0)
    during = scene.error(ticket)
    scene.settle()

    known = scene.metadata()
    assert during is None
    assert scene.error(ticket) is ErrorCode.NONE
    assert known is not None
    assert known.state is TransactionState.ONGOING
    assert known.partitions == {B0}


def test_who_waits_for_the_end_begins_with_its_record() -> None:
    """The next transaction would have to wait for all replicas once more, and gain nothing."""
    scene, producer = decided()
    tickets = [scene.add(producer, place) for place in (A0, B0)]
    scene.mark()
    (append,) = scene.appends
    during = [scene.error(ticket) for ticket in tickets]
    scene.commit()

    ended, begun_again = scene.written()[-2:]
    assert len(append.records) == 2
    assert during == [None, None]
    assert [scene.error(ticket) for ticket in tickets] == [ErrorCode.NONE] * 2
    assert ended is not None
    assert ended.state is TransactionState.COMPLETE_COMMIT
    assert begun_again is not None
    assert begun_again.state is TransactionState.ONGOING
    assert begun_again.partitions == {A0, B0}
    assert scene.appends == []
    assert scene.reloaded().state is scene.state is TransactionState.ONGOING


def test_an_end_that_is_not_written_begins_nothing() -> None:
    """Both records are one batch: the log has them all or none, and so has the memory."""
    scene, producer = decided()
    ticket = scene.add(producer, B0)
    scene.mark()
    scene.fail()
    state = scene.state
    scene.advance(RETRY_PAUSE_MS)
    scene.settle()

    assert scene.error(ticket) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert state is TransactionState.PREPARE_COMMIT
    assert scene.state is TransactionState.COMPLETE_COMMIT


def test_a_producer_that_waits_too_long_for_an_end_gets_a_timeout() -> None:
    """The end takes effect all the same if its record is committed later."""
    scene, producer = decided()
    ticket = scene.add(producer, B0)
    scene.mark()
    scene.overdue()
    told = scene.error(ticket)
    scene.commit()

    assert told is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.state is TransactionState.ONGOING


def test_what_does_not_fit_beside_the_end_begins_after_it() -> None:
    """An end that is too large to be written would never come."""
    scene, producer = decided()
    many = [TopicPartition("many", number) for number in range(100)]
    ticket = scene.add(producer, *many)
    key, value = state_record(ID, added(_known(scene), many, 2, 0))
    assert value is not None
    scene.shard.limit_batches(lambda: len(key) + len(value) + 256)
    scene.mark()
    alone = len(scene.appends[0].records)
    scene.settle()

    assert alone == 1
    assert scene.error(ticket) is ErrorCode.NONE


def test_of_those_who_wait_for_the_end_only_the_producer_itself_begins() -> None:
    """The end may bring another producer id, and what waits is looked at once more."""
    scene, producer = decided()
    ticket = scene.add(producer, B0)
    stranger = scene.add(producer.bumped(), A0)
    scene.mark()
    scene.settle()

    assert scene.error(stranger) is CONCURRENT
    assert scene.error(ticket) is ErrorCode.NONE
    assert _known(scene).partitions == {B0}


def test_no_producer_is_held_for_longer_than_the_pause_before_its_retry() -> None:
    """A partition without a leader may be without its marker for hours."""
    scene, producer = decided()
    first = scene.add(producer, A0)
    scene.advance(HELD_MS_MAX / 2)
    second = scene.add(producer, B0)
    scene.advance(HELD_MS_MAX / 2)
    half = [scene.error(first), scene.error(second)]
    scene.advance(HELD_MS_MAX / 2)
    scene.settle()

    assert half == [CONCURRENT, None]
    assert scene.error(second) is CONCURRENT
    assert scene.state is TransactionState.COMPLETE_COMMIT


def test_a_request_whose_time_is_over_is_not_held_again() -> None:
    """When what it waits for has failed, and the alarm is late."""
    scene, producer = decided()
    scene.mark()
    ticket = scene.add(producer, B0)
    scene.now_ms += HELD_MS_MAX
    scene.fail()

    assert scene.error(ticket) is CONCURRENT


def test_a_held_request_waits_on_when_the_end_fails() -> None:
    """It waits until its own timeout."""
    scene, producer = decided()
    scene.mark()
    ticket = scene.add(producer, B0)
    scene.fail()
    held = scene.error(ticket)
    scene.advance(HELD_MS_MAX)

    assert held is None
    assert scene.error(ticket) is CONCURRENT


def test_too_many_are_sent_back() -> None:
    """Every queue has its limit."""
    scene, producer = begun()
    tickets = [
        scene.add(producer, TopicPartition("many", number)) for number in range(HELD_PER_ID_MAX + 2)
    ]
    refused = [scene.error(ticket) for ticket in tickets if scene.error(ticket) is not None]
    scene.settle()

    assert refused == [CONCURRENT]
    assert scene.error(tickets[-1]) is CONCURRENT
    known = scene.metadata()
    assert known is not None
    assert len(known.partitions) == HELD_PER_ID_MAX + 1


def test_who_has_no_business_here_is_not_held() -> None:
    """Another epoch, another producer id, or another reason than one that passes."""
    scene, producer = begun()
    scene.add(producer, A0)
    strangers = [scene.add(producer.bumped(), A0), scene.add(Producer(7, 0), A0)]
    scene.settle()
    scene.end(producer)
    early = scene.add(producer, B0)
    scene.commit()
    late = scene.add(producer, B0)

    for ticket in (*strangers, early, late):
        assert scene.error(ticket) is CONCURRENT


@pytest.mark.parametrize(("ended_over", "added_over"), [("a", "b"), ("", ""), ("a", "")])
def test_a_classic_producer_is_sent_back_while_its_transaction_ends(
    ended_over: str, added_over: str
) -> None:
    """Its epoch does not tell a late request from an early one: held, a late one would begin a
    transaction that never ends (hazard T-13)."""
    scene, producer = ended_classic(ended_over)
    scene.connection_id = added_over
    ticket = scene.add(producer, A0, transaction_version=1)

    assert scene.error(ticket) is CONCURRENT


def test_what_comes_behind_a_classic_end_over_its_connection_is_not_late() -> None:
    """It was sent after the end, and so means the next transaction: to send it back would cost
    the producer a pause with every transaction."""
    scene, producer = ended_classic("a")
    ticket = scene.add(producer, B0, transaction_version=1)
    held = scene.error(ticket)
    scene.mark()
    scene.commit()

    known = _known(scene)
    assert held is None
    assert scene.error(ticket) is ErrorCode.NONE
    assert known.state is TransactionState.ONGOING
    assert known.partitions == {B0}
    assert not known.bumps_epochs


def test_a_classic_producer_is_not_held_for_ever() -> None:
    """It has a time limit of its own, and other requests on its connection."""
    scene, producer = ended_classic("a")
    ticket = scene.add(producer, B0, transaction_version=1)
    scene.advance(HELD_NEXT_MS_MAX - 1)
    held = scene.error(ticket)
    scene.advance(1)

    assert held is None
    assert scene.error(ticket) is CONCURRENT


def test_the_next_coordinator_does_not_know_the_connection() -> None:
    """Nor would it be the same one."""
    scene, producer = ended_classic("a")
    other = scene.reloaded()
    other.connection_id = "a"
    ticket = other.add(producer, B0, transaction_version=1)

    assert other.error(ticket) is CONCURRENT


@pytest.mark.parametrize("partition", [A0, B0])
def test_what_failed_for_the_first_is_tried_for_those_who_waited(
    partition: TopicPartition,
) -> None:
    """Each is told what became of its own."""
    scene, producer = begun()
    first = scene.add(producer, A0)
    second = scene.add(producer, partition)
    scene.fail()
    scene.settle()

    assert scene.error(first) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert scene.error(second) is ErrorCode.NONE
    known = scene.metadata()
    assert known is not None
    assert known.partitions == {partition}


def test_one_of_several_that_is_too_large_does_not_spoil_the_others() -> None:
    """As if each had come alone, in their order."""
    scene, producer = begun()
    scene.shard.limit_batches(lambda: 1_000)
    scene.add(producer, A0)
    large = scene.add(producer, *(TopicPartition("many", number) for number in range(300)))
    small = scene.add(producer, B0)
    scene.settle()

    assert scene.error(large) is ErrorCode.UNKNOWN_SERVER_ERROR
    assert scene.error(small) is ErrorCode.NONE


def test_partitions_that_have_joined_meanwhile_need_no_record() -> None:
    """Two brokers may ask for the same one."""
    scene, producer = begun()
    scene.add(producer, A0, B0)
    second = scene.add(producer, B0)
    scene.commit()

    assert scene.error(second) is ErrorCode.NONE
    assert scene.appends == []


def test_several_of_both_versions_bump_the_epoch() -> None:
    """One that speaks version 2 is enough to say that the producer does."""
    scene, producer = begun()
    scene.add(producer, A0, transaction_version=1)
    scene.add(producer, A1, transaction_version=2)
    scene.add(producer, B0, transaction_version=1)
    scene.settle()

    known = scene.metadata()
    assert known is not None
    assert known.client_version == 2


@pytest.mark.parametrize("is_prepared", [False, True])
def test_held_requests_are_answered_when_the_shard_ends(is_prepared: bool) -> None:
    """Each held request is answered once, and no record is written for it."""
    scene, producer = decided() if is_prepared else begun()
    tickets = [scene.add(producer, place) for place in (A0, B0)]
    scene.perform(scene.shard.unload(ErrorCode.NOT_COORDINATOR))

    assert [scene.error(ticket) for ticket in tickets] == [ErrorCode.NOT_COORDINATOR] * 2
    assert scene.shard.scope.outbox.take_all() == []


def test_the_alarm_goes_when_no_producer_is_held() -> None:
    """It finds no held request, and is not set again."""
    scene, producer = begun()
    scene.add(producer, A0)
    scene.add(producer, B0)
    scene.settle()
    scene.advance(HELD_MS_MAX)

    assert (ID, Alarm.WAITING) not in scene.shard.scope.deadlines
