"""Short ways to say what transactional producers and their coordinators say to a partition."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.deferred import DeferredAnswer
from ottla.coordinator.transaction.requests import Added, AddToTransaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.describe_producers import DescribeProducersRequest, TopicRequest
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from tests.broker.support.requests import TOPIC, batch

if TYPE_CHECKING:
    from ottla.broker.server.broker import Broker
    from ottla.protocol.ids import TopicPartition
    from tests.support.raw_client import RawClient

ID = "my-transactions"
PRODUCER = 4000
# One partition of each internal topic is made sooner than fifty.
SMALL = {
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
}


class StandIn:
    """Answers for the coordinator on this broker: yes, unless told otherwise."""

    def __init__(self, broker: Broker) -> None:
        self.asked: list[AddToTransaction] = []
        self.errors: dict[TopicPartition, ErrorCode] = {}
        self.error = ErrorCode.NONE
        # Answers that are held back until the test releases them.
        self.is_holding = False
        self._held: list[tuple[DeferredAnswer[Added], Added]] = []
        broker.parts.coordinators.verification.ask_here = self.answer

    def answer(self, asked: AddToTransaction) -> DeferredAnswer[Added]:
        self.asked.append(asked)
        later: DeferredAnswer[Added] = DeferredAnswer()
        errors = {place: self.errors.get(place, self.error) for place in asked.partitions}
        if self.is_holding:
            self._held.append((later, Added(errors)))
        else:
            later.complete(Added(errors))
        return later

    def release(self) -> None:
        self.is_holding = False
        held, self._held = self._held, []
        for later, added in held:
            later.complete(added)

    async def until_asked(self, count: int = 1) -> None:
        async with asyncio.timeout(60):
            while len(self.asked) < count:
                await asyncio.sleep(0.005)


async def coordinated(client: RawClient, transactional_id: str = ID) -> None:
    """Return when the transactional id has a coordinator."""
    request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
    async with asyncio.timeout(60):
        while (await client.call(4, request)).coordinators[0].error_code != ErrorCode.NONE:
            await asyncio.sleep(0.01)


def in_transaction(
    sequence: int = 0, value: bytes = b"x", producer_id: int = PRODUCER, epoch: int = 0
) -> bytes:
    """A batch with one record."""
    return batch(
        value,
        producer_id=producer_id,
        producer_epoch=epoch,
        base_sequence=sequence,
        is_transactional=True,
    )


def produce_request(
    records: bytes | dict[int, bytes],
    *,
    transactional_id: str | None = ID,
    acks: int = -1,
    topic: str = TOPIC,
) -> ProduceRequest:
    """Of a transactional producer; records of partition 0, or by partition."""
    by_partition = records if isinstance(records, dict) else {0: records}
    data = [PartitionProduceData(index, one) for index, one in by_partition.items()]
    return ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout_ms=5_000,
        topic_data=[TopicProduceData(name=topic, partition_data=data)],
    )


async def produced(
    client: RawClient, records: bytes | dict[int, bytes], version: int = 11, **more: Any
) -> Any:
    """The answer of the first partition."""
    response = await client.call(version, produce_request(records, **more))
    return response.responses[0].partition_responses[0]


def marker_request(
    *,
    commit: bool = True,
    producer_id: int = PRODUCER,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 1,
    places: dict[str, list[int]] | None = None,
) -> WriteTxnMarkersRequest:
    """One marker, for partition 0 unless told otherwise."""
    topics = [
        WritableTxnMarkerTopic(name, indexes) for name, indexes in (places or {TOPIC: [0]}).items()
    ]
    return WriteTxnMarkersRequest(
        [WritableTxnMarker(producer_id, epoch, commit, topics, coordinator_epoch, version)]
    )


async def marked(client: RawClient, **more: Any) -> list[ErrorCode]:
    """The answers to one marker, in the order of the request."""
    response = await client.call(2, marker_request(**more))
    return [
        ErrorCode(partition.error_code)
        for topic in response.markers[0].topics
        for partition in topic.partitions
    ]


async def producers(client: RawClient, topic: str = TOPIC, index: int = 0) -> Any:
    """Returns the partition's description of its producers."""
    request = DescribeProducersRequest([TopicRequest(topic, [index])])
    return (await client.call(0, request)).topics[0].partitions[0]


def offsets_request(
    offset: int, *, group_id: str = "my-group", epoch: int = 0, **more: Any
) -> TxnOffsetCommitRequest:
    """A request that commits a position in partition 0, without group membership by default."""
    partition = TxnOffsetCommitRequestPartition(
        partition_index=0, committed_offset=offset, committed_metadata=""
    )
    return TxnOffsetCommitRequest(
        transactional_id=ID,
        group_id=group_id,
        producer_id=PRODUCER,
        producer_epoch=epoch,
        topics=[TxnOffsetCommitRequestTopic(name=TOPIC, partitions=[partition])],
        **more,
    )


async def offsets_sent(client: RawClient, offset: int, version: int = 4, **more: Any) -> ErrorCode:
    """The answer to a position in a transaction."""
    response = await client.call(version, offsets_request(offset, **more))
    return ErrorCode(response.topics[0].partitions[0].error_code)
