"""Markers on their way to brokers: lanes, failures, leaders that move, partitions that are gone."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import pytest

from ottla.broker.runtime.later import Later
from ottla.broker.runtime.metadata import MetadataCache
from ottla.broker.runtime.txn_markers import (
    LANES_MAX,
    RETRY_MS,
    SLOW_MS,
    MarkerParts,
    MarkerSender,
)
from ottla.broker.tasks import Tasks
from ottla.coordinator.metadata.changes import (
    FULL_UPDATE,
    BrokerChanged,
    BrokerGone,
    TopicChanged,
    TopicGone,
)
from ottla.coordinator.metadata.image import BrokerRegistration, PartitionState, TopicImage
from ottla.coordinator.store.store import ConnectionLoss
from ottla.coordinator.transaction.effects import WriteMarkers
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from tests.broker.runtime.node import HandClock, quiet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.runtime.peers import Peers

SELF = 1
OTHER = 2
THIRD = 3
EPOCH = 5
A, B, C = (TopicPartition("t", index) for index in range(3))


class Sent(NamedTuple):
    """A request that waits for the test's answer."""

    node_id: int
    request: WriteTxnMarkersRequest
    future: asyncio.Future[WriteTxnMarkersResponse]

    @property
    def producer_ids(self) -> list[int]:
        return [marker.producer_id for marker in self.request.markers]

    def answer(self, error: ErrorCode = ErrorCode.NONE) -> None:
        self.future.set_result(answer_to(self.request, error))


class _Connection:
    def __init__(self, site: Site, node_id: int) -> None:
        self.closed = False
        self._site = site
        self._node_id = node_id

    def send(
        self, _api: object, request: WriteTxnMarkersRequest
    ) -> asyncio.Future[WriteTxnMarkersResponse]:
        future: asyncio.Future[WriteTxnMarkersResponse] = asyncio.get_running_loop().create_future()
        self._site.sent.append(Sent(self._node_id, request, future))
        return future

    def close(self, _reason: str) -> None:
        self.closed = True


class Site:
    """Three brokers. A and B are led by another one, C by this one."""

    def __init__(self) -> None:
        self.clock = HandClock()
        self.tasks = Tasks()
        self.metadata = MetadataCache(self.clock)
        self.metadata.apply(UpdateMetadataRequest(controller_epoch=1, type=FULL_UPDATE))
        brokers = [BrokerChanged(BrokerRegistration(one, ())) for one in (SELF, OTHER, THIRD)]
        self.metadata.take(brokers)
        self.lead({A: OTHER, B: OTHER, C: SELF})
        self.sent: list[Sent] = []
        self.unreachable: set[int] = set()
        self.connect_count = 0
        self.here: list[tuple[WriteTxnMarkersRequest, Later[WriteTxnMarkersResponse]]] = []
        self.bug_count = 0
        # Closed by a test in which the store takes its time.
        self.answers_late = asyncio.Event()
        self.answers_late.set()
        self.missing: set[TopicPartition] | Exception = set()
        self.ended: list[tuple[str, bool]] = []
        self.sender = MarkerSender(
            MarkerParts(
                SELF,
                cast("Peers", self),
                self.metadata,
                self.clock,
                self.tasks,
                self._missing,
                self._write_here,
            )
        )

    def lead(self, leaders: dict[TopicPartition, int]) -> None:
        states = {
            one.partition: PartitionState((1, 2, 3), leader, 0, (1, 2, 3))
            for one, leader in leaders.items()
        }
        self.metadata.take([TopicChanged(TopicImage("t", b"id of the topic t", states))])

    async def connect(self, node_id: int, **_more: Any) -> _Connection:
        self.connect_count += 1
        if node_id in self.unreachable:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody there")
        return _Connection(self, node_id)

    async def _missing(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        await self.answers_late.wait()
        if isinstance(self.missing, Exception):
            raise self.missing
        return self.missing & set(partitions)

    def _write_here(self, request: WriteTxnMarkersRequest) -> Later[WriteTxnMarkersResponse]:
        if self.bug_count:
            self.bug_count -= 1
            raise AssertionError("a bug")
        later: Later[WriteTxnMarkersResponse] = Later()
        self.here.append((request, later))
        return later

    def end(self, name: str, *partitions: TopicPartition, producer_id: int = 7) -> None:
        markers = WriteMarkers(producer_id, name, producer_id, 3, True, partitions, 2)
        self.sender.send(self, EPOCH, markers, lambda fenced: self.ended.append((name, fenced)))

    async def wait(self, delay_ms: float) -> None:
        """Let time pass in steps in which timers can follow each other."""
        for _ in range(int(delay_ms / 20)):
            await self.clock.advance(20)

    async def stop(self) -> None:
        self.sender.close()
        await self.tasks.stop()


def answer_to(
    request: WriteTxnMarkersRequest, error: ErrorCode = ErrorCode.NONE
) -> WriteTxnMarkersResponse:
    """The same for each partition."""
    return WriteTxnMarkersResponse(
        [
            WritableTxnMarkerResult(
                marker.producer_id,
                [
                    WritableTxnMarkerTopicResult(
                        topic.name,
                        [
                            WritableTxnMarkerPartitionResult(index, error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )


@pytest.mark.requirement("TXN-24")
async def test_each_leader_gets_its_markers_and_then_the_transaction_is_over() -> None:
    """What a marker says must be what was decided, under the coordinator epoch (T-15)."""
    site = Site()
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
    site = Site()
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
    site = Site()
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
    site = Site()
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
    site = Site()
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
    site = Site()
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
    site = Site()
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
    site = Site()
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
    site = Site()
    site.end("id", A)
    await quiet()
    site.metadata.take([BrokerGone(OTHER)])
    await quiet()
    assert site.sender.owed.homeless == {A}
    site.lead({A: THIRD, B: THIRD, C: SELF})
    await quiet()

    assert [one.node_id for one in site.sent] == [OTHER, THIRD]
    await site.stop()


async def test_a_broker_that_nobody_reaches_is_tried_again_and_again() -> None:
    """It may be back under its address in a moment, and has not left the cluster."""
    site = Site()
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
    site = Site()
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


async def test_a_bug_where_markers_are_written_here_stops_nobody() -> None:
    """The broker would die of one transaction, and its successor of it, too."""
    site = Site()
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
    site = Site()
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
    """No connection is shared, so nobody has to wait for anybody else."""
    site = Site()
    site.end("slow", C)
    site.end("quick", C, producer_id=8)
    await quiet()
    (_slow, (request, later)) = site.here
    later.complete(answer_to(request))

    assert site.ended == [("quick", False)]
    await site.stop()


async def test_an_owner_that_is_forgotten_hears_nothing_and_sends_nothing() -> None:
    """The next coordinator has read the log, and sends the markers itself (T-15, T-21)."""
    site = Site()
    site.end("id", A)
    await quiet()
    site.end("later", B, producer_id=8)
    site.sender.forget(site)
    site.sent[0].answer()
    await quiet()

    assert (site.ended, len(site.sent)) == ([], 1)
    await site.stop()
