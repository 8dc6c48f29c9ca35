"""Limits the traffic of moves of replicas (KIP-73), and takes the limit away after them.

As Kafka's own tool does: the rate is a setting of each broker that takes part, and the replicas
that it applies to are settings of the topics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.protocol.configs import ConfigOperation, ConfigSource

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.admin import Admin
    from ottla.protocol.ids import TopicPartition

    Replicas = Mapping[TopicPartition, tuple[int, ...]]

RATES = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
LEADERS = "leader.replication.throttled.replicas"
FOLLOWERS = "follower.replication.throttled.replicas"


async def throttle(admin: Admin, plan: Replicas, bytes_per_s: int) -> None:
    """Limit the moves of a plan, before they begin. Raises RequestRefused.

    Args:
        admin: The admin client.
        plan: The new replicas of each partition.
        bytes_per_s: What each broker sends, and receives, for moves.
    """
    present = {
        topic: await admin.describe_topic(topic) for topic in {where.topic for where in plan}
    }
    leaders: dict[str, list[str]] = {}
    followers: dict[str, list[str]] = {}
    brokers: set[int] = set()
    for (topic, index), replicas in sorted(plan.items()):
        found = present[topic].partitions.get(index)
        old = () if found is None else found.replicas
        new = [replica for replica in replicas if replica not in old]
        if not new:
            continue
        leaders.setdefault(topic, []).extend(f"{index}:{replica}" for replica in old)
        followers.setdefault(topic, []).extend(f"{index}:{replica}" for replica in new)
        brokers.update(old, new)
    for broker in sorted(brokers):
        changes = [ConfigChange(name, ConfigOperation.SET, str(bytes_per_s)) for name in RATES]
        await admin.alter_configs(ResourceType.BROKER, str(broker), changes)
    for topic in leaders:
        changes = [
            ConfigChange(LEADERS, ConfigOperation.SET, ",".join(leaders[topic])),
            ConfigChange(FOLLOWERS, ConfigOperation.SET, ",".join(followers[topic])),
        ]
        await admin.alter_configs(ResourceType.TOPIC, topic, changes)


async def unthrottle(admin: Admin, topics: Iterable[str]) -> bool:
    """Take the limits away from topics, and from all brokers; whether there were any.

    Raises RequestRefused."""
    is_found = False
    for topic in dict.fromkeys(topics):
        is_found |= await _delete(admin, ResourceType.TOPIC, topic, (LEADERS, FOLLOWERS))
    if is_found:
        for broker in (await admin.describe_cluster()).brokers:
            await _delete(admin, ResourceType.BROKER, str(broker.node_id), RATES)
    return is_found


async def _delete(
    admin: Admin, resource: ResourceType, name: str, settings: tuple[str, ...]
) -> bool:
    own = {ConfigSource.TOPIC, ConfigSource.DYNAMIC_BROKER}
    entries = await admin.describe_configs(resource, name, settings)
    changes = [
        ConfigChange(entry.name, ConfigOperation.DELETE) for entry in entries if entry.source in own
    ]
    if changes:
        await admin.alter_configs(resource, name, changes)
    return bool(changes)
