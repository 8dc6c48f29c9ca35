"""``ottla groups seek`` and ``reset-offsets``: move the committed positions of an empty group."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ottla.client.cli.arguments import natural, partition_number
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.partitions import OffsetsOf
from ottla.client.cli.run import CommandError
from ottla.client.cli.start_offset import resolve
from ottla.client.records.committed import Committed, refusal_of
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.admin import Admin
    from ottla.client.cli.position_specs import PositionSpec

    Offsets = dict[TopicPartition, int]

HOW_TO_FREE = "stop its members first; 'ottla groups describe' shows them"
STANDARD_INPUT = "-"


def has_members(group_id: str) -> CommandError:
    """The error for positions that only the members may set."""
    return CommandError(f"group {group_id!r} has members; {HOW_TO_FREE}")


async def reset_offsets(admin: Admin, arguments: argparse.Namespace) -> int:
    """Move the group's positions to a place."""
    current = await admin.groups.offsets(arguments.group)
    targets = await _at_place(admin, arguments, current, arguments.offset)
    return await move(admin, arguments, current, targets)


async def seek(admin: Admin, arguments: argparse.Namespace) -> int:
    """Move the group's positions to a place, to another group's positions, or as a file says."""
    current = await admin.groups.offsets(arguments.group)
    if arguments.to is not None:
        targets = await _at_place(admin, arguments, current, arguments.to)
    else:
        if arguments.to_group is not None:
            targets = await _of_group(admin, arguments.to_group)
        else:
            targets = read_positions(_text_of(arguments.to_file))
        if arguments.topics:
            targets = _only(targets, arguments.topics)
        if not targets:
            raise CommandError(
                "there is no offset to set for the topics and partitions that you named"
            )
    return await move(admin, arguments, current, targets)


async def _at_place(
    admin: Admin,
    arguments: argparse.Namespace,
    current: dict[TopicPartition, Committed],
    place: PositionSpec,
) -> Offsets:
    partitions = await partitions_of_group(admin, arguments.topics, current)
    if not partitions:
        raise CommandError(
            f"group {arguments.group!r} has no positions; name the topics to set some for"
        )
    targets, _ends = await resolve(OffsetsOf(admin).at, partitions, place)
    return targets


async def _of_group(admin: Admin, group_id: str) -> Offsets:
    found = await admin.groups.offsets(group_id)
    if not found:
        raise CommandError(f"group {group_id!r} has no positions")
    return {where: committed.offset for where, committed in found.items()}


def _text_of(path: str) -> str:
    try:
        if path == STANDARD_INPUT:
            with open(0, encoding="utf-8", closefd=False) as stream:
                return stream.read()
        return Path(path).read_text("utf-8")
    except UnicodeDecodeError:
        raise CommandError(f"cannot read {path}: it is not UTF-8 text") from None


def read_positions(text: str) -> Offsets:
    """Read lines of ``topic,partition,offset``. Raises CommandError."""
    found: Offsets = {}
    for count, line in enumerate(text.splitlines(), 1):
        if not line.strip():
            continue
        fields = [field.strip() for field in line.split(",")]
        try:
            topic, number, offset = fields
            found[TopicPartition(topic, partition_number(number))] = natural(offset)
        except ValueError:
            raise CommandError(
                f"line {count} is not of the form TOPIC,PARTITION,OFFSET: {line!r}"
            ) from None
    return found


def _only(targets: Offsets, topics: Sequence[tuple[str, list[int] | None]]) -> Offsets:
    """The positions of the partitions that the command line names."""
    wanted = dict(topics)
    return {
        where: offset
        for where, offset in targets.items()
        if where.topic in wanted
        and (wanted[where.topic] is None or where.partition in (wanted[where.topic] or ()))
    }


async def move(
    admin: Admin,
    arguments: argparse.Namespace,
    current: dict[TopicPartition, Committed],
    targets: Offsets,
) -> int:
    """Commit new positions for the group, which must be empty."""
    group_id = arguments.group
    if not arguments.dry_run:
        results = await admin.groups.commit(
            group_id, {where: Committed(offset) for where, offset in targets.items()}
        )
        refusal = refusal_of(results, has_members(group_id))
        if refusal is not None:
            raise refusal
    moves = [
        (
            where.topic,
            where.partition,
            current[where].offset if where in current else None,
            targets[where],
        )
        for where in sorted(targets)
    ]
    if arguments.format == "json":
        names = ("topic", "partition", "from", "to")
        write(json_document([dict(zip(names, move, strict=True)) for move in moves]))
    else:
        write(table(("TOPIC", "PARTITION", "FROM", "TO"), moves))
    return 0


async def partitions_of_group(
    admin: Admin,
    topics: Sequence[tuple[str, list[int] | None]],
    current: dict[TopicPartition, Committed],
) -> list[TopicPartition]:
    """The named partitions; without names, all that the group has a position for."""
    if not topics:
        return sorted(current)
    found: dict[TopicPartition, None] = {}
    for topic, numbers in topics:
        if numbers is None:
            known = [where.partition for where in current if where.topic == topic]
            numbers = known or list((await admin.describe_topic(topic)).partitions)
        for number in numbers:
            found[TopicPartition(topic, number)] = None
    return sorted(found)
