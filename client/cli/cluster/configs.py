"""``ottla configs``: settings of topics, brokers and groups, and which metrics clients push."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.cluster.changes import changes_of
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, UsageError, run
from ottla.client.cli.settings import command_config
from ottla.client.cluster.config_requests import ResourceType
from ottla.protocol.configs import ConfigOperation, ConfigSource
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse

    from ottla.client.cluster.config_requests import ConfigChange

RESOURCES = {
    "topic": ResourceType.TOPIC,
    "broker": ResourceType.BROKER,
    "group": ResourceType.GROUP,
    "client-metrics": ResourceType.CLIENT_METRICS,
}
ALL_BROKERS = "default"
NOBODYS = (ConfigSource.DEFAULT, ConfigSource.UNKNOWN)


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    if arguments.verb == "list":
        return await list_subscriptions(arguments)
    name = arguments.name
    if arguments.resource == "broker":
        if name != ALL_BROKERS and not (name.isascii() and name.isdigit()):
            raise UsageError(f"a broker is named by its id, or {ALL_BROKERS!r} for all, not {name}")
        name = "" if name == ALL_BROKERS else name
    resource = RESOURCES[arguments.resource]
    async with Admin(arguments.bootstrap, command_config()) as admin:
        if resource is ResourceType.TOPIC:
            await admin.describe_topic(name)
        elif resource is ResourceType.BROKER and name:
            await _check_broker(admin, int(name))
        try:
            if arguments.verb == "describe":
                return await describe(admin, resource, name, arguments)
            return await alter(admin, resource, name, arguments)
        except RequestRefused as error:
            if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
                raise CommandError(f"group {name!r} does not exist") from error
            # The error names the resource, which need not be a topic.
            raise CommandError(f"{arguments.resource} {arguments.name}: {error.message}") from error


async def list_subscriptions(arguments: argparse.Namespace) -> int:
    """Write the subscriptions to metrics of clients."""
    async with Admin(arguments.bootstrap, command_config()) as admin:
        names = await admin.list_metrics_subscriptions()
    if arguments.format == "json":
        write(json_document([{"name": name} for name in names]))
    else:
        write("".join(f"{name}\n" for name in names) or "there is no subscription\n")
    return 0


async def _check_broker(admin: Admin, node_id: int) -> None:
    known = [broker.node_id for broker in (await admin.describe_cluster()).brokers]
    if node_id not in known:
        listed = ", ".join(map(str, known))
        raise CommandError(f"the cluster has no broker {node_id}; it has {listed}")


async def describe(
    admin: Admin, resource: ResourceType, name: str, arguments: argparse.Namespace
) -> int:
    """Write the settings that were changed, all settings, or the named ones."""
    entries = await admin.describe_configs(resource, name, arguments.keys or None)
    missing = set(arguments.keys) - {entry.name for entry in entries}
    if missing:
        raise CommandError(f"there is no setting {', '.join(sorted(missing))}")
    if not arguments.all and not arguments.keys:
        entries = [entry for entry in entries if entry.source not in NOBODYS]
    if arguments.format == "json":
        document = [
            {
                "name": entry.name,
                "value": entry.value,
                "source": entry.source.name,
                "read_only": entry.is_read_only,
                "sensitive": entry.is_sensitive,
            }
            for entry in entries
        ]
        write(json_document(document))
        return 0
    rows = [
        (
            entry.name,
            "(hidden)" if entry.is_sensitive else entry.value,
            entry.source.name.lower().replace("_", " "),
            "no" if entry.is_read_only else "yes",
        )
        for entry in entries
    ]
    if rows:
        write(table(("SETTING", "VALUE", "FROM", "CHANGEABLE"), rows))
    else:
        write("no setting differs from its default; --all shows the defaults\n")
    return 0


async def _unknown(admin: Admin, name: str, changes: list[ConfigChange]) -> list[str]:
    """The settings to be changed that brokers do not list."""
    node = name or str((await admin.describe_cluster()).brokers[0].node_id)
    known = {entry.name for entry in await admin.describe_configs(ResourceType.BROKER, node)}
    return [
        change.name
        for change in changes
        if change.operation is not ConfigOperation.DELETE and change.name not in known
    ]


async def alter(
    admin: Admin, resource: ResourceType, name: str, arguments: argparse.Namespace
) -> int:
    """Change settings, or with ``--dry-run`` check whether they could be changed."""
    changes = changes_of(arguments)
    if not changes:
        raise UsageError("nothing to alter; give -c KEY=VALUE, -d KEY, --append or --subtract")
    unknown: list[str] = []
    if resource is ResourceType.BROKER:
        unknown = await _unknown(admin, name, changes)
    await admin.alter_configs(resource, name, changes, validate_only=arguments.dry_run)
    for one in unknown:
        # It may belong to a plug-in, so brokers keep it; more often it is misspelt.
        sys.stderr.write(f"ottla: no broker setting is known here as {one}; it is kept as it is\n")
    done = "could alter" if arguments.dry_run else "altered"
    if arguments.format == "json":
        write(json_document({arguments.resource: arguments.name, "status": done}))
    else:
        write(f"{done} {arguments.resource} {arguments.name}\n")
    return 0
