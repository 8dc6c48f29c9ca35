"""``ottla groups``: list, describe, explain and delete groups, and move their positions."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from ottla.client.cli.admin_verbs import AdminVerbs, run_admin_verb
from ottla.client.cli.groups.group_moves import (
    HOW_TO_FREE,
    partitions_of_group,
    reset_offsets,
    seek,
)
from ottla.client.cli.groups.group_text import describe, explain
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, sentence
from ottla.client.group.requests import GroupRefused
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    import argparse

    from ottla.client.admin import Admin


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run_admin_verb(VERBS, arguments)


async def list_groups(admin: Admin, arguments: argparse.Namespace) -> int:
    """Write one line per group."""
    groups = await admin.groups.list_all(arguments.state, arguments.type)
    if arguments.format == "json":
        write(
            json_document(
                [
                    {
                        "group": group.group_id,
                        "type": group.kind,
                        "protocol_type": group.protocol_type,
                        "state": group.state,
                    }
                    for group in groups
                ]
            )
        )
        return 0
    rows = [(group.group_id, group.kind, group.state) for group in groups]
    write(table(("GROUP", "TYPE", "STATE"), rows))
    return 0


async def delete_groups(admin: Admin, arguments: argparse.Namespace) -> int:
    """Delete groups, and write the result of each."""
    outcomes: dict[str, str | None] = {}
    for group_id in dict.fromkeys(arguments.groups):
        try:
            await admin.groups.delete(group_id)
            outcomes[group_id] = None
        except GroupRefused as error:
            outcomes[group_id] = _words(error)
    rows = [{"group": name, **_outcome(error)} for name, error in outcomes.items()]
    return _tell(
        arguments, rows, [f"deleted {name}" for name, error in outcomes.items() if not error]
    )


def _outcome(error: str | None) -> dict[str, object]:
    return {"status": "deleted" if error is None else "failed", "error": error}


def _tell(arguments: argparse.Namespace, rows: list[dict[str, object]], lines: list[str]) -> int:
    """Write what was done; all failures go to standard error in one sentence."""
    if arguments.format == "json":
        write(json_document(rows))
    else:
        write("".join(f"{line}\n" for line in lines))
    failures = [str(row["error"]) for row in rows if row["error"] is not None]
    if failures:
        raise CommandError("; ".join(dict.fromkeys(failures)))
    return 0


def _words(error: GroupRefused) -> str:
    if error.code is ErrorCode.NON_EMPTY_GROUP:
        return f"group {error.group_id!r} has members; {HOW_TO_FREE}"
    if error.code is ErrorCode.GROUP_ID_NOT_FOUND:
        return f"group {error.group_id!r} does not exist; 'ottla groups list' shows those that do"
    return sentence(error)


async def delete_offsets(admin: Admin, arguments: argparse.Namespace) -> int:
    """Delete committed positions."""
    group_id = arguments.group
    try:
        current = await admin.groups.offsets(group_id)
        wanted = await partitions_of_group(admin, arguments.topics, current)
        results = await admin.groups.delete_offsets(group_id, wanted)
    except GroupRefused as error:
        raise CommandError(_words(error)) from error
    rows, lines = [], []
    for where, refused in sorted(results.items()):
        failure = None
        if refused is None:
            lines.append(f"deleted {where.topic}:{where.partition}")
        elif refused.code is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC:
            failure = f"members of group {group_id!r} read topic {where.topic!r}"
        else:
            failure = sentence(refused)
        rows.append({"topic": where.topic, "partition": where.partition, **_outcome(failure)})
    return _tell(arguments, rows, lines)


async def migrate(admin: Admin, arguments: argparse.Namespace) -> int:
    """Copy the offsets of a group between ZooKeeper and Kafka."""
    # Loaded only now: the other sub-commands need no ZooKeeper.
    module = importlib.import_module("ottla.client.cli.groups.migration")
    status: int = await module.migrate(admin, arguments)
    return status


VERBS: AdminVerbs = {
    "list": list_groups,
    "describe": describe,
    "explain": explain,
    "delete": delete_groups,
    "reset-offsets": reset_offsets,
    "seek": seek,
    "delete-offsets": delete_offsets,
    "migrate": migrate,
}
