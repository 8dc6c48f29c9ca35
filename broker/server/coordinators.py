"""Builds the coordinators of groups and transactions, and what writes transaction markers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.coordinating.groups import GroupCoordinator, group_machines
from ottla.broker.coordinating.shards import ShardParts
from ottla.broker.coordinating.shards_loading import Loader
from ottla.broker.coordinating.stalls import StallClock
from ottla.broker.coordinating.transactions import (
    TransactionCoordinator,
    TransactionEffects,
    transaction_machines,
)
from ottla.broker.coordinating.txn_markers import MarkerParts, MarkerSender
from ottla.broker.coordinating.txn_partition import MarkerWriter
from ottla.broker.coordinating.txn_verification import Verification
from ottla.broker.metadata.partition_existence import missing_partitions
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.administration.producer_ids import ProducerIds
    from ottla.broker.membership.peers import Peers
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.produces import Flushes
    from ottla.broker.server.shared_parts import SharedParts
    from ottla.protocol.ids import TopicPartition

# How long a transactional producer waits until its coordinator has written and replicated a
# change; groups have the setting offsets.commit.timeout.ms, with the same default, for this.
_TRANSACTION_COMMIT_TIMEOUT_MS = 5_000.0


class BrokerCoordinators(NamedTuple):
    """The group coordinator and the transaction coordinator, and what writes their markers."""

    groups: GroupCoordinator
    transactions: TransactionCoordinator
    marker_writer: MarkerWriter
    verification: Verification

    def trust_clock(self, trusts_wall: Callable[[], bool]) -> None:
        """Use ``trusts_wall`` to decide whether the wall clock may expire anything (S-18)."""
        self.groups.trust_clock(trusts_wall)
        self.transactions.trust_clock(trusts_wall)

    def start(self, partitions: Partitions) -> None:
        """Begin to load the coordinator partitions that this broker leads."""
        self.groups.start(partitions)
        self.transactions.start(partitions)

    def on_role(self, partition: PartitionRuntime) -> None:
        """A partition on this broker has become leader or follower, or is gone."""
        self.groups.on_role(partition)
        self.transactions.on_role(partition)

    def close(self) -> None:
        """Answer every waiting request with an error and load nothing any more."""
        self.groups.close()
        self.transactions.close()


def build_coordinators(
    shared: SharedParts,
    partitions: Partitions,
    flushes: Flushes,
    peers: Peers,
    producer_ids: ProducerIds,
) -> BrokerCoordinators:
    """Build both coordinators; they load nothing before ``BrokerCoordinators.start``."""
    clock = shared.ports.clock
    groups = _build_groups(shared, flushes)
    writer = MarkerWriter(partitions, groups, flushes, shared.waiting, clock)
    effects = _build_effects(shared, peers, writer, producer_ids)
    transactions = TransactionCoordinator(
        shared.metadata,
        transaction_machines(shared.config),
        _shard_parts(shared, flushes, _TRANSACTION_COMMIT_TIMEOUT_MS)._replace(performer=effects),
        effects,
    )
    verification = Verification(peers, shared.metadata, transactions.add, clock, shared.tasks)
    return BrokerCoordinators(groups, transactions, writer, verification)


def _build_groups(shared: SharedParts, flushes: Flushes) -> GroupCoordinator:
    ports, config = shared.ports, shared.config
    codec = Codec(config.offsets_topic_compression_codec)
    parts = _shard_parts(shared, flushes, config.offsets_commit_timeout_ms)
    machines = group_machines(config, shared.metadata, ports.random.child("groups"))
    return GroupCoordinator(shared.metadata, machines, parts._replace(codec=codec))


def _build_effects(
    shared: SharedParts, peers: Peers, writer: MarkerWriter, producer_ids: ProducerIds
) -> TransactionEffects:
    async def missing(partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return await missing_partitions(shared.session(), partitions)

    markers = MarkerSender(
        MarkerParts(
            shared.node_id,
            peers,
            shared.metadata,
            shared.ports.clock,
            shared.tasks,
            missing,
            writer.write,
        )
    )
    return TransactionEffects(markers, producer_ids.allocate, shared.tasks)


def _shard_parts(shared: SharedParts, flushes: Flushes, commit_timeout_ms: float) -> ShardParts:
    ports = shared.ports
    return ShardParts(
        clock=ports.clock,
        stalls=StallClock(ports.clock),
        wheel=shared.wheel,
        waiting=shared.waiting,
        tasks=shared.tasks,
        flushes=flushes,
        loader=Loader(ports.clock, ports.offload, shared.waiting),
        barriers=shared.barriers,
        commit_timeout_ms=commit_timeout_ms,
    )
