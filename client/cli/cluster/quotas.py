"""``ottla quotas``: limits of users, client ids and addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.quotas import ENTITY_TYPES
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import CommandError, UsageError, run
from ottla.client.cli.settings import command_config

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from ottla.client.administration.quotas import QuotaView

_DEFAULT = "(default)"


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    entity = _entity(arguments)
    if not entity and arguments.verb != "list":
        raise UsageError(
            "name the entity: --user, --client or --ip, or a default such as --user-defaults"
        )
    async with Admin(arguments.bootstrap, command_config()) as admin:
        if arguments.verb == "list":
            _show(await admin.quotas.describe_quotas(entity), arguments.format)
        elif arguments.verb == "set":
            wanted = dict(arguments.quotas)
            await admin.quotas.alter_quotas(entity, wanted, validate_only=arguments.dry_run)
            _tell("could set" if arguments.dry_run else "set", entity, list(wanted), arguments)
        else:
            keys = await _keys_to_remove(admin, entity, arguments.keys)
            await admin.quotas.alter_quotas(entity, dict.fromkeys(keys))
            _tell("removed", entity, keys, arguments)
    return 0


def _entity(arguments: argparse.Namespace) -> dict[str, str | None]:
    values = vars(arguments)
    found: dict[str, str | None] = {}
    for kind in ENTITY_TYPES:
        if values[f"{kind}-defaults"]:
            found[kind] = None
        elif values[kind] is not None:
            found[kind] = values[kind]
    return found


async def _keys_to_remove(
    admin: Admin, entity: dict[str, str | None], named: Sequence[str]
) -> list[str]:
    """The named quotas, or all that the entity has."""
    views = await admin.quotas.describe_quotas(entity, strict=True)
    has = [key for one in views for key in one.quotas]
    missing = [key for key in named if key not in has]
    if missing or not has:
        what = missing[0] if missing else "quotas"
        raise CommandError(f"{_text(entity)} has no {what}")
    return list(named) or has


def _tell(
    done: str, entity: dict[str, str | None], keys: list[str], arguments: argparse.Namespace
) -> None:
    if arguments.format == "json":
        write(json_document({"entity": entity, "status": done, "quotas": keys}))
    else:
        write(f"{done} {', '.join(keys)} of {_text(entity)}\n")


def _show(views: list[QuotaView], form: str) -> None:
    views = sorted(views, key=lambda one: _text(one.entity))
    if form == "json":
        write(json_document([one._asdict() for one in views]))
        return
    rows = [
        (*(_cell(one.entity, kind) for kind in ENTITY_TYPES), key, f"{value:.15g}")
        for one in views
        for key, value in one.quotas.items()
    ]
    if rows:
        write(table(("USER", "CLIENT", "ADDRESS", "QUOTA", "VALUE"), rows))
    else:
        write("no quota is set\n")


def _cell(entity: dict[str, str | None], kind: str) -> str | None:
    return entity[kind] or _DEFAULT if kind in entity else None


def _text(entity: dict[str, str | None]) -> str:
    return ", ".join(f"{kind} {name or _DEFAULT}" for kind, name in entity.items())
