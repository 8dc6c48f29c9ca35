"""Completes names of topics and groups, if a broker answers quickly."""

from __future__ import annotations

import argparse
import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.completing import CandidateSource
from ottla.client.cli.connection import resolve
from ottla.client.cli.settings import command_config
from ottla.client.settings.profiles import ProfileError
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Longer than this, typing the word is faster.
TIMEOUT_MS = 1_500
_OPTIONS = {
    "-b": "bootstrap",
    "--bootstrap": "bootstrap",
    "--profile": "profile",
    "--command-config": "command_config",
}


def names_of(source: CandidateSource, words: Sequence[str]) -> list[str]:
    """The names that match the last word; none if no broker answers."""
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    try:
        connection = connection_of(words[:-1])
        resolve(connection)
        found = asyncio.run(_ask(source, connection.bootstrap))
    except (ClientError, OSError, ProfileError, ValueError):
        return []
    return [name for name in found if name.startswith(words[-1])]


def connection_of(words: Sequence[str]) -> argparse.Namespace:
    """The options of the unfinished command line that say how to reach the cluster."""
    found = argparse.Namespace(bootstrap=None, profile=None, command_config=None, properties=[])
    for word, value in zip(words, [*words[1:], ""], strict=True):
        name, equals, text = word.partition("=")
        field = _OPTIONS.get(name)
        if field is not None:
            setattr(found, field, text if equals else value)
    return found


async def _ask(source: CandidateSource, bootstrap: str) -> list[str]:
    async with Admin(bootstrap, command_config(TIMEOUT_MS)) as admin:
        if source is CandidateSource.GROUPS:
            return [group.group_id for group in await admin.groups.list_all()]
        return [view.name for view in await admin.list_topics() if not view.is_internal]
