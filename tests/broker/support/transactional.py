"""A transactional producer that sends exactly what a test wants, over raw connections."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import TYPE_CHECKING, Any

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.failures import Skipped
from ottla.coordinator.hashing import partition_for
from ottla.coordinator.transaction.records import (
    decode_record,
)
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from ottla.protocol.messages.describe_transactions import (
    DescribeTransactionsRequest,
    TransactionState,
)
from ottla.protocol.messages.end_txn import EndTxnRequest
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from ottla.protocol.messages.find_coordinator import FindCoordinatorRequest
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
from ottla.protocol.records.batch import iterate_batches
from ottla.protocol.records.record import read_records
from tests.broker.support.requests import TOPIC, batch, produce

if TYPE_CHECKING:
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.server.broker import Broker
    from ottla.coordinator.transaction.metadata import TransactionMetadata
    from tests.support.raw_client import RawClient

STATE_LOG = "__transaction_state"
ID = "my-transactional-id"
NONE = ErrorCode.NONE
# After one of these errors the producer retries after a moment.
TRANSIENT = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)


async def coordinator_of(client: RawClient, transactional_id: str = ID) -> int:
    """The broker that coordinates the id, as soon as there is one."""
    async with asyncio.timeout(60):
        while True:
            request = FindCoordinatorRequest(key_type=1, coordinator_keys=[transactional_id])
            (found,) = (await client.call(4, request)).coordinators
            if found.error_code == NONE:
                assert isinstance(found.node_id, int)
                return found.node_id
            assert found.error_code == ErrorCode.COORDINATOR_NOT_AVAILABLE
            await asyncio.sleep(0.02)


class Producer:
    """Asks ``client`` as its coordinator, and produces to ``leader``. Version 2 leaves it to the
    partition to add itself, and takes over the epoch that each end gives it."""

    def __init__(
        self,
        client: RawClient,
        transactional_id: str = ID,
        version: int = 1,
        leader: RawClient | None = None,
    ) -> None:
        self.client = client
        self.leader = leader or client
        self.transactional_id = transactional_id
        self.version = version
        self.producer_id = -1
        self.epoch = -1
        self._sequences: Counter[tuple[str, int]] = Counter()

    async def try_init(
        self, *, timeout_ms: int = 60_000, bump: bool = False, api_version: int = 5
    ) -> ErrorCode:
        """InitProducerId once; ``bump`` tells what it has."""
        request = InitProducerIdRequest(self.transactional_id, timeout_ms)
        if bump:
            request.producer_id, request.producer_epoch = self.producer_id, self.epoch
        answer = await self.client.call(api_version, request)
        if answer.error_code == NONE:
            self._take(answer.producer_id, answer.producer_epoch)
        return error_code(answer.error_code)

    async def init(self, timeout_ms: int = 60_000) -> Producer:
        """InitProducerId until it is done."""
        async with asyncio.timeout(60):
            while (error := await self.try_init(timeout_ms=timeout_ms)) in TRANSIENT:
                await asyncio.sleep(0.01)
        assert error == NONE
        return self

    async def try_add(
        self, *partitions: int, topic: str = TOPIC, api_version: int = 3
    ) -> list[ErrorCode]:
        """AddPartitionsToTxn once, as clients do."""
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.transactional_id,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(topic, list(partitions))],
        )
        answer = await self.client.call(api_version, request)
        return [
            error_code(one.partition_error_code)
            for result in answer.results_by_topic_v3_and_below
            for one in result.results_by_partition
        ]

    async def add(self, *partitions: int, topic: str = TOPIC) -> None:
        """The same until it is done."""
        async with asyncio.timeout(60):
            while set(errors := await self.try_add(*partitions, topic=topic)) & TRANSIENT:
                await asyncio.sleep(0.01)
        assert set(errors) == {NONE}

    async def try_add_offsets(self, group_id: str, api_version: int = 3) -> ErrorCode:
        """AddOffsetsToTxn once."""
        request = AddOffsetsToTxnRequest(
            self.transactional_id, self.producer_id, self.epoch, group_id
        )
        return error_code((await self.client.call(api_version, request)).error_code)

    async def try_produce(
        self, *values: bytes, partition: int = 0, topic: str = TOPIC
    ) -> ErrorCode:
        """Produce one transactional batch."""
        place = (topic, partition)
        records = batch(
            *values,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self._sequences[place],
            is_transactional=True,
        )
        request = produce(records, topic=topic, partition=partition)
        request.transactional_id = self.transactional_id
        answer = await self.leader.call(12 if self.version == 2 else 11, request)
        error = error_code(answer.responses[0].partition_responses[0].error_code)
        if error == NONE:
            self._sequences[place] += len(values)
        return error

    async def produce(self, *values: bytes, partition: int = 0, topic: str = TOPIC) -> None:
        """The same, with the partition made part of the transaction first."""
        if self.version == 1:
            await self.add(partition, topic=topic)
        async with asyncio.timeout(60):
            while (
                error := await self.try_produce(*values, partition=partition, topic=topic)
            ) is not NONE:
                assert error in TRANSIENT | {ErrorCode.NOT_ENOUGH_REPLICAS}, error.name
                await asyncio.sleep(0.01)

    async def try_end(self, *, committed: bool, api_version: int | None = None) -> ErrorCode:
        """EndTxn once."""
        if api_version is None:
            api_version = 5 if self.version == 2 else 4
        request = EndTxnRequest(self.transactional_id, self.producer_id, self.epoch, committed)
        answer = await self.client.call(api_version, request)
        if api_version >= 5 and answer.error_code == NONE:
            self._take(answer.producer_id, answer.producer_epoch)
        return error_code(answer.error_code)

    async def end(self, *, committed: bool) -> None:
        """The same until it is decided."""
        async with asyncio.timeout(60):
            while (error := await self.try_end(committed=committed)) in TRANSIENT:
                await asyncio.sleep(0.01)
        assert error == NONE

    async def describe(self) -> TransactionState:
        """Returns the coordinator's description of the transaction."""
        request = DescribeTransactionsRequest([self.transactional_id])
        state = (await self.client.call(0, request)).transaction_states[0]
        assert isinstance(state, TransactionState)
        return state

    async def reaches(self, state: str) -> TransactionState:
        """Wait until the coordinator says that the id is in that state."""
        async with asyncio.timeout(60):
            while (found := await self.describe()).transaction_state != state:
                await asyncio.sleep(0.01)
        return found

    def _take(self, producer_id: int, epoch: int) -> None:
        if (producer_id, epoch) != (self.producer_id, self.epoch):
            self._sequences.clear()
        self.producer_id, self.epoch = producer_id, epoch


async def read_committed(
    client: RawClient, offset: int, partition: int = 0, topic: str = TOPIC
) -> Any:
    """One fetch of a read_committed consumer; the partition's part of the answer."""
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_bytes=1 << 20,
        isolation_level=1,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    return (await client.call(11, request)).responses[0].partitions[0]


async def committed_values(
    client: RawClient, partition: int = 0, topic: str = TOPIC
) -> list[bytes]:
    """What a read_committed consumer gets of a partition from the start on."""
    offset, values = 0, list[bytes]()
    while True:
        # One answer goes no further than the end of a segment.
        found = await read_committed(client, offset, partition, topic)
        assert found.error_code == NONE
        aborted = sorted((one.first_offset, one.producer_id) for one in found.aborted_transactions)
        dropped: set[int] = set()
        for one in iterate_batches(bytes(found.records or b"")):
            offset = one.next_offset
            while aborted and aborted[0][0] <= one.base_offset:
                dropped.add(aborted.pop(0)[1])
            if one.is_control:
                dropped.discard(one.producer_id)
            elif one.producer_id not in dropped or not one.is_transactional:
                values += [bytes(record.value or b"") for record in read_records(one, 1 << 20)]
        if not found.records:
            assert offset == found.last_stable_offset
            return values


def written_states(
    partition: PartitionRuntime, transactional_id: str = ID
) -> list[TransactionMetadata | None]:
    """All that the transaction log says of an id, oldest first; None is a tombstone."""
    skipped = Skipped()
    states = []
    for segment in partition.log.segments:
        content = segment.file.pread(segment.size_bytes, 0) if segment.size_bytes else b""
        for one in iterate_batches(content):
            for record in read_records(one, 1 << 20):
                assert record.key is not None
                stored = decode_record(LogRecord(record.key, record.value), skipped)
                assert stored is not None
                if stored.transactional_id == transactional_id:
                    states.append(stored.metadata)
    return states


def state_log(broker: Broker, transactional_id: str = ID) -> PartitionRuntime:
    """The partition in which the id lives, as this broker has it."""
    topic = broker.metadata.topic(STATE_LOG)
    assert topic is not None
    index = partition_for(transactional_id, len(topic.partitions))
    found = broker.partitions.find(STATE_LOG, index)
    assert found is not None
    return found


def state_labels(broker: Broker, transactional_id: str = ID) -> list[str]:
    """The states of the id that the log has seen, oldest first."""
    states = written_states(state_log(broker, transactional_id), transactional_id)
    return ["tombstone" if one is None else one.state.label for one in states]
