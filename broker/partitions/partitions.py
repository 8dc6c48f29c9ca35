"""The table of partitions on this broker; applies the controller's requests to it.

LeaderAndIsr and StopReplica arrive here over the network or from the controller in this process,
through the same functions. Each is fenced by controller epoch, then topic id, then leader epoch
(hazards C-11, C-22); an error of one partition does not affect the rest of its request (C-12).
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.engine.concurrently import pipelined
from ottla.broker.partitions.due_partitions import DuePartitions, HostedPartitions
from ottla.broker.partitions.lease import Lease, endless_lease
from ottla.broker.partitions.partition import PartitionRuntime
from ottla.broker.partitions.role_orders import leadership_of
from ottla.broker.partitions.strays import StrayReports, find_strays, may_be_of
from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.leading import ReplicaLimits
from ottla.broker.replica.partition import Replica
from ottla.broker.replica.roles import LogBounds
from ottla.coordinator.metadata.changes import FULL_UPDATE
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import ZERO_UUID, TopicPartition
from ottla.protocol.messages.leader_and_isr import (
    LeaderAndIsrPartitionError,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
    LeaderAndIsrTopicState,
)
from ottla.protocol.messages.stop_replica import (
    StopReplicaPartitionError,
    StopReplicaPartitionState,
    StopReplicaRequest,
    StopReplicaResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from ottla.broker.engine.purgatory import Purgatory
    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.log.observer import LogObserver
    from ottla.broker.log.partition_log import PartitionLog
    from ottla.broker.log.storage.settings import LogSettings
    from ottla.broker.metadata.topic_settings import TopicSettings
    from ottla.broker.partitions.traffic import Traffic
    from ottla.broker.replica.progress import FollowerLag
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.ids import Uuid
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.partitions")

# A deletion carries this value instead of a leader epoch: it is above every epoch (KIP-570).
DELETION_EPOCH = -2
NO_LEADER_EPOCH = -1
# Partitions of one request that take their roles together.
ROLES_AT_ONCE = 64


class Partitions:
    """Owned by the server. ``settings_of`` returns a topic's effective configuration."""

    def __init__(
        self,
        node_id: int,
        settings_of: Callable[[str], TopicSettings],
        waiting: Purgatory,
        clock: Clock,
        lag: FollowerLag,
        lease: Lease | None = None,
    ) -> None:
        self._node_id = node_id
        self._settings_of = settings_of
        self._waiting = waiting
        self._clock = clock
        self._lag = lag
        self._lease = endless_lease() if lease is None else lease
        self._logs: LogDirectories | None = None
        self._partitions = HostedPartitions()
        # By topic, including topics that have left this broker.
        self.traffic: dict[str, Traffic] = {}
        # Partitions on a failed directory; they are no longer in the table.
        self._offline: set[tuple[str, int]] = set()
        # New partitions that could not be created yet: they stay new (S-13).
        self._unmade: dict[TopicPartition, Uuid] = {}
        # Reasons of refused roles: logged once, though the controller repeats its request.
        self._refusals: dict[TopicPartition, str] = {}
        self._stray_news = StrayReports()
        self._controller_epoch = -1
        # The controller's requests are applied one at a time, in the order sent.
        self._lock = asyncio.Lock()
        self._sorting = asyncio.Lock()
        self.error_for_missing: Callable[[str, int], ErrorCode] = _unknown
        self.attention = DuePartitions(self.find)
        # Called for each role that a partition of this broker takes or loses.
        self.on_role: Callable[[PartitionRuntime], object] = _ignore
        # Called first for the same changes: the fetchers, which follow the leader.
        self.on_following: Callable[[PartitionRuntime], object] = _ignore
        # Called for each partition of this broker whose topic has new settings.
        self.on_settings: Callable[[PartitionRuntime], object] = _ignore
        # Called for each partition led here whose ISR a follower, which may be named, could join.
        self.on_may_join: Callable[[PartitionRuntime, int | None], object] = _ignore

    def attach(self, logs: LogDirectories) -> None:
        """Take over the loaded logs; they serve once the controller has assigned a role."""
        self._logs = logs
        logs.on_failure(self._on_directory_failure)

    @property
    def logs(self) -> LogDirectories:
        assert self._logs is not None, "the data directories are opened before anything is served"
        return self._logs

    def open_as(self, partition: TopicPartition) -> tuple[LogSettings, LogObserver]:
        """Return how to open a log: its topic's settings and a history to be filled."""
        return self._settings_of(partition.topic).log, ReplicaHistory()

    # ---- lookup ----

    def find(self, topic: str, index: int) -> PartitionRuntime | None:
        """Return the partition if it is, or was last, assigned to this broker."""
        return self._partitions.get((topic, index))

    def is_offline(self, topic: str, index: int) -> bool:
        """Whether the partition's data directory has failed."""
        return (topic, index) in self._offline

    @property
    def offline_count(self) -> int:
        """Partitions on failed data directories."""
        return len(self._offline)

    def __iter__(self) -> Iterator[PartitionRuntime]:
        return iter(list(self._partitions.values()))

    def __len__(self) -> int:
        return len(self._partitions)

    def high_watermarks(self) -> dict[TopicPartition, int]:
        """Return the watermarks for the checkpoint; partitions without a role are omitted."""
        return {one.partition: one.replica.high_watermark for one in self._partitions.values()}

    def topic_changed(self, topic: str) -> None:
        """Apply the topic's changed configuration."""
        for one in self._partitions.of_topic(topic):
            one.use_settings(self._settings_of(topic))
            self.on_settings(one)

    def close(self) -> None:
        """Stop serving; answer parked requests with NOT_LEADER_OR_FOLLOWER."""
        for one in self:
            one.stop()

    # ---- LeaderAndIsr ----

    async def apply_leader_and_isr(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        """Lead, follow or create partitions by LeaderAndIsr (KIP-516 form, version 5+)."""
        # These roles were not given in a session that began meanwhile.
        apply = partial(self._apply, self._lease.term)
        async with self._lock:
            if request.controller_epoch < self._controller_epoch:
                return LeaderAndIsrResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            self._controller_epoch = request.controller_epoch
            if request.type == FULL_UPDATE:
                self._stop_others(request.topic_states)
            orders = [(one, each) for one in request.topic_states for each in one.partition_states]
            named = {(topic.topic_name, state.partition_index) for topic, state in orders}
            # A disk makes many leader epochs durable in little more time than one. A partition
            # named twice takes its roles in the order of the request; then all do so one by one.
            window = ROLES_AT_ONCE if len(named) == len(orders) else 1
            answers = iter(await pipelined(apply, orders, window))
            return LeaderAndIsrResponse(
                topics=[
                    LeaderAndIsrTopicError(
                        topic_id=topic.topic_id,
                        partition_errors=[
                            self._still_true(next(answers)) for _ in topic.partition_states
                        ],
                    )
                    for topic in request.topic_states
                ]
            )

    def _still_true(self, answer: LeaderAndIsrPartitionError) -> LeaderAndIsrPartitionError:
        """Check the role again: the directory may have failed while others took their roles."""
        if self.is_offline(answer.topic_name, answer.partition_index):
            answer.error_code = ErrorCode.KAFKA_STORAGE_ERROR
        return answer

    async def _apply(
        self, term: int, order: tuple[LeaderAndIsrTopicState, LeaderAndIsrPartitionState]
    ) -> LeaderAndIsrPartitionError:
        topic, state = order
        partition = TopicPartition(topic.topic_name, state.partition_index)
        answer = LeaderAndIsrPartitionError(
            topic_name=partition.topic, partition_index=partition.partition
        )
        try:
            leadership = leadership_of(partition, state, self._node_id)
            is_spare = leadership.can_spare(self._node_id)
            runtime = await self._find_or_make(
                partition, topic.topic_id, is_new=state.is_new, is_spare=is_spare
            )
            change = await runtime.become(leadership, term)
            answer.error_code = change.error
            self._refusals.pop(partition, None)
        except KafkaError as error:
            # A failed directory is logged once, not by each of its partitions; and a partition that
            # no controller names is not remembered.
            is_known = partition in self._offline or error.code is ErrorCode.INVALID_REQUEST
            if not is_known and self._refusals.get(partition) != error.message:
                self._refusals[partition] = error.message
                logger.error("%s-%d cannot be served: %s", *partition, error.message)
            answer.error_code = error.code
        return answer

    async def _find_or_make(
        self, partition: TopicPartition, topic_id: Uuid, *, is_new: bool, is_spare: bool
    ) -> PartitionRuntime:
        runtime = self._partitions.get(partition)
        # Existing directories are handled one by one: that is rare, and they share files.
        async with self._sorting:
            if runtime is None:
                await self.logs.choose(partition, topic_id)
                if is_spare:
                    await self.logs.set_spoiled_aside(partition)
            log = self.logs.get(partition) if runtime is None else runtime.log
            if log is not None and not may_be_of(log, topic_id):
                # The directory belongs to a topic of the same name that was deleted while this
                # broker was down. It is kept for the operator, under another name (hazards C-22,
                # S-32).
                if runtime is not None:
                    # The replica has only missed the deletion, cut off or without a session.
                    self._forget(runtime)
                    runtime = None
                    await log.settled()
                await self.logs.set_aside(partition)
                log = None
                is_new = True
        if runtime is None:
            if log is None or log.topic_id is None:
                # Without the topic id the follower would fetch by name, in a version that does not
                # contain its broker epoch: no leader would add it to an ISR again.
                log = await self._make_log(partition, topic_id, is_new=is_new)
            # Its previous leadership or fetcher may still be truncating it.
            await log.settled()
            log.home.health.ensure_online()
            self._offline.discard(partition)
            runtime = self._partitions[partition] = self._make(partition, log)
        return runtime

    def _stop_others(self, listed: Sequence[LeaderAndIsrTopicState]) -> None:
        """Stop partitions that are missing in the complete list: they were deleted or moved while
        this broker was out of contact, and clients must not continue to write to them."""
        known = {
            (topic.topic_name, state.partition_index)
            for topic in listed
            for state in topic.partition_states
        }
        for runtime in self:
            if runtime.partition not in known:
                logger.info("%s-%d no longer belongs to this broker", *runtime.partition)
                self._forget(runtime)

    def _forget(self, runtime: PartitionRuntime) -> None:
        runtime.stop()
        del self._partitions[runtime.partition]

    async def _make_log(
        self, partition: TopicPartition, topic_id: Uuid, *, is_new: bool
    ) -> PartitionLog:
        if is_new:
            self._unmade[partition] = topic_id
        is_new = self._unmade.get(partition) == topic_id
        log = await self.logs.create(partition, topic_id, is_new=is_new)
        self._unmade.pop(partition, None)
        return log

    def _make(self, partition: TopicPartition, log: PartitionLog) -> PartitionRuntime:
        settings = self._settings_of(partition.topic)
        # Logs are opened before the settings of topics are known.
        log.settings = settings.log
        limits = ReplicaLimits(
            settings.min_insync_replicas,
            self._lag.time_max_ms,
            self._lag.messages_max,
            settings.unclean_leader_election,
            settings.flush_before_ack,
        )
        watermark = self.logs.high_watermark(partition)
        bounds = LogBounds(log.log_start_offset, log.log_end_offset, watermark)
        # From the log itself: a partition in two directories was opened and reported twice.
        history = log.observer
        assert isinstance(history, ReplicaHistory)
        replica = Replica(self._node_id, history, limits, bounds)
        runtime = PartitionRuntime(
            partition, log, replica, settings, self._waiting, self._clock, self._lease
        )
        runtime.traffic = self.traffic.setdefault(partition.topic, runtime.traffic)
        runtime.on_role = self._tell_of_role
        runtime.on_may_join = lambda one, follower: self.on_may_join(one, follower)
        self.attention.admit(runtime)
        return runtime

    def _tell_of_role(self, runtime: PartitionRuntime) -> None:
        self.on_following(runtime)
        self.on_role(runtime)

    # ---- StopReplica ----

    async def apply_stop_replica(self, request: StopReplicaRequest) -> StopReplicaResponse:
        """Stop serving partitions, and delete those so marked (KIP-570 form, version 3+)."""
        async with self._lock:
            if request.controller_epoch < self._controller_epoch:
                return StopReplicaResponse(error_code=ErrorCode.STALE_CONTROLLER_EPOCH)
            self._controller_epoch = request.controller_epoch
            response = StopReplicaResponse()
            strays: list[TopicPartition] = []
            for topic in request.topic_states:
                for state in topic.partition_states:
                    partition = TopicPartition(topic.topic_name, state.partition_index)
                    error = await self._stop(partition, state, topic.topic_id, strays)
                    answer = StopReplicaPartitionError(*partition, error)
                    response.partition_errors.append(answer)
            self._stray_news.removed(strays)
            return response

    async def _stop(
        self,
        partition: TopicPartition,
        state: StopReplicaPartitionState,
        topic_id: Uuid,
        strays: list[TopicPartition],
    ) -> ErrorCode:
        """``topic_id``: of a deleted topic; ``strays`` collects partitions without a role."""
        runtime = self._partitions.get(partition)
        log = runtime.log if runtime else self.logs.get(partition)
        is_other = log is not None and not may_be_of(log, topic_id)
        if runtime is not None and not is_other:
            fenced = state.leader_epoch not in (DELETION_EPOCH, NO_LEADER_EPOCH)
            if fenced and state.leader_epoch < runtime.leader_epoch:
                # It was assigned here again in the meantime: a late request must not stop it
                # (C-10).
                return ErrorCode.FENCED_LEADER_EPOCH
            self._forget(runtime)
        if not state.delete_partition:
            return ErrorCode.NONE
        if not is_other:
            self._offline.discard(partition)
            # State of a later topic of that name, which could not be created yet, is kept.
            if topic_id in (ZERO_UUID, self._unmade.get(partition, topic_id)):
                self._unmade.pop(partition, None)
                self._refusals.pop(partition, None)
        try:
            if topic_id == ZERO_UUID:
                await self.logs.delete(partition)
                return ErrorCode.NONE
            if await self.logs.delete_topic(partition, topic_id) and runtime is None:
                strays.append(partition)
        except KafkaError as error:
            logger.error("%s-%d cannot be deleted: %s", *partition, error.message)
            return error.code
        # Some of its files may be on a directory that returns: the deletion stays pending.
        return ErrorCode.NONE if self.logs.are_all_there else ErrorCode.KAFKA_STORAGE_ERROR

    async def drop_moved(self, image: MetadataImage) -> None:
        """Delete replicas that were moved to other brokers while this one was away: no request for
        them follows. The log lists other directories that do not belong to this broker
        (``strays.py``)."""
        async with self._lock:
            found = find_strays(list(self.logs), image, self._node_id)
            for partition, leader_epoch in found.moved:
                logger.info("%s-%d was moved to other brokers", *partition)
                gone = StopReplicaPartitionState(partition.partition, leader_epoch, True)
                await self._stop(partition, gone, ZERO_UUID, [])
            self._stray_news.tell(found.unknown)

    def _on_directory_failure(self, path: str) -> None:
        """Synchronous: the broker leads no partition of that directory from this moment on
        (S-12)."""
        for one in self:
            if one.log.home.health.path == path:
                self._offline.add(one.partition)
                del self._partitions[one.partition]
                one.stop()


def _unknown(_topic: str, _index: int) -> ErrorCode:
    return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def _ignore(_partition: PartitionRuntime, _follower: int | None = None) -> None:
    """The default: no subscriber."""
