"""``ottla broker``: drains one broker, and shows and changes its settings and log levels."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.administration.draining import NoRoom, drained
from ottla.client.cli.admin_verbs import AdminVerbs, run_admin_verb
from ottla.client.cli.cluster import configs
from ottla.client.cli.cluster.throttles import throttle, unthrottle
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.progress import ProgressLine
from ottla.client.cli.run import CommandError, UsageError, sentence
from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping

    from ottla.client.admin import Admin
    from ottla.protocol.ids import TopicPartition

    Plan = Mapping[TopicPartition, tuple[int, ...]]

SECONDS_BETWEEN = 0.5


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    if arguments.verb == "config":
        arguments.resource = "broker"
        arguments.verb = "alter" if arguments.config or arguments.delete_config else "describe"
        return configs.main(arguments)
    return run_admin_verb(VERBS, arguments)


async def drain(admin: Admin, arguments: argparse.Namespace) -> int:
    """Move all replicas of a broker to others, and wait until they are there."""
    node_id: int = arguments.broker
    await _check_known(admin, node_id)
    plan = await _plan(admin, node_id, arguments.brokers)
    if arguments.dry_run:
        partitions = [
            {"topic": where.topic, "partition": where.partition, "replicas": replicas}
            for where, replicas in sorted(plan.items())
        ]
        write(json_document({"version": 1, "partitions": partitions}))
        return 0
    moved = dict(plan)
    try:
        while plan:
            await _move(admin, plan, arguments.throttle)
            # Topics that were created meanwhile may have replicas there, too.
            plan = await _plan(admin, node_id, arguments.brokers)
            moved |= plan
    finally:
        if arguments.throttle is not None:
            await unthrottle(admin, {where.topic for where in moved})
    if arguments.format == "json":
        write(json_document({"broker": node_id, "moved": len(moved)}))
        return 0
    write(
        f"moved {len(moved)} replicas: broker {node_id} has none any more; stop it, then "
        f"'ottla cluster unregister {node_id}' makes the cluster forget it\n"
    )
    return 0


async def _check_known(admin: Admin, node_id: int) -> None:
    """Raise CommandError for a broker that neither lives nor has replicas. Only before the first
    move: a dead broker has none after it."""
    known = [one.node_id for one in (await admin.describe_cluster()).brokers]
    if node_id in known:
        return
    for topic in await admin.list_topics():
        if any(node_id in partition.replicas for partition in topic.partitions.values()):
            return
    raise CommandError(f"the cluster has no broker {node_id}; it has {_listed(known)}")


async def _plan(admin: Admin, node_id: int, wanted: list[int] | None) -> Plan:
    """The replicas to move. Raises CommandError if the others cannot take them."""
    racks = {one.node_id: one.rack for one in (await admin.describe_cluster()).brokers}
    missing = sorted(set(wanted or ()) - racks.keys())
    if missing:
        raise CommandError(f"broker {missing[0]} is not there; these are: {_listed(racks)}")
    targets = {
        broker: rack
        for broker, rack in racks.items()
        if broker != node_id and (wanted is None or broker in wanted)
    }
    try:
        return drained(await admin.list_topics(), node_id, targets)
    except NoRoom as error:
        raise CommandError(f"{error}; add a broker or reduce the replicas first") from None


async def _move(admin: Admin, plan: Plan, bytes_per_s: int | None) -> None:
    """Move, and wait for the end. Raises CommandError for a move that cannot begin."""
    if bytes_per_s is not None:
        await throttle(admin, plan, bytes_per_s)
    for where, refused in (await admin.placements.move(plan)).items():
        if refused is not None:
            raise CommandError(f"{where}: {sentence(refused)}")
    with ProgressLine("replicas", len(plan)) as progress:
        while left := len(await admin.placements.moves(plan)):
            progress.add(len(plan) - left - progress.done)
            await asyncio.sleep(SECONDS_BETWEEN)


def _all_loggers(name: str) -> str:
    return f"; 'ottla broker log-level {name}' lists all"


async def log_level(admin: Admin, arguments: argparse.Namespace) -> int:
    """Show the levels of loggers, or change some until the next restart."""
    name = str(arguments.broker)
    known = [one.node_id for one in (await admin.describe_cluster()).brokers]
    if arguments.broker not in known:
        raise CommandError(f"the cluster has no broker {name}; it has {_listed(known)}")
    changes = [
        ConfigChange(logger, ConfigOperation.SET, level.upper())
        for logger, equals, level in (text.partition("=") for text in arguments.loggers)
        if equals
    ]
    changes += [ConfigChange(logger, ConfigOperation.DELETE) for logger in arguments.reset]
    wanted = [text for text in arguments.loggers if "=" not in text]
    if changes and wanted:
        raise UsageError(f"{wanted[0]!r} names no level: write {wanted[0]}=DEBUG")
    try:
        if changes:
            await admin.alter_configs(ResourceType.BROKER_LOGGER, name, changes)
            wanted = [change.name for change in changes]
        entries = await admin.describe_configs(ResourceType.BROKER_LOGGER, name, wanted or None)
    except RequestRefused as error:
        if error.code in (ErrorCode.INVALID_CONFIG, ErrorCode.INVALID_REQUEST):
            is_name = error.message.startswith("there is no logger")
            raise CommandError(error.message + (_all_loggers(name) if is_name else "")) from error
        raise
    missing = sorted(set(wanted) - {entry.name for entry in entries})
    if missing:
        raise CommandError(f"broker {name} has no logger {missing[0]}{_all_loggers(name)}")
    if arguments.format == "json":
        write(json_document({entry.name: entry.value for entry in entries}))
    else:
        write(table(("LOGGER", "LEVEL"), [(entry.name, entry.value) for entry in entries]))
    return 0


def _listed(nodes: Mapping[int, object] | list[int]) -> str:
    return ", ".join(map(str, sorted(nodes)))


VERBS: AdminVerbs = {"drain": drain, "log-level": log_level}
