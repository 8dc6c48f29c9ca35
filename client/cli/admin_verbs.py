"""Runs the sub-commands of a verb that asks the brokers through one admin client."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.run import run
from ottla.client.cli.settings import command_config

if TYPE_CHECKING:
    import argparse

AdminVerbs = Mapping[str, Callable[[Admin, "argparse.Namespace"], Awaitable[int]]]
"""The function of each sub-command; it returns the exit status."""


def run_admin_verb(verbs: AdminVerbs, arguments: argparse.Namespace) -> int:
    """Run the sub-command ``arguments.verb`` and return the exit status."""
    return run(partial(_perform, verbs), arguments)


async def _perform(verbs: AdminVerbs, arguments: argparse.Namespace) -> int:
    async with Admin(arguments.bootstrap, command_config()) as admin:
        return await verbs[arguments.verb](admin, arguments)
