"""``ottla consume -g GROUP``: reads as a member of a group.

Written records count as read: their positions are committed every few seconds, when partitions are
revoked, and at the end, also after Ctrl-C.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING

from ottla.client.cli.output import check_reader, write_bytes
from ottla.client.cli.position_specs import PositionKind
from ottla.client.cli.progress import WaitingNote
from ottla.client.cli.records.decoding import decoder_of
from ottla.client.cli.records.records import filter_of
from ottla.client.cli.run import INTERRUPTED, UsageError
from ottla.client.cli.settings import member_config
from ottla.client.consumer import Consumer
from ottla.client.group.rebalance_listener import RebalanceListener

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from ottla.client.cli.position_specs import PositionSpec
    from ottla.client.fetching.batches import ConsumerRecord
    from ottla.client.settings.config import OffsetReset
    from ottla.protocol.ids import TopicPartition

    Render = Callable[[ConsumerRecord[bytes, bytes]], bytes]

RECORDS_PER_WRITE_MAX = 5_000
POLL_MS = 500.0


async def read_as_member(
    arguments: argparse.Namespace,
    start: PositionSpec | None,
    stop: PositionSpec | None,
    render: Render,
) -> int:
    """Read the assigned partitions, and commit what was written."""
    reset = reset_of(start)
    if stop is not None:
        raise UsageError("e@TIME is for reading without a group, or with -p")
    config = member_config(arguments, reset)
    listener = Ends()
    async with Consumer(arguments.bootstrap, config) as consumer:
        await consumer.subscribe(subscription(arguments.topics), listener)
        try:
            await copy(consumer, render, arguments, listener)
        except asyncio.CancelledError:
            # Not re-raised here: leaving the block with an error would skip the last commit.
            task = asyncio.current_task()
            assert task is not None
            task.uncancel()
            return INTERRUPTED
    return 0


def reset_of(start: PositionSpec | None) -> OffsetReset:
    """Where to begin in partitions without a committed position. Raises UsageError."""
    if start is None or start.kind in (PositionKind.STORED, PositionKind.END):
        return "latest"
    if start.kind is PositionKind.BEGINNING:
        return "earliest"
    raise UsageError(
        "a member begins at its group's committed offsets, or without one at the beginning or end; "
        "'ottla groups seek' changes them"
    )


def subscription(wanted: Sequence[str]) -> list[str] | re.Pattern[str]:
    """The topics, or one pattern for all if a name begins with ``^``."""
    if not any(name.startswith("^") for name in wanted):
        return list(wanted)
    if len(wanted) == 1:
        return re.compile(wanted[0])
    parts = [name[1:] if name.startswith("^") else f"{re.escape(name)}$" for name in wanted]
    return re.compile("^(?:" + "|".join(parts) + ")")


class Ends(RebalanceListener):
    """The ends of the member's partitions at their assignment; None before the first one."""

    def __init__(self) -> None:
        self.offsets: dict[TopicPartition, int] | None = None
        self._has_changed = False

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        self._has_changed = True

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        for where in partitions:
            (self.offsets or {}).pop(where, None)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        self.on_revoked(partitions)

    async def are_reached(self, consumer: Consumer) -> bool:
        """Whether everything up to the ends at assignment has been read."""
        if self._has_changed:
            self._has_changed = False
            known = self.offsets or {}
            new = [where for where in consumer.assignment if where not in known]
            self.offsets = {**known, **(await consumer.end_offsets(new))}
        if self.offsets is None:
            return False
        positions = {where: consumer.position(where) for where in self.offsets}
        return all(
            position is not None and position >= self.offsets[where]
            for where, position in positions.items()
        )


async def copy(
    consumer: Consumer, render: Render, arguments: argparse.Namespace, ends: Ends
) -> None:
    """Write records until done or interrupted."""
    left: int | None = arguments.count
    keep = filter_of(arguments)
    decoder = decoder_of(arguments)
    note = WaitingNote(is_wanted=not arguments.exit)
    while True:
        most = RECORDS_PER_WRITE_MAX
        records = await consumer.poll(POLL_MS, most if left is None else min(left, most))
        if not records:
            check_reader()
            note.tell()
        records = await decoder.decoded(records)
        if keep is not None:
            records = list(filter(keep, records))
        if records:
            write_bytes(b"".join(map(render, records)))
        if left is not None:
            left -= len(records)
            if left == 0:
                return
        decoder.check()
        if arguments.exit and await ends.are_reached(consumer):
            return
