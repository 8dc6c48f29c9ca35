"""Requests that come a moment too early are held for that moment."""

from __future__ import annotations

import pytest

from ottla.coordinator.transaction.scope import Alarm
from ottla.coordinator.transaction.states import TransactionState
from ottla.coordinator.transaction.waiting import HELD_MS_MAX, HELD_PER_ID_MAX
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

CONCURRENT = ErrorCode.CONCURRENT_TRANSACTIONS


def decided() -> tuple[Scene, Producer]:
    """A scene whose producer knows the verdict, and has the epoch of its next transaction."""
    scene, producer = begun(A0)
    ticket = scene.end(producer)
    scene.commit()
    return scene, scene.producer(ticket)


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
    ticket = scene.add(producer, B0)
    scene.mark()
    during = scene.error(ticket)
    scene.settle()

    known = scene.metadata()
    assert during is None
    assert scene.error(ticket) is ErrorCode.NONE
    assert known is not None
    assert known.state is TransactionState.ONGOING
    assert known.partitions == {B0}


def test_nobody_is_held_for_longer_than_the_pause_of_who_comes_again() -> None:
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
    ticket = scene.add(producer, B0)
    scene.mark()
    scene.now_ms += HELD_MS_MAX
    scene.fail()

    assert scene.error(ticket) is CONCURRENT


def test_a_request_goes_on_waiting_when_the_end_is_not_written() -> None:
    """As long as it has time."""
    scene, producer = decided()
    ticket = scene.add(producer, B0)
    scene.mark()
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


def test_a_classic_producer_is_sent_back_while_its_transaction_ends() -> None:
    """Its epoch does not tell a late request from an early one: held, a late one would begin a
    transaction that nobody ends (hazard T-13)."""
    scene, producer = begun(A0, transaction_version=1)
    scene.end(producer, api_version=CLASSIC)
    scene.commit()
    ticket = scene.add(producer, A0, transaction_version=1)

    assert scene.error(ticket) is CONCURRENT


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
def test_a_shard_that_ends_tells_those_who_are_held(is_prepared: bool) -> None:
    """Once, and writes nothing any more for them."""
    scene, producer = decided() if is_prepared else begun()
    tickets = [scene.add(producer, place) for place in (A0, B0)]
    scene.perform(scene.shard.unload(ErrorCode.NOT_COORDINATOR))

    assert [scene.error(ticket) for ticket in tickets] == [ErrorCode.NOT_COORDINATOR] * 2
    assert scene.shard.scope.outbox.take_all() == []


def test_the_alarm_goes_when_nobody_is_held() -> None:
    """It finds nobody, and is not set again."""
    scene, producer = begun()
    scene.add(producer, A0)
    scene.add(producer, B0)
    scene.settle()
    scene.advance(HELD_MS_MAX)

    assert (ID, Alarm.WAITING) not in scene.shard.scope.deadlines
