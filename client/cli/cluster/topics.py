"""``ottla topics``: create, list, describe, alter, trim and delete topics."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cli.admin_verbs import AdminVerbs, run_admin_verb
from ottla.client.cli.cluster.brokers import size, sorted_out
from ottla.client.cli.cluster.changes import changes_of
from ottla.client.cli.cluster.describe import describe
from ottla.client.cli.cluster.trim import trim
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, sentence
from ottla.client.cluster.config_requests import ResourceType
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable, Mapping, Sequence

    from ottla.client.admin import Admin
    from ottla.client.cluster.metadata import TopicView


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run_admin_verb(VERBS, arguments)


async def create_topics(admin: Admin, arguments: argparse.Namespace) -> int:
    """Create topics, and write the result of each."""
    configs = dict(arguments.config)
    wanted = [
        NewTopic(name, arguments.partitions, arguments.replicas, configs)
        for name in dict.fromkeys(arguments.topics)
    ]
    results = await admin.create_topics(wanted, validate_only=arguments.dry_run)
    outcomes: dict[str, str | None] = {}
    passed: dict[str, str] = {}
    for name, result in results.items():
        outcomes[name] = None
        if isinstance(result, RequestRefused):
            if arguments.if_not_exists and result.code is ErrorCode.TOPIC_ALREADY_EXISTS:
                passed[name] = "exists already:"
            else:
                outcomes[name] = sentence(result)
    done = "could create" if arguments.dry_run else "created"
    return report(arguments, outcomes, done, passed)


async def delete_topics(admin: Admin, arguments: argparse.Namespace) -> int:
    """Delete topics, and write the result of each."""
    results = await admin.delete_topics(dict.fromkeys(arguments.topics))
    outcomes: dict[str, str | None] = {}
    passed: dict[str, str] = {}
    for name in dict.fromkeys(arguments.topics):
        refused = results[name]
        outcomes[name] = None
        if refused is not None:
            if arguments.if_exists and refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                passed[name] = "does not exist:"
            else:
                outcomes[name] = sentence(refused)
    return report(arguments, outcomes, "deleted", passed)


def report(
    arguments: argparse.Namespace,
    outcomes: dict[str, str | None],
    done: str,
    passed: Mapping[str, str] | None = None,
) -> int:
    """Write what was done, or why it was not needed for those in ``passed``; all failures go to
    standard error in one sentence."""
    passed = passed or {}
    failures = [error for error in outcomes.values() if error is not None]
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        "topic": name,
                        "status": passed.get(name, done).rstrip(":") if error is None else "failed",
                        "error": error,
                    }
                    for name, error in outcomes.items()
                ]
            )
        )
    else:
        fine = [name for name, error in outcomes.items() if error is None]
        write("".join(f"{passed.get(name, done)} {name}\n" for name in fine))
    if failures:
        raise CommandError("; ".join(failures))
    return 0


async def list_topics(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per topic."""
    views = [
        view for view in await admin.list_topics() if arguments.internal or not view.is_internal
    ]
    if arguments.sizes:
        return await list_with_sizes(admin, arguments, views)
    if arguments.format == "json":
        write(json_document([listed(view) for view in views]))
        return 0
    rows = [(view.name, view.partition_count, replica_count(view)) for view in views]
    write(table(("TOPIC", "PARTITIONS", "REPLICAS"), rows))
    return 0


def listed(view: TopicView) -> dict[str, object]:
    """A topic of the list as an object."""
    return {
        "topic": view.name,
        "partitions": view.partition_count,
        "replicas": replica_count(view),
        "internal": view.is_internal,
    }


async def list_with_sizes(
    admin: Admin, arguments: argparse.Namespace, views: Sequence[TopicView]
) -> int:
    """Write one line per topic with the bytes of one copy and of all replicas.

    Raises CommandError, after the list, for brokers that did not answer."""
    found, failures = sorted_out(await admin.brokers.log_dirs())
    copies: dict[str, Counter[int]] = {}
    totals: Counter[str] = Counter()
    for replica in (one for dirs in found.values() for each in dirs for one in each.replicas):
        topic, index = replica.partition
        totals[topic] += replica.size_bytes
        sizes = copies.setdefault(topic, Counter())
        sizes[index] = max(sizes[index], replica.size_bytes)
    size_of = {view.name: copies.get(view.name, Counter()).total() for view in views}
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        **listed(view),
                        "size_bytes": size_of[view.name],
                        "replicas_bytes": totals[view.name],
                    }
                    for view in views
                ]
            )
        )
    else:
        rows = [
            (
                view.name,
                view.partition_count,
                replica_count(view),
                size(size_of[view.name]),
                size(totals[view.name]),
            )
            for view in sorted(views, key=lambda view: -totals[view.name])
        ]
        write(table(("TOPIC", "PARTITIONS", "REPLICAS", "SIZE", "ON-DISKS"), rows))
    if failures:
        raise CommandError("; ".join(failures))
    return 0


def replica_count(view: TopicView) -> int:
    """The replication factor of the first partition."""
    return next((len(partition.replicas) for partition in view.partitions.values()), 0)


async def alter_topic(admin: Admin, arguments: argparse.Namespace) -> int:
    """Change the number of partitions, settings, or both."""
    changes = changes_of(arguments)
    if arguments.partitions is None and not changes:
        raise CommandError("nothing to alter; give -p N, -c KEY=VALUE or -d KEY")
    await admin.describe_topic(arguments.topic)
    if changes:
        await admin.alter_configs(ResourceType.TOPIC, arguments.topic, changes)
    if arguments.partitions is not None:
        await admin.create_partitions(arguments.topic, arguments.partitions)
    return report(arguments, {arguments.topic: None}, "altered")


async def alter_configs(admin: Admin, arguments: argparse.Namespace) -> int:
    """Change settings of each topic, and write the result of each."""
    changes = changes_of(arguments)
    if not changes:
        raise CommandError("nothing to alter; give -c KEY=VALUE or -d KEY")

    async def alter(topic: str) -> None:
        await admin.alter_configs(ResourceType.TOPIC, topic, changes)

    return report(arguments, await each_of(admin, arguments.topics, alter), "altered")


async def add_partitions(admin: Admin, arguments: argparse.Namespace) -> int:
    """Add partitions to each topic, and write the result of each."""

    async def add(topic: str) -> None:
        count = (await admin.describe_topic(topic)).partition_count
        await admin.create_partitions(topic, count + arguments.number)

    return report(arguments, await each_of(admin, arguments.topics, add), "altered")


async def each_of(
    admin: Admin, topics: Sequence[str], change: Callable[[str], Awaitable[None]]
) -> dict[str, str | None]:
    """Make a change to each topic that exists: None, or the error as a sentence."""
    outcomes: dict[str, str | None] = {}
    for topic in dict.fromkeys(topics):
        outcomes[topic] = None
        try:
            await admin.describe_topic(topic)
            await change(topic)
        except RequestRefused as error:
            outcomes[topic] = sentence(error)
    return outcomes


VERBS: AdminVerbs = {
    "create": create_topics,
    "list": list_topics,
    "describe": describe,
    "delete": delete_topics,
    "trim": trim,
    "add-partitions": add_partitions,
    "alter-config": alter_configs,
    "alter": alter_topic,
}
