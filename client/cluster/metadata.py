"""Caches a client's view of the cluster, from Metadata responses. Pure.

Responses come from different brokers, some of which lag behind. A partition's leader is replaced
only by a response whose leader epoch is not older than the known one (KIP-232, hazard C-21);
otherwise a client that has just learnt the new leader would be sent back to the old one.
"""

from __future__ import annotations

from dataclasses import field, replace
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import ZERO_UUID, TopicPartition, Uuid
from ottla.protocol.ports import Address

if TYPE_CHECKING:
    from ottla.protocol.messages.metadata import (
        MetadataResponse,
        MetadataResponsePartition,
        MetadataResponseTopic,
    )

NO_LEADER = -1
# How long a new topic may take to become known to all brokers.
NEWS_MS = 1_000


@dataclass(frozen=True, slots=True)
class BrokerView:
    """One broker, as the cluster advertises it on the client's listener."""

    node_id: int
    address: Address
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition; ``leader_id`` is -1 while it has none."""

    partition: int
    leader_id: int
    leader_epoch: int
    replicas: tuple[int, ...] = ()
    isr: tuple[int, ...] = ()
    offline: tuple[int, ...] = ()
    error: ErrorCode = ErrorCode.NONE


@dataclass(slots=True)
class TopicView:
    """One topic; ``error`` says why it has no partitions, or that the last response denied it."""

    name: str
    topic_id: Uuid = ZERO_UUID
    error: ErrorCode = ErrorCode.NONE
    is_internal: bool = False
    partitions: dict[int, PartitionView] = field(default_factory=dict)
    # Numbers of the partitions that have a leader, ascending.
    available: list[int] = field(default_factory=list)

    @property
    def partition_count(self) -> int:
        return len(self.partitions)


class ClusterMetadata:
    """Brokers, topics and leaders; changed by ``apply`` only. Owned by one cluster client."""

    __slots__ = ("brokers", "cluster_id", "controller_id", "topics", "updated_ms")

    def __init__(self) -> None:
        self.cluster_id: str | None = None
        self.controller_id = -1
        self.brokers: dict[int, BrokerView] = {}
        self.topics: dict[str, TopicView] = {}
        self.updated_ms: float | None = None

    def apply(self, response: MetadataResponse, now_ms: float) -> None:
        """Merge a response. Topics that it does not mention stay unchanged."""
        if response.brokers:
            self.brokers = {
                broker.node_id: BrokerView(
                    broker.node_id, Address(broker.host, broker.port), broker.rack
                )
                for broker in response.brokers
            }
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        for topic in response.topics:
            if topic.name is not None:
                self.topics[topic.name] = self._merged(topic, topic.name)
        self.updated_ms = now_ms

    def _merged(self, topic: MetadataResponseTopic, name: str) -> TopicView:
        known = self.topics.get(name)
        code = error_code(topic.error_code)
        if code is not ErrorCode.NONE and known is not None and known.partitions:
            # A broker that has just started may not know the topic yet. Clients continue with the
            # last known state; if the topic is gone its leaders will say so.
            return replace(known, error=code)
        same = known is not None and known.topic_id == topic.topic_id
        view = TopicView(name, topic.topic_id, code, topic.is_internal)
        for partition in sorted(topic.partitions, key=by_number):
            fresh = partition_view(partition)
            if same:
                assert known is not None
                old = known.partitions.get(fresh.partition)
                if old is not None and fresh.leader_epoch < old.leader_epoch:
                    fresh = old
            view.partitions[fresh.partition] = fresh
            if fresh.leader_id != NO_LEADER:
                view.available.append(fresh.partition)
        return view

    def leader_of(self, partition: TopicPartition) -> int | None:
        """Return the leader's node id; None if there is none, or it is not among the brokers."""
        topic = self.topics.get(partition.topic)
        if topic is None:
            return None
        view = topic.partitions.get(partition.partition)
        if view is None or view.leader_id not in self.brokers:
            return None
        return view.leader_id

    def partition(self, partition: TopicPartition) -> PartitionView | None:
        topic = self.topics.get(partition.topic)
        return None if topic is None else topic.partitions.get(partition.partition)


def by_number(partition: MetadataResponsePartition) -> int:
    """Return the sort key: the partition's number."""
    return partition.partition_index


def partition_view(partition: MetadataResponsePartition) -> PartitionView:
    """Return one partition of a response."""
    return PartitionView(
        partition.partition_index,
        partition.leader_id,
        partition.leader_epoch,
        tuple(partition.replica_nodes),
        tuple(partition.isr_nodes),
        tuple(partition.offline_replicas),
        error_code(partition.error_code),
    )
