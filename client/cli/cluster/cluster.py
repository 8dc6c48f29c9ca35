"""``ottla cluster``: brokers, partition leaders, and what is unhealthy."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.cluster.brokers import show_api_versions, show_log_dirs, unregister
from ottla.client.cli.cluster.health import show_health, show_info
from ottla.client.cli.output import Cell, json_document, table, write
from ottla.client.cli.run import run
from ottla.client.cli.settings import command_config
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError, UnsupportedByBroker

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from ottla.client.admin import ClusterDescription
    from ottla.client.cluster.metadata import PartitionView, TopicView

NO_CONTROLLER = -1
WITHOUT_CONTROLLER = (
    "the cluster has no controller now: this is its last known state. If it stays so, "
    "read the brokers' logs."
)


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    async with Admin(arguments.bootstrap, command_config()) as admin:
        match arguments.verb:
            case "api-versions":
                return await show_api_versions(admin, arguments)
            case "log-dirs":
                return await show_log_dirs(admin, arguments)
            case "unregister":
                return await unregister(admin, arguments)
        cluster = await admin.describe_cluster()
        if await _has_gone(admin, cluster.controller_id):
            cluster = cluster._replace(controller_id=NO_CONTROLLER)
        match arguments.verb:
            case "info":
                return await show_info(admin, cluster, arguments)
            case "health":
                return await show_health(admin, cluster, arguments)
        assert arguments.verb == "describe"
        return await describe(admin, cluster, arguments)


async def describe(admin: Admin, cluster: ClusterDescription, arguments: argparse.Namespace) -> int:
    """Write the brokers, and the unhealthy partitions."""
    topics = await admin.list_topics()
    missing = await admin.unreachable(cluster.brokers)
    topics.sort(key=lambda topic: (topic.is_internal, topic.name))
    unhealthy = [
        (topic, part)
        for topic in topics
        for part in topic.partitions.values()
        if _is_unhealthy(part)
    ]
    brokers = list(_brokers(cluster, topics, missing))
    if arguments.format == "json":
        document = {
            "cluster_id": cluster.cluster_id,
            "controller": None if cluster.controller_id < 0 else cluster.controller_id,
            "brokers": [one._asdict() for one in brokers],
            "under_replicated": [_described(*item) for item in unhealthy],
        }
        write(json_document(document))
        return 0
    headings = [name.upper() for name in BrokerRow._fields if name != "reachable"]
    rows = [_cells(one) for one in brokers]
    problem = problem_text(unhealthy, lists_internal=arguments.internal)
    if cluster.controller_id < 0:
        problem += f"\n{WITHOUT_CONTROLLER}\n"
    write(f"cluster {cluster.cluster_id}\n\n{table(headings, rows)}\n{problem}")
    return 0


async def _has_gone(admin: Admin, controller_id: int) -> bool:
    """Whether there is no active controller, although one is listed: brokers name the last
    controller that they know, and learn nothing while their store is unreachable."""
    try:
        return await admin.placements.has_resigned(controller_id)
    except UnsupportedByBroker:
        return False
    except (ClientError, KeyError):
        return True


class BrokerRow(NamedTuple):
    """One broker: its address, and how many partitions it leads and holds."""

    broker: int
    address: str
    rack: str | None
    controller: bool
    leads: int
    replicas: int
    reachable: bool


def _cells(one: BrokerRow) -> list[Cell]:
    address = one.address if one.reachable else f"{one.address} (not reachable)"
    is_controller = "yes" if one.controller else None
    return [one.broker, address, one.rack, is_controller, one.leads, one.replicas]


def _brokers(
    cluster: ClusterDescription, topics: Sequence[TopicView], missing: set[int]
) -> Iterator[BrokerRow]:
    leads: Counter[int] = Counter()
    holds: Counter[int] = Counter()
    for topic in topics:
        for part in topic.partitions.values():
            leads[part.leader_id] += 1
            holds.update(part.replicas)
    for node in cluster.brokers:
        is_controller = node.node_id == cluster.controller_id
        yield BrokerRow(
            node.node_id,
            str(node.address),
            node.rack,
            is_controller,
            leads[node.node_id],
            holds[node.node_id],
            node.node_id not in missing,
        )


def _is_unhealthy(part: PartitionView) -> bool:
    return part.leader_id < 0 or len(part.isr) < len(part.replicas)


def _described(topic: TopicView, part: PartitionView) -> dict[str, object]:
    return {
        "topic": topic.name,
        "partition": part.partition,
        "leader": part.leader_id if part.leader_id >= 0 else None,
        "replicas": list(part.replicas),
        "isr": list(part.isr),
    }


def problem_text(unhealthy: list[tuple[TopicView, PartitionView]], *, lists_internal: bool) -> str:
    """The unhealthy partitions as text: each one of users' topics, the number of internal ones."""
    if not unhealthy:
        return "every partition has its leader and all its replicas in sync\n"
    rows = [
        (
            topic.name,
            part.partition,
            part.leader_id if part.leader_id >= 0 else "none",
            ",".join(map(str, part.replicas)),
            ",".join(map(str, part.isr)) or None,
        )
        for topic, part in unhealthy
        if lists_internal or not topic.is_internal
    ]
    listed = table(("UNDER-REPLICATED", "PARTITION", "LEADER", "REPLICAS", "ISR"), rows)
    summary = "" if lists_internal else _of_internal(unhealthy)
    return "\n".join(([listed] if rows else []) + ([summary] if summary else []))


def _of_internal(unhealthy: list[tuple[TopicView, PartitionView]]) -> str:
    """A line for each internal topic, whose fifty partitions may have the same problem."""
    lines = []
    for topic in {item[0].name: item[0] for item in unhealthy if item[0].is_internal}.values():
        parts = [part for found, part in unhealthy if found is topic]
        orphans = sum(part.leader_id < 0 for part in parts)
        leaders = f", {orphans} of them a leader" if orphans else ""
        lines.append(
            f"{topic.name}: {len(parts)} of {len(topic.partitions)} partitions lack replicas in "
            f"sync{leaders} (--internal lists them)\n"
        )
    return "".join(lines)
