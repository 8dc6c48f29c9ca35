"""``ottla topics``: create, list, describe, alter and delete topics."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.admin_requests import NewTopic
from ottla.client.cli.arguments import (
    Parser,
    add_verbs,
    checked,
    positive,
    setting,
)
from ottla.client.cli.describe import describe
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, run, sentence
from ottla.client.cli.settings import command_config
from ottla.client.config_requests import ConfigChange, ConfigOperation, ResourceType
from ottla.client.errors import RequestRefused
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.state.metadata import TopicView


def main(argv: Sequence[str]) -> int:
    """Run the command."""
    arguments = parser().parse_args(argv)
    return run(partial(perform, arguments))


def parser() -> Parser:
    """The command line, as ``ottla topics --help`` shows it."""
    made = Parser(
        prog="ottla topics", description="Create, list and change topics.", allow_abbrev=False
    )
    verb = add_verbs(made)
    create = verb("create", "create topics")
    create.add_argument("topics", metavar="TOPIC", nargs="+")
    create.add_argument(
        "-p", "--partitions", type=checked(positive), default=-1, help="how many partitions"
    )
    create.add_argument(
        "-r", "--replicas", type=checked(positive), default=-1, help="how many copies of each"
    )
    add_setting_option(create)
    create.add_argument(
        "--if-not-exists", action="store_true", help="do not complain about one that exists"
    )
    listing = verb("list", "list the topics")
    listing.add_argument("-i", "--internal", action="store_true", help="internal ones, too")
    described = verb("describe", "show partitions, offsets and settings of topics")
    described.add_argument("topics", metavar="TOPIC", nargs="+")
    delete = verb("delete", "delete topics and all their records")
    delete.add_argument("topics", metavar="TOPIC", nargs="+")
    alter = verb("alter", "add partitions or change settings of a topic")
    alter.add_argument("topic", metavar="TOPIC")
    alter.add_argument(
        "-p", "--partitions", type=checked(positive), help="how many partitions it is to have"
    )
    add_setting_option(alter)
    alter.add_argument(
        "-d",
        "--delete-config",
        metavar="KEY",
        action="append",
        default=[],
        help="go back to the default of this setting",
    )
    return made


def add_setting_option(parser: argparse.ArgumentParser) -> None:
    """``-c key=value``, any number of them."""
    parser.add_argument(
        "-c",
        "--config",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        type=checked(setting),
        help="a setting of the topic, such as retention.ms=60000",
    )


async def perform(arguments: argparse.Namespace) -> int:
    """Do what was asked for."""
    async with Admin(arguments.bootstrap, command_config()) as admin:
        match arguments.verb:
            case "create":
                return await create_topics(admin, arguments)
            case "list":
                return await list_topics(admin, arguments)
            case "describe":
                return await describe(admin, arguments)
            case "delete":
                return await delete_topics(admin, arguments)
        assert arguments.verb == "alter"
        return await alter_topic(admin, arguments)


async def create_topics(admin: Admin, arguments: argparse.Namespace) -> int:
    """Create them and say of each how it went."""
    configs = dict(arguments.config)
    wanted = [
        NewTopic(name, arguments.partitions, arguments.replicas, configs)
        for name in dict.fromkeys(arguments.topics)
    ]
    results = await admin.create_topics(wanted)
    outcomes: dict[str, str | None] = {}
    for name in results:
        result = results[name]
        exists = isinstance(result, RequestRefused) and (
            result.code is ErrorCode.TOPIC_ALREADY_EXISTS
        )
        if not isinstance(result, RequestRefused) or (exists and arguments.if_not_exists):
            outcomes[name] = None
        else:
            outcomes[name] = sentence(result)
    return report(arguments, outcomes, "created")


async def delete_topics(admin: Admin, arguments: argparse.Namespace) -> int:
    """Delete them and say of each how it went."""
    results = await admin.delete_topics(dict.fromkeys(arguments.topics))
    outcomes = {
        name: None if refused is None else sentence(refused) for name, refused in results.items()
    }
    return report(arguments, outcomes, "deleted")


def report(arguments: argparse.Namespace, outcomes: dict[str, str | None], done: str) -> int:
    """Write what was done; what was not goes to standard error, in one sentence for all."""
    failures = [error for error in outcomes.values() if error is not None]
    if arguments.format == "json":
        write(
            json_document(
                [
                    {"topic": name, "status": done if error is None else "failed", "error": error}
                    for name, error in outcomes.items()
                ]
            )
        )
    else:
        write("".join(f"{done} {name}\n" for name, error in outcomes.items() if error is None))
    if failures:
        raise CommandError("; ".join(failures))
    return 0


async def list_topics(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per topic."""
    views = [
        view for view in await admin.list_topics() if arguments.internal or not view.is_internal
    ]
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        "topic": view.name,
                        "partitions": view.partition_count,
                        "replicas": replica_count(view),
                        "internal": view.is_internal,
                    }
                    for view in views
                ]
            )
        )
        return 0
    rows = [(view.name, view.partition_count, replica_count(view)) for view in views]
    write(table(("TOPIC", "PARTITIONS", "REPLICAS"), rows))
    return 0


def replica_count(view: TopicView) -> int:
    """The replication factor, as the first partition has it."""
    return next((len(partition.replicas) for partition in view.partitions.values()), 0)


async def alter_topic(admin: Admin, arguments: argparse.Namespace) -> int:
    """Change the number of partitions, settings, or both."""
    changes = [ConfigChange(key, ConfigOperation.SET, value) for key, value in arguments.config] + [
        ConfigChange(key, ConfigOperation.DELETE) for key in arguments.delete_config
    ]
    if arguments.partitions is None and not changes:
        raise CommandError("nothing to alter; give -p N, -c KEY=VALUE or -d KEY")
    await admin.describe_topic(arguments.topic)
    if changes:
        await admin.alter_configs(ResourceType.TOPIC, arguments.topic, changes)
    if arguments.partitions is not None:
        await admin.create_partitions(arguments.topic, arguments.partitions)
    return report(arguments, {arguments.topic: None}, "altered")
