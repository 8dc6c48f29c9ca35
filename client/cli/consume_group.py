"""``ottla consume -g GROUP``: reading as a member of a group."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.run import CommandError

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable

    from ottla.client.batches import ConsumerRecord
    from ottla.client.cli.places import Place


async def read_as_member(
    arguments: argparse.Namespace,
    start: Place | None,
    stop: Place | None,
    render: Callable[[ConsumerRecord[bytes, bytes]], bytes],
) -> int:
    """Read what the group gives to this member, and commit what was written."""
    raise CommandError("name the partitions with -p")
