"""Requests to the controller about topics and partitions, and their results."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID, TopicPartition, Uuid
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.coordinator.configs.broker_configs import BrokerConfig


@dataclass(frozen=True, slots=True)
class TopicSpec:
    """A topic to create. -1 requests the cluster's default (KIP-464).

    ``assignment``: partition -> replicas, instead of both numbers. ``topic_id`` is drawn by the
    caller, because the machine is deterministic."""

    name: str
    partition_count: int = -1
    replication_factor: int = -1
    assignment: Mapping[int, Sequence[int]] | None = None
    configs: Mapping[str, str | None] = field(default_factory=dict)
    topic_id: Uuid = ZERO_UUID


@dataclass(frozen=True, slots=True)
class PartitionsSpec:
    """A topic to give more partitions. ``assignment``: the replicas of each added partition."""

    name: str
    total_count: int
    assignment: Sequence[Sequence[int]] | None = None


@dataclass(frozen=True, slots=True)
class TopicDeletion:
    """A topic to delete. ``paths``: all its znodes, children before parents.

    ``is_marked``: a znode of that name requests the deletion and must be deleted as well."""

    name: str
    paths: tuple[str, ...]
    topic_id: Uuid = ZERO_UUID
    is_marked: bool = False


@dataclass(frozen=True, slots=True)
class TopicResult:
    """The result for one topic. ``configs`` are those set for it, without defaults."""

    name: str
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None
    topic_id: Uuid = ZERO_UUID
    partition_count: int = -1
    replication_factor: int = -1
    configs: Mapping[str, str] = field(default_factory=dict)


class MoveSpec(NamedTuple):
    """The replicas that a partition should have, the preferred leader first; None cancels the move
    that is under way."""

    partition: TopicPartition
    replicas: tuple[int, ...] | None


class PartitionResult(NamedTuple):
    """The result for one partition."""

    partition: TopicPartition
    error_code: ErrorCode = ErrorCode.NONE
    message: str | None = None


class ShutdownResult(NamedTuple):
    """What a stopping broker still leads though others hold replicas."""

    error_code: ErrorCode
    remaining: tuple[TopicPartition, ...] = ()


class UnregisterResult(NamedTuple):
    """Whether the cluster has forgotten a broker, or why not."""

    error_code: ErrorCode
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ControllerSettings:
    """The broker settings of the controller, with Kafka's names."""

    num_partitions: int = 1
    default_replication_factor: int = 1
    min_insync_replicas: int = 1
    unclean_leader_election_enable: bool = False
    delete_topic_enable: bool = True
    # Each replica costs files, memory and time at every failover (C-19).
    replicas_per_broker_max: int = 10_000
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000
    leader_imbalance_per_broker_percentage: int = 10
    # A broker that has just come back has caches to fill and others to catch up with (C-18).
    balance_after_in_sync_ms: int = 30_000


def controller_settings(config: BrokerConfig) -> ControllerSettings:
    """Those of one broker."""
    return ControllerSettings(
        num_partitions=config.num_partitions,
        default_replication_factor=config.default_replication_factor,
        min_insync_replicas=config.min_insync_replicas,
        unclean_leader_election_enable=config.unclean_leader_election_enable,
        delete_topic_enable=config.delete_topic_enable,
        auto_leader_rebalance_enable=config.auto_leader_rebalance_enable,
        leader_imbalance_check_interval_ms=config.leader_imbalance_check_interval_seconds * 1000,
        leader_imbalance_per_broker_percentage=config.leader_imbalance_per_broker_percentage,
    )
