"""A transaction coordinator for the toy cluster: small, but honest about epochs and states.

Markers are in the partitions before EndTxn is answered. It has both versions of the protocol and
follows the one of the request, as brokers do; what a transaction left behind is read back with
``ToyTransactions.committed``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnResponse
from ottla.protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnPartitionResult,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopicResult,
)
from ottla.protocol.messages.end_txn import EndTxnResponse
from ottla.protocol.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from ottla.protocol.messages.init_producer_id import InitProducerIdResponse
from ottla.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitResponse,
    TxnOffsetCommitResponsePartition,
    TxnOffsetCommitResponseTopic,
)
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.control import (
    ControlType,
    TransactionMarker,
    encode_marker,
    read_control_type,
)
from ottla.protocol.records.record import read_records

if TYPE_CHECKING:
    from ottla.protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
    from ottla.protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
    from ottla.protocol.messages.end_txn import EndTxnRequest
    from ottla.protocol.messages.init_producer_id import InitProducerIdRequest
    from ottla.protocol.messages.produce import ProduceRequest
    from ottla.protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
    from tests.client.support.toy_broker import Seen, ToyCluster
    from tests.client.support.toy_log import ToyPartition

TRANSACTIONAL = (
    ApiKey.FIND_COORDINATOR,
    ApiKey.INIT_PRODUCER_ID,
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
)
BATCHED_VERSION = 4
IMPLICIT_PRODUCE_VERSION = 12
IMPLICIT_COMMIT_VERSION = 5
EPOCH_RAISING_VERSION = 5


@dataclass
class ToyTransaction:
    """State of one transactional id. ``ended``: the outcome of the last transaction."""

    producer_id: int
    producer_epoch: int
    is_open: bool = False
    ended: bool | None = None
    # The epoch that the last end has raised, for a repeated EndTxn.
    last_epoch: int = -1
    partitions: set[TopicPartition] = field(default_factory=set)
    # By group: what was sent in this transaction.
    offsets: dict[str, dict[TopicPartition, int]] = field(default_factory=dict)

    def judge(self, producer_id: int, producer_epoch: int) -> ErrorCode:
        """Whether that is the producer who has the id now."""
        if producer_id != self.producer_id:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        if producer_epoch != self.producer_epoch:
            return ErrorCode.PRODUCER_FENCED
        return ErrorCode.NONE


class ToyTransactions:
    """The coordinator of all transactional ids and of all groups."""

    def __init__(self, cluster: ToyCluster, node_id: int = 1) -> None:
        self._cluster = cluster
        self.node_id = node_id
        self.by_id: dict[str, ToyTransaction] = {}
        self.committed_offsets: dict[str, dict[TopicPartition, int]] = {}
        # Groups whose members are known, with the only generation that may commit.
        self.generations: dict[str, int] = {}
        # Brokers that take another one for the coordinator.
        self.misled: dict[int, int] = {}

    def serve(self, seen: Seen, error: ErrorCode) -> object:
        """The answer to one of the ``TRANSACTIONAL`` requests."""
        request, version = seen.request, seen.version
        match seen.api_key:
            case ApiKey.FIND_COORDINATOR:
                return self._find(seen, error)
            case ApiKey.INIT_PRODUCER_ID:
                return self._initialize(request, error)
            case ApiKey.ADD_PARTITIONS_TO_TXN:
                return self._add_partitions(request, error)
            case ApiKey.ADD_OFFSETS_TO_TXN:
                return self._add_offsets(request, error)
            case ApiKey.TXN_OFFSET_COMMIT:
                return self._commit_offsets(request, version, error)
        assert seen.api_key is ApiKey.END_TXN
        return self._end(request, version, error)

    def _find(self, seen: Seen, error: ErrorCode) -> FindCoordinatorResponse:
        node_id = self.misled.get(seen.node_id, self.node_id)
        host, port = self._cluster.nodes[node_id].address
        if seen.version < BATCHED_VERSION:
            return FindCoordinatorResponse(0, error, None, node_id, host, port)
        (key,) = seen.request.coordinator_keys
        return FindCoordinatorResponse(coordinators=[Coordinator(key, node_id, host, port, error)])

    def _initialize(
        self, request: InitProducerIdRequest, error: ErrorCode
    ) -> InitProducerIdResponse:
        if error is not ErrorCode.NONE:
            return InitProducerIdResponse(0, error, -1, -1)
        if request.transactional_id is None:
            return InitProducerIdResponse(0, 0, self._new_producer_id(), 0)
        known = self.by_id.get(request.transactional_id)
        if known is None:
            known = ToyTransaction(self._new_producer_id(), 0)
            self.by_id[request.transactional_id] = known
        elif request.producer_id >= 0 and known.judge(request.producer_id, request.producer_epoch):
            return InitProducerIdResponse(0, ErrorCode.PRODUCER_FENCED, -1, -1)
        else:
            known.producer_epoch += 1
            if known.is_open:
                self._finish(known, is_commit=False)
            known.ended, known.last_epoch = None, -1
        return InitProducerIdResponse(0, 0, known.producer_id, known.producer_epoch)

    def _new_producer_id(self) -> int:
        self._cluster.next_producer_id += 1
        return self._cluster.next_producer_id

    def _judge(self, transactional_id: str, producer_id: int, epoch: int) -> ErrorCode:
        known = self.by_id.get(transactional_id)
        if known is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        return known.judge(producer_id, epoch)

    def _add_partitions(
        self, request: AddPartitionsToTxnRequest, error: ErrorCode
    ) -> AddPartitionsToTxnResponse:
        transactional_id = request.v3_and_below_transactional_id
        code = error or self._judge(
            transactional_id,
            request.v3_and_below_producer_id,
            request.v3_and_below_producer_epoch,
        )
        response = AddPartitionsToTxnResponse()
        for topic in request.v3_and_below_topics:
            results = []
            for number in topic.partitions:
                results.append(AddPartitionsToTxnPartitionResult(number, code))
                if code is ErrorCode.NONE:
                    self.add(transactional_id, TopicPartition(topic.name, number))
            response.results_by_topic_v3_and_below.append(
                AddPartitionsToTxnTopicResult(topic.name, results)
            )
        return response

    def add(self, transactional_id: str, partition: TopicPartition) -> None:
        known = self.by_id[transactional_id]
        known.is_open = True
        known.partitions.add(partition)

    def _add_offsets(
        self, request: AddOffsetsToTxnRequest, error: ErrorCode
    ) -> AddOffsetsToTxnResponse:
        code = error or self._judge(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        if code is ErrorCode.NONE:
            known = self.by_id[request.transactional_id]
            known.is_open = True
            known.offsets.setdefault(request.group_id, {})
        return AddOffsetsToTxnResponse(0, code)

    def _commit_offsets(
        self, request: TxnOffsetCommitRequest, version: int, error: ErrorCode
    ) -> TxnOffsetCommitResponse:
        code = error or self._judge(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        generation = self.generations.get(request.group_id)
        if generation is not None and generation != request.generation_id_or_member_epoch:
            code = code or ErrorCode.ILLEGAL_GENERATION
        if code is ErrorCode.NONE:
            known = self.by_id[request.transactional_id]
            if version >= IMPLICIT_COMMIT_VERSION:
                known.is_open = True
                known.offsets.setdefault(request.group_id, {})
            if request.group_id not in known.offsets:
                code = ErrorCode.INVALID_TXN_STATE
        response = TxnOffsetCommitResponse()
        for topic in request.topics:
            results = []
            for part in topic.partitions:
                results.append(TxnOffsetCommitResponsePartition(part.partition_index, code))
                if code is ErrorCode.NONE:
                    where = TopicPartition(topic.name, part.partition_index)
                    known.offsets[request.group_id][where] = part.committed_offset
            response.topics.append(
                TxnOffsetCommitResponseTopic(topic.name, topic.topic_id, partitions=results)
            )
        return response

    def _end(self, request: EndTxnRequest, version: int, error: ErrorCode) -> EndTxnResponse:
        raises = version >= EPOCH_RAISING_VERSION
        known = self.by_id.get(request.transactional_id)
        if known is not None and raises and request.producer_epoch == known.last_epoch:
            if known.ended is request.committed:
                return EndTxnResponse(0, 0, known.producer_id, known.producer_epoch)
            return EndTxnResponse(0, ErrorCode.INVALID_TXN_STATE)
        code = error or self._judge(
            request.transactional_id, request.producer_id, request.producer_epoch
        )
        if code is not ErrorCode.NONE:
            return EndTxnResponse(0, code)
        assert known is not None
        if not known.is_open:
            is_repeated = known.ended is request.committed
            if not (is_repeated or (raises and not request.committed)):
                return EndTxnResponse(0, ErrorCode.INVALID_TXN_STATE)
        if raises:
            known.last_epoch = known.producer_epoch
            known.producer_epoch += 1
        self._finish(known, is_commit=request.committed)
        if raises:
            return EndTxnResponse(0, 0, known.producer_id, known.producer_epoch)
        return EndTxnResponse(0, 0)

    def _finish(self, known: ToyTransaction, *, is_commit: bool) -> None:
        kind = ControlType.COMMIT if is_commit else ControlType.ABORT
        marker = TransactionMarker(known.producer_id, known.producer_epoch, kind, 0)
        for topic, number in sorted(known.partitions):
            self._cluster.topics[topic].partitions[number].append_marker(encode_marker(marker, 0))
        if is_commit:
            for group_id, offsets in known.offsets.items():
                self.committed_offsets.setdefault(group_id, {}).update(offsets)
        known.is_open, known.ended = False, is_commit
        known.partitions.clear()
        known.offsets.clear()

    def judge_produce(self, request: ProduceRequest, version: int) -> ErrorCode:
        """The verification that a leader requests before the first batch."""
        transactional_id = request.transactional_id
        if transactional_id is None:
            return ErrorCode.NONE
        for topic in request.topic_data:
            name = topic.name or self._name_of(topic.topic_id)
            for part in topic.partition_data:
                assert isinstance(part.records, memoryview)
                batch = parse_batch(part.records)
                assert batch.is_transactional
                code = self._judge(transactional_id, batch.producer_id, batch.producer_epoch)
                if code is not ErrorCode.NONE:
                    is_fenced = code is ErrorCode.PRODUCER_FENCED
                    return ErrorCode.INVALID_PRODUCER_EPOCH if is_fenced else code
                where = TopicPartition(name, part.index)
                if version >= IMPLICIT_PRODUCE_VERSION:
                    self.add(transactional_id, where)
                elif where not in self.by_id[transactional_id].partitions:
                    return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.NONE

    def _name_of(self, topic_id: bytes) -> str:
        (name,) = (
            name for name, topic in self._cluster.topics.items() if topic.topic_id == topic_id
        )
        return name


def committed(partition: ToyPartition) -> list[bytes | None]:
    """The values of committed transactions, in the order of their commits."""
    waiting: dict[int, list[bytes | None]] = {}
    found: list[bytes | None] = []
    for data in partition.batches:
        batch = parse_batch(data)
        if batch.is_control:
            values = waiting.pop(batch.producer_id, [])
            if read_control_type(batch) is ControlType.COMMIT:
                found += values
        else:
            values = [record.value for record in read_records(batch)]
            if batch.is_transactional:
                waiting.setdefault(batch.producer_id, []).extend(values)
            else:
                found += values
    return found
