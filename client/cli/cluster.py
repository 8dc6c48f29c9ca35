"""``ottla cluster``: who is there, who leads what, and what is not as it should be."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.admin import Admin
from ottla.client.cli.arguments import Parser, add_verbs
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import run
from ottla.client.cli.settings import command_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator, Sequence

    from ottla.client.admin import ClusterDescription
    from ottla.client.state.metadata import PartitionView, TopicView


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    return run(partial(perform, parser().parse_args(argv)))


def parser() -> Parser:
    """The command line, as ``ottla cluster --help`` shows it."""
    made = Parser(prog="ottla cluster", description="Look at a cluster.", allow_abbrev=False)
    add_verbs(made)("describe", "show the brokers, and partitions that lack a leader or replicas")
    return made


async def perform(arguments: argparse.Namespace) -> int:
    """Describe the cluster."""
    async with Admin(arguments.bootstrap, command_config()) as admin:
        cluster = await admin.describe_cluster()
        topics = await admin.list_topics()
    troubled = [
        (topic, part)
        for topic in topics
        for part in topic.partitions.values()
        if _is_troubled(part)
    ]
    brokers = list(_brokers(cluster, topics))
    if arguments.format == "json":
        document = {
            "cluster_id": cluster.cluster_id,
            "controller": cluster.controller_id,
            "brokers": [one._asdict() for one in brokers],
            "under_replicated": [_described(*item) for item in troubled],
        }
        write(json_document(document))
        return 0
    rows = [one._replace(controller="yes" if one.controller else None) for one in brokers]
    headings = [name.upper() for name in BrokerRow._fields]
    write(f"cluster {cluster.cluster_id}\n\n{table(headings, rows)}{_trouble(troubled)}")
    return 0


class BrokerRow(NamedTuple):
    """One broker: where it is, and how many partitions it leads and holds."""

    broker: int
    address: str
    rack: str | None
    controller: bool | str | None
    leads: int
    replicas: int


def _brokers(cluster: ClusterDescription, topics: Sequence[TopicView]) -> Iterator[BrokerRow]:
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
        )


def _is_troubled(part: PartitionView) -> bool:
    return part.leader_id < 0 or len(part.isr) < len(part.replicas)


def _described(topic: TopicView, part: PartitionView) -> dict[str, object]:
    return {
        "topic": topic.name,
        "partition": part.partition,
        "leader": part.leader_id if part.leader_id >= 0 else None,
        "replicas": list(part.replicas),
        "isr": list(part.isr),
    }


def _trouble(troubled: list[tuple[TopicView, PartitionView]]) -> str:
    if not troubled:
        return "\nevery partition has its leader and all its replicas in sync\n"
    rows = [
        (
            topic.name,
            part.partition,
            part.leader_id if part.leader_id >= 0 else "none",
            ",".join(map(str, part.replicas)),
            ",".join(map(str, part.isr)) or None,
        )
        for topic, part in troubled
    ]
    return "\n" + table(("UNDER-REPLICATED", "PARTITION", "LEADER", "REPLICAS", "ISR"), rows)
