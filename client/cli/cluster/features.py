"""``ottla features``: lists and changes a cluster's features (KIP-584)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.features import FeatureUpgrade
from ottla.client.cli.output import json_document, table, write
from ottla.client.cli.run import run
from ottla.client.cli.settings import command_config

if TYPE_CHECKING:
    import argparse

CHANGES = {
    "upgrade": FeatureUpgrade.UPGRADE,
    "downgrade": FeatureUpgrade.SAFE_DOWNGRADE,
    "disable": FeatureUpgrade.SAFE_DOWNGRADE,
}


def main(arguments: argparse.Namespace) -> int:
    """Run the command."""
    return run(perform, arguments)


async def perform(arguments: argparse.Namespace) -> int:
    """Run the verb."""
    async with Admin(arguments.bootstrap, command_config()) as admin:
        if arguments.verb != "list":
            levels = dict(arguments.features)
            await admin.features.update_features(
                levels, CHANGES[arguments.verb], validate_only=arguments.dry_run
            )
        features = await admin.features.describe_features()
    if arguments.verb != "list":
        done = "could be set to" if arguments.dry_run else "is at"
        if arguments.format == "text":
            write("".join(f"{name} {done} {level}\n" for name, level in levels.items()))
            return 0
    if arguments.format == "json":
        names = ("feature", "level_min", "level_max", "level")
        write(json_document([dict(zip(names, one, strict=True)) for one in features]))
        return 0
    rows = [
        (one.name, f"{one.level_min} to {one.level_max}", one.level or "off") for one in features
    ]
    write(table(("FEATURE", "SUPPORTED", "LEVEL"), rows))
    return 0
