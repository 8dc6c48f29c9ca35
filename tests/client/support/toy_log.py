"""The partitions of the toy cluster: batches in a list, and a broker's rules about sequences."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.fetch import (
    FetchableTopicResponse,
    FetchRequest,
    FetchResponse,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from ottla.protocol.messages.offset_for_leader_epoch import (
    EpochEndOffset,
    OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from ottla.protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceResponse,
)
from ottla.protocol.records.batch import parse_batch, stamp
from ottla.protocol.records.record import Record, read_records

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Protocol

    from ottla.protocol.records.batch import RecordBatch

    class Topic(Protocol):
        """The part of a toy topic that logs need."""

        topic_id: bytes
        partitions: list[ToyPartition]


@dataclass
class ToyPartition:
    """One partition's batches, and what it remembers of producers."""

    leader_id: int
    leader_epoch: int = 0
    start_offset: int = 0
    next_offset: int = 0
    batches: list[bytes] = field(default_factory=list)
    # (producer id) -> (epoch, next sequence, {(base sequence, last one): base offset} of recent
    # batches)
    producers: dict[int, tuple[int, int, dict[tuple[int, int], int]]] = field(default_factory=dict)
    # The replica that the leader sends consumers to (KIP-392).
    read_replica: int | None = None
    # Where an epoch ends that is not the last one.
    epoch_ends: dict[int, int] = field(default_factory=dict)

    def append(self, data: bytes) -> tuple[ErrorCode, int]:
        """Append one batch and return its base offset, or say why not."""
        batch = parse_batch(data)
        if batch.producer_id >= 0:
            code, offset = self._judge(batch)
            if code is not ErrorCode.NONE or offset >= 0:
                return code, offset
        base_offset = self.next_offset
        buffer = bytearray(data)
        stamp(buffer, 0, base_offset, self.leader_epoch)
        self.batches.append(bytes(buffer))
        self.next_offset += batch.last_offset_delta + 1
        if batch.producer_id >= 0:
            epoch, _, recent = self.producers.get(batch.producer_id, (-1, 0, {}))
            if epoch != batch.producer_epoch:
                recent = {}
            recent[batch.base_sequence, batch.last_sequence] = base_offset
            following = (batch.last_sequence + 1) % 2**31
            self.producers[batch.producer_id] = (batch.producer_epoch, following, recent)
        return ErrorCode.NONE, base_offset

    def append_marker(self, data: bytes) -> None:
        """Append a control batch: the producer's transaction has ended here."""
        batch = parse_batch(data)
        buffer = bytearray(data)
        stamp(buffer, 0, self.next_offset, self.leader_epoch)
        self.batches.append(bytes(buffer))
        self.next_offset += 1
        known = self.producers.get(batch.producer_id)
        if known is None or known[0] != batch.producer_epoch:
            self.producers[batch.producer_id] = (batch.producer_epoch, 0, {})

    def _judge(self, batch: RecordBatch) -> tuple[ErrorCode, int]:
        epoch, sequence = batch.producer_epoch, batch.base_sequence
        known = self.producers.get(batch.producer_id)
        if known is None:
            return ErrorCode.NONE, -1
        known_epoch, next_sequence, recent = known
        if epoch < known_epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH, -1
        if epoch == known_epoch and (sequence, batch.last_sequence) in recent:
            return ErrorCode.NONE, recent[sequence, batch.last_sequence]
        expected = next_sequence if epoch == known_epoch else 0
        if sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        return ErrorCode.NONE, -1

    def records(self) -> list[Record]:
        """All records, in order."""
        return [record for data in self.batches for record in read_records(parse_batch(data))]

    def values(self) -> list[bytes | None]:
        return [record.value for record in self.records()]

    def read(self, offset: int, limit_bytes: int) -> bytes:
        """Whole batches from the one that holds the offset; at least one if there is any."""
        found = bytearray()
        for data in self.batches:
            if parse_batch(data).next_offset <= offset:
                continue
            if found and len(found) + len(data) > limit_bytes:
                break
            found += data
        return bytes(found)


def find(topics: Mapping[str, Topic], name: str, topic_id: bytes) -> tuple[str, Topic | None]:
    """A topic by name, or by id where the request has ids."""
    if name:
        return name, topics.get(name)
    for known, topic in topics.items():
        if topic.topic_id == topic_id:
            return known, topic
    return "", None


def toy_produce(
    topics: Mapping[str, Topic], request: ProduceRequest, node_id: int, error: ErrorCode
) -> ProduceResponse | None:
    """Append every batch, or refuse every one with the error."""
    response = ProduceResponse()
    for topic in request.topic_data:
        _, found = find(topics, topic.name, topic.topic_id)
        answer = TopicProduceResponse(topic.name, topic.topic_id)
        response.responses.append(answer)
        for data in topic.partition_data:
            code, base_offset = error, -1
            if found is None or data.index >= len(found.partitions):
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            elif found.partitions[data.index].leader_id != node_id:
                code = ErrorCode.NOT_LEADER_OR_FOLLOWER
            elif code is ErrorCode.NONE:
                assert isinstance(data.records, memoryview)
                code, base_offset = found.partitions[data.index].append(bytes(data.records))
            answer.partition_responses.append(
                PartitionProduceResponse(data.index, int(code), base_offset)
            )
    return response if request.acks else None


def toy_fetch(
    topics: Mapping[str, Topic], request: FetchRequest, node_id: int, error: ErrorCode
) -> FetchResponse:
    """Answer at once with what there is, or with who has it nearer."""
    response = FetchResponse()
    for topic in request.topics:
        _, found = find(topics, topic.topic, topic.topic_id)
        answer = FetchableTopicResponse(topic.topic, topic.topic_id)
        response.responses.append(answer)
        for wanted in topic.partitions:
            part = PartitionData(wanted.partition, int(error), records=b"")
            answer.partitions.append(part)
            if found is None:
                part.error_code = int(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
                continue
            log = found.partitions[wanted.partition]
            part.high_watermark = part.last_stable_offset = log.next_offset
            part.log_start_offset = log.start_offset
            if error is not ErrorCode.NONE:
                continue
            if log.read_replica is not None and log.leader_id == node_id and request.rack_id:
                part.preferred_read_replica = log.read_replica
                continue
            if not log.start_offset <= wanted.fetch_offset <= log.next_offset:
                part.error_code = int(ErrorCode.OFFSET_OUT_OF_RANGE)
                continue
            part.records = log.read(wanted.fetch_offset, wanted.partition_max_bytes)
    return response


def toy_list_offsets(
    topics: Mapping[str, Topic], request: ListOffsetsRequest, error: ErrorCode
) -> ListOffsetsResponse:
    """Earliest, latest, or the first record at or after a time."""
    response = ListOffsetsResponse()
    for topic in request.topics:
        answer = ListOffsetsTopicResponse(topic.name)
        response.topics.append(answer)
        for wanted in topic.partitions:
            log = topics[topic.name].partitions[wanted.partition_index]
            part = ListOffsetsPartitionResponse(wanted.partition_index, int(error))
            answer.partitions.append(part)
            if wanted.timestamp == -1:
                part.offset = log.next_offset
            elif wanted.timestamp == -2:
                part.offset = log.start_offset
            else:
                for record in log.records():
                    if record.timestamp >= wanted.timestamp:
                        part.offset, part.timestamp = record.offset, record.timestamp
                        break
    return response


def toy_epoch_ends(
    topics: Mapping[str, Topic], request: OffsetForLeaderEpochRequest, error: ErrorCode
) -> OffsetForLeaderEpochResponse:
    """The end offsets of epochs."""
    response = OffsetForLeaderEpochResponse()
    for topic in request.topics:
        answer = OffsetForLeaderTopicResult(topic.topic)
        response.topics.append(answer)
        for wanted in topic.partitions:
            log, epoch = topics[topic.topic].partitions[wanted.partition], wanted.leader_epoch
            end = log.epoch_ends.get(epoch, log.next_offset)
            answer.partitions.append(EpochEndOffset(int(error), wanted.partition, epoch, end))
    return response
