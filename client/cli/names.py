"""Completes names of topics and groups, if a broker answers quickly."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.cli.arguments import default_bootstrap
from ottla.client.cli.completing import CandidateSource
from ottla.client.cli.settings import command_config
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Sequence

# Longer than this, typing the word is faster.
TIMEOUT_MS = 1_500


def names_of(source: CandidateSource, words: Sequence[str]) -> list[str]:
    """The names that match the last word; none if no broker answers."""
    logging.getLogger("ottla").addHandler(logging.NullHandler())
    try:
        found = asyncio.run(_ask(source, bootstrap_of(words)))
    except (ClientError, OSError, ValueError):
        return []
    return [name for name in found if name.startswith(words[-1])]


def bootstrap_of(words: Sequence[str]) -> str:
    """The address given with ``-b``, or the default."""
    for position, word in enumerate(words[:-1]):
        if word in ("-b", "--bootstrap"):
            return words[position + 1]
        if word.startswith("--bootstrap="):
            return word.partition("=")[2]
    return default_bootstrap()


async def _ask(source: CandidateSource, bootstrap: str) -> list[str]:
    async with Admin(bootstrap, command_config(TIMEOUT_MS)) as admin:
        if source is CandidateSource.GROUPS:
            return [group.group_id for group in await admin.groups.list_all()]
        return [view.name for view in await admin.list_topics() if not view.is_internal]
