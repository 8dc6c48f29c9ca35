"""``ottla offsets``: the first and end offsets of partitions, or those of a place or a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.partitions import OffsetsOf, named_partitions
from ottla.client.cli.run import CommandError, UsageError, run, sentence
from ottla.client.cli.settings import command_config
from ottla.client.cli.start_offset import resolve
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.settings.config import Isolation
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    import argparse

    from ottla.client.fetching.offsets import OffsetAt
    from ottla.protocol.ids import TopicPartition

NAMES = ("topic", "partition", "offset")


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Write one line per partition."""
    if arguments.offset is not None and arguments.group is not None:
        raise UsageError("-o and -g exclude each other: give one")
    isolation = Isolation.READ_COMMITTED if arguments.read_committed else Isolation.READ_UNCOMMITTED
    async with Admin(arguments.bootstrap, command_config()) as admin:
        if arguments.group is not None:
            return await group_offsets(admin, arguments)
        partitions = await named_partitions(admin, arguments.topics)
        if arguments.offset is not None:
            found, _ends = await resolve(
                OffsetsOf(admin, isolation).at, partitions, arguments.offset
            )
            write_offsets(arguments, found)
            return 0
        firsts = await admin.list_offsets(dict.fromkeys(partitions, EARLIEST_TIMESTAMP))
        ends = await admin.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP), isolation)
    return write_ranges(arguments, firsts, ends)


async def group_offsets(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write the group's positions, in these topics or in all."""
    wanted = None
    if arguments.topics:
        wanted = await named_partitions(admin, arguments.topics)
    committed = await admin.groups.offsets(arguments.group, wanted)
    if not committed:
        raise CommandError(f"group {arguments.group!r} has no position there")
    write_offsets(arguments, {where: found.offset for where, found in committed.items()})
    return 0


def write_offsets(arguments: argparse.Namespace, found: dict[TopicPartition, int]) -> None:
    """Write one offset of each partition."""
    rows = [(where.topic, where.partition, found[where]) for where in sorted(found)]
    if arguments.format == "json":
        write(json_document([dict(zip(NAMES, row, strict=True)) for row in rows]))
    elif arguments.csv:
        write("".join(f"{topic},{partition},{offset}\n" for topic, partition, offset in rows))
    else:
        write(table([name.upper() for name in NAMES], rows))


def write_ranges(
    arguments: argparse.Namespace,
    firsts: dict[TopicPartition, OffsetAt | ClientError],
    ends: dict[TopicPartition, OffsetAt | ClientError],
) -> int:
    """Write the first and the end offset of each partition; failures come last."""
    failures = []
    known: dict[TopicPartition, tuple[int, int]] = {}
    for where in sorted(ends):
        first, end = firsts[where], ends[where]
        if isinstance(first, ClientError) or isinstance(end, ClientError):
            failures.append(sentence(first if isinstance(first, ClientError) else end))  # type: ignore[arg-type]
        else:
            known[where] = (first.offset, end.offset)
    if arguments.csv:
        write_offsets(arguments, {where: end for where, (_, end) in known.items()})
    else:
        rows = [(*where, first, end, end - first) for where, (first, end) in known.items()]
        names = ("topic", "partition", "start_offset", "end_offset", "count")
        if arguments.format == "json":
            write(json_document([dict(zip(names, row, strict=True)) for row in rows]))
        else:
            write(table(("TOPIC", "PARTITION", "START", "END", "OFFSETS"), rows))
    if failures:
        raise CommandError("; ".join(dict.fromkeys(failures)))
    return 0
