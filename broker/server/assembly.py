"""Parts of a broker that are made of many others, and what of the configuration each is told."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.controlling.controller import ControllerCandidate
from ottla.broker.controlling.controllership import ControllerParts
from ottla.broker.controlling.peer_watch import Vigil
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
from ottla.broker.directories.replica_moves import ReplicaMoves
from ottla.broker.housekeeping.housekeeping import Housekeeping, Intervals
from ottla.broker.log.directories.directories import DirectoriesConfig
from ottla.broker.metadata.existence import missing_partitions
from ottla.broker.metadata.settings import BROKERS, TOPICS
from ottla.broker.partitions.reads import Reads
from ottla.coordinator.configs.config_changes import check_topic_configs
from ottla.coordinator.controller.specs import controller_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.compression import Codec

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.broker.administration.producer_ids import ProducerIds
    from ottla.broker.controlling.wire_channel import WireChannel
    from ottla.broker.engine.deferred import Later
    from ottla.broker.engine.purgatory import Waiting
    from ottla.broker.engine.tasks import Tasks
    from ottla.broker.engine.timing_wheel import TimingWheel
    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.broker.metadata.settings import Settings
    from ottla.broker.partitions.partitions import Partitions
    from ottla.broker.partitions.produces import Flushes
    from ottla.broker.partitions.read_barriers import ReadBarriers
    from ottla.broker.partitions.throttles import ReplicationThrottles
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.metadata.delta import Delta
    from ottla.coordinator.store.store import Session
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.write_txn_markers import (
        WriteTxnMarkersRequest,
        WriteTxnMarkersResponse,
    )
    from ottla.protocol.ports import Ports

# What a transactional producer waits at most to hear that its coordinator has written something;
# groups have offsets.commit.timeout.ms, of the same length, for it.
_TRANSACTION_COMMIT_TIMEOUT_MS = 5_000.0


class Machinery(NamedTuple):
    """What nearly every part runs on."""

    node_id: int
    ports: Ports
    config: BrokerConfig
    metadata: MetadataCache
    tasks: Tasks
    waiting: Waiting
    wheel: TimingWheel
    barriers: ReadBarriers


def directories_config(machinery: Machinery, cluster_id: str) -> DirectoriesConfig:
    """What the data directories are opened with."""
    config = machinery.config
    return DirectoriesConfig(
        paths=[machinery.ports.disk.absolute(path) for path in config.log_dirs],
        broker_id=machinery.node_id,
        cluster_id=cluster_id,
        workers_per_directory=config.num_recovery_threads_per_data_dir,
        free_bytes_floor=config.free_space_floor_bytes,
    )


def settings_follower(settings: Settings, partitions: Partitions) -> Callable[[Delta], None]:
    """What has settings read anew, by those who keep them, when others were made."""

    def on_metadata(delta: Delta) -> None:
        for entity in delta.configs:
            if entity.entity_type == BROKERS:
                settings.forget()
                for topic in {one.partition.topic for one in partitions}:
                    partitions.topic_changed(topic)
            elif entity.entity_type == TOPICS:
                settings.forget(entity.name)
                partitions.topic_changed(entity.name)

    return on_metadata


def make_controller(
    machinery: Machinery, channel: WireChannel, peers: Peers
) -> ControllerCandidate:
    """This broker as a candidate for controller."""
    ports = machinery.ports
    parts = ControllerParts(
        settings=controller_settings(machinery.config),
        check_configs=partial(check_topic_configs, null_code=ErrorCode.INVALID_CONFIG),
        channel=channel,
        clock=ports.clock,
        random=ports.random,
        tasks=machinery.tasks,
        vigil=Vigil(peers, ports.clock, machinery.tasks),
    )
    return ControllerCandidate(machinery.node_id, machinery.metadata, parts)


def make_reads(
    machinery: Machinery, partitions: Partitions, throttles: ReplicationThrottles
) -> Reads:
    """What serves fetches of consumers and followers."""
    return Reads(
        partitions,
        machinery.waiting,
        machinery.ports,
        machinery.config,
        throttles,
        machinery.barriers.proofs,
    )


def make_groups(machinery: Machinery, flushes: Flushes) -> GroupCoordinator:
    """The coordinator of the groups whose partition this broker leads."""
    ports, config = machinery.ports, machinery.config
    codec = Codec(config.offsets_topic_compression_codec)
    parts = _shard_parts(machinery, flushes, config.offsets_commit_timeout_ms)
    machines = group_machines(config, machinery.metadata, ports.random.child("groups"))
    return GroupCoordinator(machinery.metadata, machines, parts._replace(codec=codec))


def make_housekeeping(machinery: Machinery, partitions: Partitions, tasks: Tasks) -> Housekeeping:
    """The chores with the configured intervals; not started yet."""
    config = machinery.config
    intervals = Intervals(
        retention_check_ms=config.log_retention_check_interval_ms,
        checkpoint_ms=config.replica_high_watermark_checkpoint_interval_ms,
        producer_expiration_ms=config.producer_id_expiration_ms,
    )
    return Housekeeping(partitions, machinery.ports.clock, tasks, intervals)


def make_moves(
    machinery: Machinery, partitions: Partitions, throttles: ReplicationThrottles, tasks: Tasks
) -> ReplicaMoves:
    """What moves replicas between data directories; its ``tasks`` end before the logs do."""
    clock = machinery.ports.clock
    return ReplicaMoves(partitions, machinery.metadata, throttles.directories, clock, tasks)


def make_marker_writer(
    machinery: Machinery, partitions: Partitions, groups: GroupCoordinator, flushes: Flushes
) -> MarkerWriter:
    """What writes the ends of transactions into the partitions that are led here."""
    return MarkerWriter(partitions, groups, flushes, machinery.waiting, machinery.ports.clock)


class MarkerRoads(NamedTuple):
    """How transaction markers leave: to other brokers, to partitions that are led here, and whom
    to ask whether a partition exists."""

    peers: Peers
    write_here: Callable[[WriteTxnMarkersRequest], Later[WriteTxnMarkersResponse]]
    session: Callable[[], Session]


def make_transactions(
    machinery: Machinery, flushes: Flushes, producer_ids: ProducerIds, roads: MarkerRoads
) -> TransactionCoordinator:
    """The coordinator of the transactional ids whose partition this broker leads."""

    async def missing(partitions: Iterable[TopicPartition]) -> set[TopicPartition]:
        return await missing_partitions(roads.session(), partitions)

    markers = MarkerSender(
        MarkerParts(
            machinery.node_id,
            roads.peers,
            machinery.metadata,
            machinery.ports.clock,
            machinery.tasks,
            missing,
            roads.write_here,
        )
    )
    effects = TransactionEffects(markers, producer_ids.allocate, machinery.tasks)
    parts = _shard_parts(machinery, flushes, _TRANSACTION_COMMIT_TIMEOUT_MS)
    return TransactionCoordinator(
        machinery.metadata,
        transaction_machines(machinery.config),
        parts._replace(performer=effects),
        effects,
    )


def make_verification(
    machinery: Machinery, peers: Peers, transactions: TransactionCoordinator
) -> Verification:
    """What asks coordinators, here and elsewhere, whether a transaction is open."""
    clock, tasks = machinery.ports.clock, machinery.tasks
    return Verification(peers, machinery.metadata, transactions.add, clock, tasks)


def _shard_parts(machinery: Machinery, flushes: Flushes, commit_timeout_ms: float) -> ShardParts:
    ports = machinery.ports
    return ShardParts(
        clock=ports.clock,
        stalls=StallClock(ports.clock),
        wheel=machinery.wheel,
        waiting=machinery.waiting,
        tasks=machinery.tasks,
        flushes=flushes,
        loader=Loader(ports.clock, ports.offload, machinery.waiting),
        barriers=machinery.barriers,
        commit_timeout_ms=commit_timeout_ms,
    )
