"""Events that the controller handles, and the parts of its decisions."""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.controller.specs import (
    PartitionResult,
    ShutdownResult,
    TopicResult,
    UnregisterResult,
)
from ottla.coordinator.decision import Decision
from ottla.protocol.data_classes import dataclass
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest
from ottla.protocol.messages.stop_replica import StopReplicaRequest
from ottla.protocol.messages.update_metadata import UpdateMetadataRequest
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.coordinator.controller.specs import (
        MoveSpec,
        PartitionsSpec,
        TopicDeletion,
        TopicSpec,
    )
    from ottla.coordinator.metadata.changes import Change
    from ottla.coordinator.metadata.image import (
        BrokerRegistration,
        Entity,
        MetadataImage,
        PartitionState,
        TopicImage,
    )
    from ottla.coordinator.store.deleted_topics import DeletedTopic
    from ottla.coordinator.store.full_disks import RoomReport
    from ottla.coordinator.store.store import Operation
    from ottla.protocol.ids import TopicPartition, Uuid

AnyControlRequest = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class ControllerEpoch(NamedTuple):
    """A controller; its epoch was obtained once, in the election (C-01)."""

    node_id: int
    epoch: int


class Write(NamedTuple):
    """Store operations to execute as one group, and the image changes that follow."""

    operations: tuple[Operation, ...]
    changes: tuple[Change, ...]


class ControlRequest(NamedTuple):
    """A request for one broker; those of one broker are sent in order, one at a time (C-11)."""

    node_id: int
    request: AnyControlRequest


Reply = tuple[TopicResult, ...] | tuple[PartitionResult, ...] | ShutdownResult | UnregisterResult
ControllerDecision = Decision[Write, ControlRequest, Reply]


@dataclass(frozen=True, slots=True)
class StoredCluster:
    """What a controller reads when it begins. Every partition of the image has its topic's znode,
    but not necessarily a state znode.

    ``seen_generations``: the generation of each broker that an earlier controller has handled.
    ``deleting``: topics whose deletion was begun, or is requested and allowed. ``without_id``:
    topics whose id in the image was just drawn and is not in the store. ``topic_versions``: of the
    topic znodes. ``deleted``: deleted topics with brokers that have not answered their deletion.
    ``full``: the room that brokers with full disks report."""

    image: MetadataImage
    seen_generations: Mapping[int, int] = field(default_factory=dict)
    deleting: frozenset[str] = frozenset()
    without_id: frozenset[str] = frozenset()
    topic_versions: Mapping[str, int] = field(default_factory=dict)
    deleted: tuple[DeletedTopic, ...] = ()
    full: Mapping[int, RoomReport] = field(default_factory=dict)


class BrokersRead(NamedTuple):
    """All present registrations."""

    brokers: tuple[BrokerRegistration, ...]


class TopicsRead(NamedTuple):
    """All present topic names, and the topics that were re-read.

    ``without_id`` and ``versions`` of their znodes: as in ``StoredCluster``."""

    names: frozenset[str]
    topics: tuple[TopicImage, ...]
    without_id: frozenset[str] = frozenset()
    versions: Mapping[str, int] = MappingProxyType({})


class StatesRead(NamedTuple):
    """Partition states that others wrote: leaders change their ISR themselves."""

    states: Mapping[TopicPartition, PartitionState]


class ConfigRead(NamedTuple):
    """An entity's present settings; None if its znode is deleted."""

    entity: Entity
    values: Mapping[str, str] | None


class ReplicasFailed(NamedTuple):
    """A live broker reported that it cannot serve these replicas (KIP-112)."""

    node_id: int
    partitions: tuple[TopicPartition, ...]


class DirectoryFailed(NamedTuple):
    """A broker reported that one of its data directories has failed, not which one (KIP-112)."""

    node_id: int


class ReplicasAwaited(NamedTuple):
    """Ask a broker again whether it can serve its offline replicas: disk space may have been
    freed."""

    node_id: int


class ReplicasBack(NamedTuple):
    """A broker that was asked again has accepted its roles in these."""

    node_id: int
    partitions: tuple[TopicPartition, ...]


class ReplicasDeleted(NamedTuple):
    """A broker answered that it has deleted all replicas of these topics."""

    node_id: int
    topic_ids: tuple[Uuid, ...]


class RoomRead(NamedTuple):
    """The present reports of all brokers with full disks."""

    reports: Mapping[int, RoomReport]


class RolesRefused(NamedTuple):
    """A broker answered that it could not take these roles; they must be sent again (C-12)."""

    node_id: int
    partitions: tuple[TopicPartition, ...]


class BrokerSuspected(NamedTuple):
    """A broker's process seems dead, though its session has not expired."""

    node_id: int
    generation: int


class BrokerAnswers(NamedTuple):
    """A suspected broker answers."""

    node_id: int


class ShutdownAsked(NamedTuple):
    """A broker asks to move off all its roles before it stops. Reply: ShutdownResult.

    ``generation`` -1: the broker did not send it."""

    node_id: int
    generation: int


class UnregisterBroker(NamedTuple):
    """Forget a broker that will not come back. Reply: UnregisterResult."""

    node_id: int


class ElectLeaders(NamedTuple):
    """Elect preferred leaders, or, for partitions without one, any leader. Reply: one
    PartitionResult per partition; without ``partitions`` for those changed or refused."""

    partitions: tuple[TopicPartition, ...] | None
    allow_unclean: bool = False


class PreferredAsked(NamedTuple):
    """Partitions in the znode that requests preferred leaders, and its version; None: no znode.
    It is deleted once they are elected."""

    partitions: tuple[TopicPartition, ...] | None
    version: int = -1


class BalanceDue(NamedTuple):
    """Check whether too many partitions are not led by their preferred leader."""


class AlterMoves(NamedTuple):
    """Move partitions, or cancel moves. Reply: one PartitionResult per move."""

    moves: tuple[MoveSpec, ...]
    allow_factor_change: bool = True


class MovesAsked(NamedTuple):
    """The moves in the znode that requests them, and its version; None: no znode."""

    targets: Mapping[TopicPartition, tuple[int, ...]] | None
    version: int = -1


class CreateTopics(NamedTuple):
    """Reply: one TopicResult per spec."""

    specs: tuple[TopicSpec, ...]
    validate_only: bool = False


class DeleteTopics(NamedTuple):
    """Reply: one TopicResult per deletion."""

    deletions: tuple[TopicDeletion, ...]


class CreatePartitions(NamedTuple):
    """Reply: one TopicResult per spec."""

    specs: tuple[PartitionsSpec, ...]
    validate_only: bool = False


Event = (
    BrokersRead
    | TopicsRead
    | StatesRead
    | ConfigRead
    | ReplicasFailed
    | DirectoryFailed
    | ReplicasAwaited
    | ReplicasBack
    | ReplicasDeleted
    | RoomRead
    | RolesRefused
    | BrokerSuspected
    | BrokerAnswers
    | ShutdownAsked
    | UnregisterBroker
    | ElectLeaders
    | PreferredAsked
    | BalanceDue
    | AlterMoves
    | MovesAsked
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
)
