"""The group coordinator of this broker: serves groups whose offsets partition it leads.

shards_table.py keeps and finds its shards, as for every coordinator; coordinator/group contains the
decisions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC
from ottla.broker.coordinating.shards_table import Coordinator
from ottla.broker.metadata.group_settings import OwnTimes
from ottla.coordinator.effects import RequestOrigin, every_topic
from ottla.coordinator.group.common.settings import GroupSettings
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.coordinating.shards import ShardParts
    from ottla.broker.coordinating.shards_machine import GroupMachine
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.shard import GroupShard
    from ottla.protocol.ports import Random

_MINUTE_MS = 60_000
# The part of the offsets topic's largest batch that is not the group's own record.
_BATCH_OVERHEAD_BYTES = 1_024


def caller_of(
    context: RequestContext, may_describe: Callable[[str], bool] = every_topic
) -> RequestOrigin:
    """The client as groups describe it; Kafka shows addresses with a slash."""
    return RequestOrigin(
        context.client_id,
        f"/{context.client_host}",
        context.api_version,
        context.peer.connection_id,
        may_describe,
    )


def group_settings(config: BrokerConfig) -> GroupSettings:
    """The broker's settings for groups."""
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
    """Return the members' name of an assignor, given a Java class or that name."""
    return item.rpartition(".")[2].removesuffix("Assignor").lower()


def group_machines(
    config: BrokerConfig, metadata: MetadataCache, random: Random
) -> Callable[[], GroupMachine]:
    """A factory of empty machines for shards."""
    settings = group_settings(config)
    own_times = OwnTimes(metadata, config.sources)

    def new_id() -> str:
        drawn = bytearray(random.token(16))
        # Version 4 and its variant, as in a randomly drawn UUID.
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        text = drawn.hex()
        return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

    def make() -> GroupMachine:
        make_scope, make_shard = _load_shard()
        scope = make_scope(settings, new_id, own_times=own_times.of)
        return make_shard(scope, lambda: metadata.image)

    return make


def _load_shard() -> tuple[type[GroupScope], type[GroupShard]]:
    """Import on first use, with the first led partition: groups are a seventh of all code, and a
    broker without groups starts faster without it."""
    from ottla.coordinator.group.common.scope import GroupScope
    from ottla.coordinator.group.shard import GroupShard

    return GroupScope, GroupShard


class GroupCoordinator(Coordinator["GroupMachine"]):
    """Owned by the server; handlers call it, and ``Partitions`` reports roles to it.

    ``make_machine`` returns an empty ``GroupShard``."""

    def __init__(
        self,
        metadata: MetadataCache,
        make_machine: Callable[[], GroupMachine],
        parts: ShardParts,
    ) -> None:
        super().__init__(OFFSETS_TOPIC, metadata, make_machine, parts)

    def timeline(self, group_id: str) -> list[dict[str, Any]]:
        """Return the group's recent events, oldest first, as rows for people and programs.

        Raises KafkaError: not the coordinator, still loading, or no events are known."""
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
