"""What the controller machine is told, and what its decisions are made of."""

from __future__ import annotations

from dataclasses import field
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.coordinator.controller.specs import PartitionResult, ShutdownResult, TopicResult
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
    """Which controller: the epoch was obtained once, in the election (C-01)."""

    node_id: int
    epoch: int


class Write(NamedTuple):
    """Store operations to do as one group, and the changes of the image once they are done."""

    operations: tuple[Operation, ...]
    changes: tuple[Change, ...]


class ControlRequest(NamedTuple):
    """A request for one broker; those of one broker are sent in order, one at a time (C-11)."""

    node_id: int
    request: AnyControlRequest


Reply = tuple[TopicResult, ...] | tuple[PartitionResult, ...] | ShutdownResult
ControllerDecision = Decision[Write, ControlRequest, Reply]


@dataclass(frozen=True, slots=True)
class StoredCluster:
    """All that a controller reads when it begins. Every partition of the image has its znode,
    though not necessarily the state below it.

    ``seen_generations``: which generation of each broker an earlier controller has acted upon.
    ``deleting``: topics whose deletion was begun, or is asked for and allowed. ``without_id``:
    topics whose id in the image was drawn just now and is not in the store yet.
    ``topic_versions``: of the znodes that topics were read from. ``deleted``: topics that are
    gone, but for directories on brokers that have not answered their deletion. ``full``: what
    brokers with full disks say of the room that their replicas have."""

    image: MetadataImage
    seen_generations: Mapping[int, int] = field(default_factory=dict)
    deleting: frozenset[str] = frozenset()
    without_id: frozenset[str] = frozenset()
    topic_versions: Mapping[str, int] = field(default_factory=dict)
    deleted: tuple[DeletedTopic, ...] = ()
    full: Mapping[int, RoomReport] = field(default_factory=dict)


class BrokersRead(NamedTuple):
    """All registrations there are now."""

    brokers: tuple[BrokerRegistration, ...]


class TopicsRead(NamedTuple):
    """All topic names there are now, and those topics that were read again.

    ``without_id`` and ``versions`` of their znodes: as in ``StoredCluster``."""

    names: frozenset[str]
    topics: tuple[TopicImage, ...]
    without_id: frozenset[str] = frozenset()
    versions: Mapping[str, int] = MappingProxyType({})


class StatesRead(NamedTuple):
    """Partition states that somebody else wrote: leaders change their ISR by themselves."""

    states: Mapping[TopicPartition, PartitionState]


class ConfigRead(NamedTuple):
    """What is set for an entity now; None when its znode is gone."""

    entity: Entity
    values: Mapping[str, str] | None


class ReplicasFailed(NamedTuple):
    """A broker said that it cannot serve these replicas, though it lives (KIP-112)."""

    node_id: int
    partitions: tuple[TopicPartition, ...]


class DirectoryFailed(NamedTuple):
    """A broker said that one of its data directories has failed, but not which one (KIP-112)."""

    node_id: int


class ReplicasAwaited(NamedTuple):
    """It is time to ask a broker again whether it can serve what it could not: disks fill up, and
    space is freed."""

    node_id: int


class ReplicasBack(NamedTuple):
    """A broker that was asked again has taken on its roles in these."""

    node_id: int
    partitions: tuple[TopicPartition, ...]


class ReplicasDeleted(NamedTuple):
    """A broker answered that nothing is left on it of these deleted topics."""

    node_id: int
    topic_ids: tuple[Uuid, ...]


class RoomRead(NamedTuple):
    """What all brokers with full disks say now."""

    reports: Mapping[int, RoomReport]


class RolesRefused(NamedTuple):
    """A broker answered that it could not take on these roles; it is to be told again (C-12)."""

    node_id: int
    partitions: tuple[TopicPartition, ...]


class BrokerSuspected(NamedTuple):
    """A broker's process seems to be gone, though its session has not run out."""

    node_id: int
    generation: int


class BrokerAnswers(NamedTuple):
    """A broker that was suspected answers."""

    node_id: int


class ShutdownAsked(NamedTuple):
    """A broker wants to be relieved of all it has before it stops. Reply: ShutdownResult.

    ``generation`` -1: it does not say which life of the broker asks."""

    node_id: int
    generation: int


class ElectLeaders(NamedTuple):
    """Give partitions their preferred leader, or, if they have none, any. Reply: one
    PartitionResult per partition; without ``partitions``, of those that were changed or refused."""

    partitions: tuple[TopicPartition, ...] | None
    allow_unclean: bool = False


class PreferredAsked(NamedTuple):
    """What the znode that asks for preferred leaders says, with its version; None: it is not there.
    It goes when they are elected."""

    partitions: tuple[TopicPartition, ...] | None
    version: int = -1


class BalanceDue(NamedTuple):
    """It is time to see whether too many partitions are not led by their preferred leader."""


class AlterMoves(NamedTuple):
    """Move partitions, or give moves up. Reply: one PartitionResult per move."""

    moves: tuple[MoveSpec, ...]
    allow_factor_change: bool = True


class MovesAsked(NamedTuple):
    """What the znode that asks for moves says, with its version; None: it is not there."""

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
    | ElectLeaders
    | PreferredAsked
    | BalanceDue
    | AlterMoves
    | MovesAsked
    | CreateTopics
    | DeleteTopics
    | CreatePartitions
)
