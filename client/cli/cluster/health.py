"""``ottla cluster info`` and ``health``: a summary of the cluster, and whether it is healthy."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.output import json_document, table, write
from ottla.client.cluster.config_requests import ResourceType
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable

    from ottla.client.admin import Admin, ClusterDescription
    from ottla.client.cluster.metadata import TopicView

UNHEALTHY = 1
MIN_ISR = "min.insync.replicas"


class Health(NamedTuple):
    """What is unhealthy; partitions are named ``topic:number``."""

    has_controller: bool
    unreachable: list[int]
    leaderless: list[str]
    under_min_isr: list[str]
    under_replicated: list[str]
    offline_replicas: list[str]

    @property
    def is_healthy(self) -> bool:
        return self.has_controller and not any(self[1:])


async def show_info(
    admin: Admin, cluster: ClusterDescription, arguments: argparse.Namespace
) -> int:
    """Write a summary of the cluster that fits on one screen."""
    topics = [view for view in await admin.list_topics() if not view.is_internal]
    partitions = sum(view.partition_count for view in topics)
    controller = cluster.controller_id if cluster.controller_id >= 0 else None
    if arguments.format == "json":
        document = {
            "cluster_id": cluster.cluster_id,
            "controller": controller,
            "topics": len(topics),
            "partitions": partitions,
            "brokers": [
                {"broker": one.node_id, "address": str(one.address), "rack": one.rack}
                for one in cluster.brokers
            ],
        }
        write(json_document(document))
        return 0
    facts = (
        ("cluster", cluster.cluster_id),
        ("controller", controller),
        ("topics", len(topics)),
        ("partitions", partitions),
    )
    rows = [(one.node_id, str(one.address), one.rack) for one in cluster.brokers]
    head = "".join(f"{name:<12}{'none' if value is None else value}\n" for name, value in facts)
    write(f"{head}\n{table(('BROKER', 'ADDRESS', 'RACK'), rows)}")
    return 0


async def show_health(
    admin: Admin, cluster: ClusterDescription, arguments: argparse.Namespace
) -> int:
    """Write every kind of problem with its count and first examples; status 1 if there is any."""
    topics = await admin.list_topics()
    missing = await admin.unreachable(cluster.brokers)
    limits = await min_isr(admin, topics)
    health = judge(topics, limits, sorted(missing), has_controller=cluster.controller_id >= 0)
    if arguments.format == "json":
        write(json_document({"healthy": health.is_healthy, **health._asdict()}))
    else:
        write(health_text(health))
    return 0 if health.is_healthy else UNHEALTHY


async def min_isr(admin: Admin, topics: Iterable[TopicView]) -> dict[str, int]:
    """Each topic's min.insync.replicas; only topics that lack an in-sync replica are queried, since
    a cluster has many topics."""
    limits = {}
    for view in topics:
        if all(len(part.isr) == len(part.replicas) for part in view.partitions.values()):
            continue
        try:
            (entry,) = await admin.describe_configs(ResourceType.TOPIC, view.name, [MIN_ISR])
        except (ClientError, ValueError):
            continue
        limits[view.name] = int(entry.value or 1)
    return limits


def judge(
    topics: Iterable[TopicView],
    limits: dict[str, int],
    unreachable: list[int],
    *,
    has_controller: bool,
) -> Health:
    """Collect what is wrong with the partitions of these topics."""
    health = Health(has_controller, unreachable, [], [], [], [])
    for view in topics:
        for part in view.partitions.values():
            name = f"{view.name}:{part.partition}"
            if part.leader_id < 0:
                health.leaderless.append(name)
            if len(part.isr) < min(limits.get(view.name, 1), len(part.replicas)):
                health.under_min_isr.append(name)
            if len(part.isr) < len(part.replicas):
                health.under_replicated.append(name)
            if part.offline:
                health.offline_replicas.append(name)
    return health


def health_text(health: Health) -> str:
    """One line if all is well, or one for each kind of problem."""
    if health.is_healthy:
        return "healthy: all brokers answer, every partition has its leader and all its replicas\n"
    lines = [] if health.has_controller else ["no controller: nothing can be created or elected"]
    if health.unreachable:
        lines.append(f"brokers that do not answer: {', '.join(map(str, health.unreachable))}")
    for names, problem in (
        (health.leaderless, "without a leader, neither written nor read"),
        (health.under_min_isr, f"below {MIN_ISR}, not written with acks=all"),
        (health.under_replicated, "with fewer replicas in sync than they have"),
        (health.offline_replicas, "with replicas on brokers or disks that are gone"),
    ):
        if names:
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            lines.append(f"partitions {problem}: {', '.join(names[:3])}{more}")
    return "unhealthy\n" + "".join(f"  {line}\n" for line in lines)
