"""``ottla groups describe`` and ``explain``: groups and their timelines, as text or JSON."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError
from ottla.client.fetching.offsets import OffsetAt
from ottla.client.fetching.positions import LATEST_TIMESTAMP
from ottla.client.group.requests import GroupRefused
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    import argparse

    from ottla.client.admin import Admin
    from ottla.client.group.requests import GroupView, MemberView
    from ottla.client.records.committed import Committed
    from ottla.protocol.ids import TopicPartition

POSITIONS = ("TOPIC", "PARTITION", "POSITION", "END", "LAG", "MEMBER")
MEMBERS = ("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS")


async def describe(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write the description of each group."""
    documents, texts = [], []
    for group_id in dict.fromkeys(arguments.groups):
        group = await _find(admin, group_id)
        offsets = await admin.groups.offsets(group_id)
        owners = {where: member for member in group.members for where in member.partitions or ()}
        ends = await _ends(admin, [*offsets, *owners])
        if arguments.format == "json":
            documents.append(_document(group, offsets, ends, owners))
        else:
            texts.append(_text(group, offsets, ends, owners))
    write(json_document(documents) if arguments.format == "json" else "\n".join(texts))
    return 0


async def _find(admin: Admin, group_id: str) -> GroupView:
    try:
        return await admin.groups.describe(group_id)
    except GroupRefused as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        raise CommandError(
            f"group {group_id!r} does not exist; 'ottla groups list' shows those that do"
        ) from error


async def _ends(admin: Admin, partitions: list[TopicPartition]) -> dict[TopicPartition, int | None]:
    """The end offsets; None if the topic does not exist or its partition has no leader."""
    found = await admin.list_offsets(dict.fromkeys(partitions, LATEST_TIMESTAMP))
    return {
        where: answer.offset if isinstance(answer, OffsetAt) else None
        for where, answer in found.items()
    }


def _lag(committed: Committed | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed.offset)


def _document(
    group: GroupView,
    offsets: dict[TopicPartition, Committed],
    ends: dict[TopicPartition, int | None],
    owners: dict[TopicPartition, MemberView],
) -> dict[str, object]:
    positions = []
    for where in sorted({*offsets, *owners}):
        committed, owner = offsets.get(where), owners.get(where)
        positions.append(
            {
                "topic": where.topic,
                "partition": where.partition,
                "position": None if committed is None else committed.offset,
                "leader_epoch": None if committed is None else committed.leader_epoch,
                "metadata": None if committed is None else committed.metadata,
                "end_offset": ends.get(where),
                "lag": _lag(committed, ends.get(where)),
                "member": None if owner is None else owner.member_id,
            }
        )
    return {
        "group": group.group_id,
        "type": group.kind,
        "state": group.state,
        "assignor": group.protocol,
        "coordinator": group.coordinator_id,
        "members": [_member(member) for member in group.members],
        "positions": positions,
    }


def _member(member: MemberView) -> dict[str, object]:
    held = member.partitions
    return {
        "member": member.member_id,
        "instance": member.instance_id,
        "client": member.client_id,
        "host": member.client_host,
        "epoch": member.member_epoch if member.member_epoch >= 0 else None,
        "partitions": None if held is None else [f"{at.topic}:{at.partition}" for at in held],
        "moving_to": [f"{at.topic}:{at.partition}" for at in member.moving_to],
    }


def _text(
    group: GroupView,
    offsets: dict[TopicPartition, Committed],
    ends: dict[TopicPartition, int | None],
    owners: dict[TopicPartition, MemberView],
) -> str:
    facts = [group.kind or "group", group.state]
    if group.protocol:
        facts.append(group.protocol)
    facts.append(f"coordinated by broker {group.coordinator_id}")
    parts = [f"{group.group_id}  ({', '.join(facts)})\n"]
    rows = []
    for where in sorted({*offsets, *owners}):
        committed, end, owner = offsets.get(where), ends.get(where), owners.get(where)
        rows.append(
            (
                where.topic,
                where.partition,
                None if committed is None else committed.offset,
                end,
                _lag(committed, end),
                None if owner is None else owner.member_id,
            )
        )
    if rows:
        parts.append(table(POSITIONS, rows))
    members = [
        (
            member.member_id,
            member.instance_id,
            member.client_id,
            member.client_host,
            None if member.partitions is None else len(member.partitions),
        )
        for member in group.members
    ]
    if members:
        parts.append(table(MEMBERS, members))
    return "\n".join(parts)


async def explain(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write the timeline that the coordinator keeps of a group, oldest first."""
    try:
        rows = await admin.groups.timeline(arguments.group)
    except RequestRefused as error:
        if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
            raise
        # Timelines are short and in memory only, so a group may exist without one.
        await _find(admin, arguments.group)
        raise CommandError(
            f"group {arguments.group!r} exists, but nothing that happened in it is remembered; "
            f"'ottla groups describe {arguments.group}' shows its committed offsets"
        ) from error
    if arguments.format == "json":
        write(json_document(rows))
        return 0
    write("".join(_story_line(row) for row in rows))
    return 0


def _story_line(row: dict[str, Any]) -> str:
    moment = datetime.fromtimestamp(int(row.get("time_ms", 0)) / 1000, UTC)
    when = moment.isoformat(sep=" ", timespec="milliseconds").removesuffix("+00:00")
    return f"{when}Z  {row.get('text', '')}\n"
