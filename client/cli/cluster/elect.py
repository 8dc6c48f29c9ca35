"""``ottla elect``: elects preferred or unclean leaders of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.placements import ElectionType
from ottla.client.cli.output import json_document, write
from ottla.client.cli.run import CommandError, run, sentence
from ottla.client.cli.settings import command_config
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.wire.errors import RequestRefused


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Elect leaders, and write the result for each partition."""
    if arguments.unclean and not arguments.topics:
        raise CommandError("name the partitions that may lose records: TOPIC or TOPIC:P,P")
    kind = ElectionType.UNCLEAN if arguments.unclean else ElectionType.PREFERRED
    async with Admin(arguments.bootstrap, command_config()) as admin:
        wanted = await _expand(admin, arguments.topics) if arguments.topics else None
        outcomes = await admin.placements.elect(kind, wanted)
    failed = {
        where: refused
        for where, refused in outcomes.items()
        if refused is not None and refused.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if arguments.format == "json":
        write(json_document([_described(*item) for item in sorted(outcomes.items())]))
    else:
        write("".join(_line(*item) for item in sorted(outcomes.items()) if item[0] not in failed))
        if not outcomes:
            write("every partition is led by its first replica already\n")
    if failed:
        raise CommandError("; ".join(f"{where}: {sentence(failed[where])}" for where in failed))
    return 0


async def _expand(
    admin: Admin, wanted: Sequence[tuple[str, list[int] | None]]
) -> list[TopicPartition]:
    found = []
    for topic, numbers in wanted:
        if numbers is None:
            numbers = sorted((await admin.describe_topic(topic)).partitions)
        found += [TopicPartition(topic, number) for number in numbers]
    return found


def _line(where: TopicPartition, refused: RequestRefused | None) -> str:
    return f"{where}: {'elected' if refused is None else 'has the right leader already'}\n"


def _described(where: TopicPartition, refused: RequestRefused | None) -> dict[str, object]:
    return {
        "topic": where.topic,
        "partition": where.partition,
        "error": None if refused is None else refused.code.name,
    }
