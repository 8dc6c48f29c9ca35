"""Markers on their way to brokers: lanes, failures, leaders that move, partitions that are gone."""

from __future__ import annotations

import pytest

from ottla.broker.coordinating.txn_markers import LANES_MAX, RETRY_MS, SLOW_MS
from ottla.coordinator.metadata.changes import BrokerGone, TopicGone
from ottla.coordinator.store.store import ConnectionLoss
from ottla.protocol.errors import ErrorCode
from tests.broker.support.marker_site import (
    EPOCH,
    OTHER,
    SELF,
    THIRD,
    A,
    B,
    C,
    MarkerSite,
    answer_to,
)
from tests.broker.support.node import quiet


@pytest.mark.requirement("TXN-24")
async def test_each_leader_gets_its_markers_and_then_the_transaction_is_over() -> None:
    """What a marker says must be what was decided, under the coordinator epoch (T-15)."""
    site = MarkerSite()
    site.end("id", A, B, C)
    await quiet()

    (there,), (here,) = site.sent, site.here
    (marker,) = there.request.markers
    assert there.node_id == OTHER
    assert (marker.producer_id, marker.producer_epoch, marker.transaction_result) == (7, 3, True)
    assert (marker.coordinator_epoch, marker.transaction_version) == (EPOCH, 2)
    assert [(topic.name, topic.partition_indexes) for topic in marker.topics] == [("t", [0, 1])]
    assert here[0].markers[0].topics[0].partition_indexes == [2]
    there.answer()
    await quiet()
    assert site.ended == []
    here[1].complete(answer_to(here[0]))
    assert site.ended == [("id", False)]
    await site.stop()


async def test_what_gathers_behind_a_request_goes_out_in_one() -> None:
    """A thousand transactions a second must not be a thousand requests to each broker."""
    site = MarkerSite()
    site.end("one", A)
    await quiet()
    for number in range(10):
        site.end(f"{number}", A, producer_id=100 + number)
    await quiet()
    assert len(site.sent) == 1
    site.sent[0].answer()
    await quiet()

    assert [len(one.producer_ids) for one in site.sent] == [1, 10]
    site.sent[1].answer()
    await quiet()
    assert len(site.ended) == 11
    assert site.connect_count == 1
    await site.stop()


@pytest.mark.requirement("TXN-60")
async def test_one_partition_that_keeps_its_broker_waiting_does_not_hold_up_the_others() -> None:
    """Answers of a connection come in order, and that one may take half a minute."""
    site = MarkerSite()
    site.end("slow", A)
    await quiet()
    site.end("quick", B, producer_id=8)
    await site.clock.advance(SLOW_MS + 1)
    await quiet()

    assert [one.producer_ids for one in site.sent] == [[7], [8]]
    site.sent[1].answer()
    await quiet()
    assert site.ended == [("quick", False)]
    await site.stop()


async def test_the_lanes_to_a_broker_are_few() -> None:
    """A broker that hangs must not collect a connection for each transaction."""
    site = MarkerSite()
    for number in range(3 * LANES_MAX):
        site.end(f"{number}", A, producer_id=number)
        await quiet()
        await site.clock.advance(SLOW_MS + 1)
        await quiet()

    assert site.connect_count == LANES_MAX
    assert len(site.sent) == LANES_MAX
    await site.stop()


@pytest.mark.parametrize(
    "error",
    [
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.CORRUPT_MESSAGE,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ],
)
async def test_whatever_a_broker_says_the_marker_is_sent_again(error: ErrorCode) -> None:
    """One error that was thought impossible has kept whole clusters from committing (T-14)."""
    site = MarkerSite()
    site.end("id", A)
    await quiet()
    site.sent[0].answer(error)
    await quiet()
    assert len(site.sent) == 1
    await site.clock.advance(RETRY_MS + 1)
    await quiet()
    site.sent[1].answer()
    await quiet()

    assert site.ended == [("id", False)]
    await site.stop()


async def test_a_newer_coordinator_ends_it() -> None:
    """Its own markers are on their way, and perhaps of another transaction (T-15)."""
    site = MarkerSite()
    site.end("id", A, C)
    await quiet()
    site.sent[0].answer(ErrorCode.TRANSACTION_COORDINATOR_FENCED)
    await quiet()

    assert site.ended == [("id", True)]
    assert site.sender.owed.order_count == 0
    await site.stop()


@pytest.mark.requirement("TXN-33")
async def test_without_a_leader_the_marker_waits_for_one() -> None:
    """The transaction lasts as long as one of its partitions has no leader, and no longer."""
    site = MarkerSite()
    site.lead({A: -1, B: OTHER, C: SELF})
    site.end("id", A, B)
    await quiet()
    site.sent[0].answer()
    await site.wait(5_000)
    assert len(site.sent) == 1
    site.lead({A: THIRD, B: OTHER, C: SELF})
    await quiet()

    assert site.sent[1].node_id == THIRD
    site.sent[1].answer()
    await quiet()
    assert site.ended == [("id", False)]
    await site.stop()


async def test_a_broker_that_hangs_is_not_waited_for_when_another_leads() -> None:
    """A stopped process keeps its connections for half a minute; its partitions are elsewhere
    after a few seconds."""
    site = MarkerSite()
    site.end("id", A)
    await quiet()
    site.lead({A: THIRD, B: OTHER, C: SELF})
    await quiet()

    assert [one.node_id for one in site.sent] == [OTHER, THIRD]
    site.sent[1].answer()
    await quiet()
    assert site.ended == [("id", False)]
    await site.stop()


async def test_a_broker_that_dies_gives_back_what_it_had() -> None:
    """It leaves the cluster with the requests that it was sent."""
    site = MarkerSite()
    site.end("id", A)
    await quiet()
    site.metadata.take([BrokerGone(OTHER)])
    await quiet()
    assert site.sender.owed.homeless == {A}
    site.lead({A: THIRD, B: THIRD, C: SELF})
    await quiet()

    assert [one.node_id for one in site.sent] == [OTHER, THIRD]
    await site.stop()


async def test_a_broker_that_cannot_be_reached_is_tried_again_and_again() -> None:
    """It may be back under its address in a moment, and has not left the cluster."""
    site = MarkerSite()
    site.unreachable = {OTHER}
    site.end("id", A)
    await site.wait(1_000)
    tried = site.connect_count
    site.unreachable = set()
    await site.wait(3 * RETRY_MS)

    assert 2 < tried < 30
    site.sent[0].answer()
    await quiet()
    assert site.ended == [("id", False)]
    await site.stop()


async def test_a_partition_is_gone_when_the_store_says_so_and_not_before() -> None:
    """This broker's metadata may be older than the topic; a marker that is left out for that would
    keep its readers waiting for ever (T-25)."""
    site = MarkerSite()
    site.metadata.take([TopicGone("t")])
    site.missing = ConnectionLoss("/brokers/topics/t")
    site.end("id", A)
    await site.wait(500)
    site.missing = set()
    await site.wait(500)
    before = list(site.ended)
    site.missing = {A}
    await site.wait(500)

    assert before == []
    assert site.ended == [("id", False)]
    await site.stop()


async def test_a_bug_where_markers_are_written_here_stops_no_other_marker() -> None:
    """The broker would die of one transaction, and its successor of it, too."""
    site = MarkerSite()
    site.bug_count = 2
    site.end("id", C)
    site.end("other", C, producer_id=8)
    await site.wait(5 * RETRY_MS)
    for request, later in site.here:
        later.complete(answer_to(request))

    assert sorted(site.ended) == [("id", False), ("other", False)]
    await site.stop()


async def test_a_partition_that_shows_while_the_store_is_asked_is_not_gone() -> None:
    """A topic of the same name may have been made meanwhile, and its leader will answer for it."""
    site = MarkerSite()
    site.metadata.take([TopicGone("t")])
    site.missing = {A}
    site.answers_late.clear()
    site.end("id", A)
    await site.wait(500)
    site.lead({A: OTHER, B: OTHER, C: SELF})
    site.answers_late.set()
    await quiet()

    assert site.ended == []
    site.sent[0].answer()
    await quiet()
    assert site.ended == [("id", False)]
    await site.stop()


async def test_what_is_written_here_is_over_when_its_own_partitions_are() -> None:
    """Local appends share no connection, so one transaction does not wait for another."""
    site = MarkerSite()
    site.end("slow", C)
    site.end("quick", C, producer_id=8)
    await quiet()
    (_slow, (request, later)) = site.here
    later.complete(answer_to(request))

    assert site.ended == [("quick", False)]
    await site.stop()


async def test_an_owner_that_is_forgotten_hears_nothing_and_sends_nothing() -> None:
    """The next coordinator has read the log, and sends the markers itself (T-15, T-21)."""
    site = MarkerSite()
    site.end("id", A)
    await quiet()
    site.end("later", B, producer_id=8)
    site.sender.forget(site)
    site.sent[0].answer()
    await quiet()

    assert (site.ended, len(site.sent)) == ([], 1)
    await site.stop()


async def test_what_waits_for_a_connection_is_not_sent_when_its_callers_have_gone() -> None:
    """It would arrive long after the next coordinator has written its own (T-15, T-16)."""
    site = MarkerSite()
    site.connects_late.clear()
    site.end("id", A)
    await quiet()
    site.sender.forget(site)
    site.connects_late.set()
    await quiet()

    assert (site.connect_count, site.sent) == (1, [])
    site.end("next", B)
    await quiet()
    assert [one.node_id for one in site.sent] == [OTHER]
    await site.stop()


async def test_what_waits_for_a_connection_follows_its_leader() -> None:
    """The one that does not answer may have died."""
    site = MarkerSite()
    site.connects_late.clear()
    site.end("id", A)
    await quiet()
    site.lead({A: SELF, B: OTHER, C: SELF})
    await quiet()
    site.connects_late.set()
    await quiet()

    assert (site.sent, len(site.here)) == ([], 1)
    await site.stop()
