"""A sender of markers and the brokers that it sends them to, all answers given by the test.

There are three brokers. Partitions A and B are led by another one, C by this one.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from ottla.broker.coordinating.txn_markers import MarkerParts, MarkerSender
from ottla.broker.engine.deferred import DeferredAnswer
from ottla.broker.engine.tasks import Tasks
from ottla.broker.metadata.metadata import MetadataCache
from ottla.coordinator.metadata.changes import FULL_UPDATE, BrokerChanged, TopicChanged
from ottla.coordinator.metadata.image import BrokerRegistration, PartitionState, TopicImage
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
from tests.broker.support.node import HandClock

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.membership.peers import Peers

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
    def __init__(self, site: MarkerSite, node_id: int) -> None:
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


class MarkerSite:
    """The brokers are reached at once unless told otherwise."""

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
        self.here: list[tuple[WriteTxnMarkersRequest, DeferredAnswer[WriteTxnMarkersResponse]]] = []
        self.bug_count = 0
        # Closed by a test in which the store takes its time.
        self.answers_late = asyncio.Event()
        self.answers_late.set()
        self.connects_late = asyncio.Event()
        self.connects_late.set()
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
        await self.connects_late.wait()
        if node_id in self.unreachable:
            raise KafkaError(ErrorCode.BROKER_NOT_AVAILABLE, "nobody there")
        return _Connection(self, node_id)

    async def _missing(self, partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        await self.answers_late.wait()
        if isinstance(self.missing, Exception):
            raise self.missing
        return self.missing & set(partitions)

    def _write_here(
        self, request: WriteTxnMarkersRequest
    ) -> DeferredAnswer[WriteTxnMarkersResponse]:
        if self.bug_count:
            self.bug_count -= 1
            raise AssertionError("a bug")
        later: DeferredAnswer[WriteTxnMarkersResponse] = DeferredAnswer()
        self.here.append((request, later))
        return later

    def end(self, name: str, *partitions: TopicPartition, producer_id: int = 7) -> None:
        markers = WriteMarkers(producer_id, name, producer_id, 3, True, partitions, 2)

        def on_end(refused: tuple[TopicPartition, ...]) -> None:
            self.ended.append((name, bool(refused)))

        self.sender.send(self, EPOCH, markers, on_end)

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
