"""The group coordinator of this broker: which shard a group belongs to, and whether it is here.

A group's coordinator is whoever leads partition ``abs(hash(group)) mod n`` of the offsets topic
(GRP-01). This file finds the shard and keeps the set of shards equal to what is led; shards.py runs
them, coordinator/group decides in them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.broker.runtime.group_times import OwnTimes
from ottla.broker.runtime.internal_topics import OFFSETS_TOPIC
from ottla.broker.runtime.later import Later
from ottla.broker.runtime.shards import Asked, Shard, State
from ottla.coordinator.effects import Caller
from ottla.coordinator.group.settings import GroupSettings
from ottla.coordinator.hashing import partition_for
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.metadata import MetadataCache
    from ottla.broker.runtime.partition import PartitionRuntime
    from ottla.broker.runtime.shards import ShardParts
    from ottla.broker.runtime.shards_machine import Machine
    from ottla.coordinator.metadata.broker_configs import BrokerConfig
    from ottla.coordinator.metadata.delta import Delta
    from ottla.protocol.messages.list_groups import ListedGroup, ListGroupsRequest
    from ottla.protocol.ports import Random

_MINUTE_MS = 60_000
# Of the largest batch that the offsets topic takes, what is not a group's own record.
_BATCH_OVERHEAD_BYTES = 1_024


def caller_of(context: RequestContext) -> Caller:
    """Who asks, as groups describe their members: Kafka shows addresses with a slash."""
    return Caller(context.client_id, f"/{context.client_host}", context.api_version)


def group_settings(config: BrokerConfig) -> GroupSettings:
    """Of the broker's configuration, what groups are decided by."""
    return GroupSettings(
        initial_rebalance_delay_ms=config.group_initial_rebalance_delay_ms,
        min_session_timeout_ms=config.group_min_session_timeout_ms,
        max_session_timeout_ms=config.group_max_session_timeout_ms,
        max_size=config.group_max_size,
        offsets_retention_ms=config.offsets_retention_minutes * _MINUTE_MS,
        offsets_retention_check_interval_ms=config.offsets_retention_check_interval_ms,
        offset_metadata_max_bytes=config.offset_metadata_max_bytes,
        max_record_bytes=config.message_max_bytes - _BATCH_OVERHEAD_BYTES,
        consumer_session_timeout_ms=config.group_consumer_session_timeout_ms,
        consumer_heartbeat_interval_ms=config.group_consumer_heartbeat_interval_ms,
        consumer_max_size=config.group_consumer_max_size,
        consumer_assignors=tuple(
            dict.fromkeys(_assignor_name(item) for item in config.group_consumer_assignors)
        ),
        consumer_migration_policy=config.group_consumer_migration_policy,
    )


def _assignor_name(item: str) -> str:
    """What members call the assignor of a Java class, or of that name."""
    return item.rpartition(".")[2].removesuffix("Assignor").lower()


def group_machines(
    config: BrokerConfig, metadata: MetadataCache, random: Random
) -> Callable[[], Machine]:
    """What makes an empty machine for a shard."""
    settings = group_settings(config)
    own_times = OwnTimes(metadata, config.sources)

    def new_id() -> str:
        drawn = bytearray(random.token(16))
        # Version 4 and its variant, as a UUID that was drawn at random says of itself.
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        text = drawn.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def make() -> Machine:
        # Loaded with the first partition that is led: they are a seventh of all code, and a broker
        # that has no groups yet starts without them.
        shard = import_module("ottla.coordinator.group.shard")
        scope = import_module("ottla.coordinator.group.scope")
        shared = scope.Scope(settings, new_id, own_times=own_times.of)
        machine: Machine = shard.GroupShard(shared, lambda: metadata.image)
        return machine

    return make


class GroupCoordinator:
    """Owned by the server; handlers ask it, ``Partitions`` tells it of roles.

    ``make_machine`` gives an empty ``GroupShard``."""

    def __init__(
        self,
        metadata: MetadataCache,
        make_machine: Callable[[], Machine],
        parts: ShardParts,
    ) -> None:
        self._metadata = metadata
        self._make_machine = make_machine
        self._parts = parts
        self._shards: dict[int, Shard] = {}
        self._has_started = False
        metadata.subscribe(self._on_metadata)

    # ---- roles ----

    def start(self, partitions: Iterable[PartitionRuntime]) -> None:
        """Begin to load what is led here. The broker serves by now: a million offsets take
        seconds, in which clients are told that they are being loaded."""
        self._has_started = True
        for partition in partitions:
            self.on_role(partition)

    def on_role(self, partition: PartitionRuntime) -> None:
        """A partition on this broker has been given a role, or has lost it."""
        topic, index = partition.partition
        if topic != OFFSETS_TOPIC or not self._has_started:
            return
        is_leader = partition.check_leader_epoch(-1) is ErrorCode.NONE
        shard = self._shards.get(index)
        if shard is not None:
            is_same = shard.partition is partition and shard.leader_epoch == partition.leader_epoch
            if is_leader and is_same:
                return
            del self._shards[index]
            shard.end(ErrorCode.NOT_COORDINATOR)
        if is_leader:
            self._parts.stalls.start()
            shard = self._shards[index] = Shard(partition, self._make_machine, self._parts)
            shard.load()

    def close(self) -> None:
        """Answer everybody who waits; the broker stops."""
        self._parts.stalls.stop()
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.end(ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def _on_metadata(self, delta: Delta) -> None:
        # Not of leaders and replicas that change: every shard compares all topics then.
        if delta.made_topics or delta.gone_topics:
            for shard in list(self._shards.values()):
                shard.on_topics_changed()

    # ---- asking ----

    def handle(
        self,
        group_id: str,
        request: Any,
        caller: Caller,
        refuse: Callable[[ErrorCode], Any],
    ) -> Later[Any]:
        """The answer of the group's machine to one request about that group alone.

        ``refuse`` makes the answer where there is no machine to ask, or none any more."""
        later: Later[Any] = Later()
        shard, error = self.find(group_id)
        if shard is None:
            later.complete(refuse(error))
        else:
            shard.handle(request, caller, Asked(later, refuse))
        return later

    def listing(self, request: ListGroupsRequest) -> Iterator[ListedGroup | ErrorCode | None]:
        """The groups of all machines here, one by one; None for one that is not asked for, an error
        for a shard that cannot tell: it is still loading, or is loaded again meanwhile."""
        for shard in self.shards:
            error, machine = shard.check(), shard.machine
            if error is ErrorCode.NOT_COORDINATOR:
                # On its way to another broker, which will tell of it.
                continue
            if error is not ErrorCode.NONE:
                yield error
                continue
            for listed in machine.listing(request):
                if shard.machine is not machine:
                    yield ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
                    break
                yield listed

    def find(self, group_id: str) -> tuple[Shard | None, ErrorCode]:
        """The shard that may be asked about the group, or why there is none."""
        topic = self._metadata.topic(OFFSETS_TOPIC)
        if topic is None or not topic.partitions:
            return None, ErrorCode.NOT_COORDINATOR
        shard = self._shards.get(partition_for(group_id, len(topic.partitions)))
        if shard is None:
            return None, ErrorCode.NOT_COORDINATOR
        error = shard.check()
        return (shard, error) if error is ErrorCode.NONE else (None, error)

    def timeline(self, group_id: str) -> list[dict[str, Any]]:
        """What happened in the group lately, oldest first, as rows for people and programs.

        Raises KafkaError: not the coordinator, still loading, or nothing is known."""
        shard, error = self.find(group_id)
        if shard is None:
            raise KafkaError(error)
        events = shard.machine.timeline(group_id)
        if not events:
            raise KafkaError(
                ErrorCode.GROUP_ID_NOT_FOUND, f"nothing is remembered of group {group_id}"
            )
        return [
            {
                "time_ms": event.wall_ms,
                "event": event.kind.name,
                "member_id": event.member_id,
                "epoch": event.epoch,
                "detail": event.detail,
                "text": event.sentence,
            }
            for event in events
        ]

    @property
    def shards(self) -> list[Shard]:
        """By partition, for diagnostics."""
        return [shard for _index, shard in sorted(self._shards.items())]

    @property
    def is_loading(self) -> bool:
        return any(shard.state is State.LOADING for shard in self._shards.values())
