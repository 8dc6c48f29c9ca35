"""Finds the offsets of places in partitions, to read from or to move a group to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.position_specs import PositionKind, PositionSpec
from ottla.client.cli.run import CommandError
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ottla.client.fetching.offsets import OffsetAt
    from ottla.protocol.ids import TopicPartition

    Offsets = dict[TopicPartition, int]
    # ``Consumer.offsets_at``, or a function like it.
    OffsetsAt = Callable[
        [Mapping[TopicPartition, int]], Awaitable[Mapping[TopicPartition, OffsetAt]]
    ]


async def resolve(
    offsets_at: OffsetsAt, partitions: Iterable[TopicPartition], place: PositionSpec
) -> tuple[Offsets, Offsets]:
    """The offset of the place in each partition, and the partition's end.

    Raises CommandError for an offset that a partition does not hold."""
    assert place.kind is not PositionKind.STORED
    wanted = list(partitions)
    firsts = await offsets_at(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
    lasts = await offsets_at(dict.fromkeys(wanted, LATEST_TIMESTAMP))
    ends = {where: answer.offset for where, answer in lasts.items()}
    if place.kind is PositionKind.TIMESTAMP:
        return await at_time(offsets_at, ends, place.number), ends
    return {where: at(where, place, firsts[where].offset, ends[where]) for where in wanted}, ends


async def at_time(offsets_at: OffsetsAt, ends: Offsets, timestamp: int) -> Offsets:
    """The offsets of the first records at that time or later; the end if there is none."""
    found = await offsets_at(dict.fromkeys(ends, timestamp))
    return {
        where: ends[where] if answer.offset < 0 else answer.offset
        for where, answer in found.items()
    }


def at(where: TopicPartition, place: PositionSpec, first: int, end: int) -> int:
    """The offset of a place in a partition that holds ``first`` to ``end``. Raises CommandError."""
    match place.kind:
        case PositionKind.BEGINNING:
            return first
        case PositionKind.END:
            return end
        case PositionKind.FROM_END:
            return max(first, end - place.number)
    assert place.kind is PositionKind.OFFSET
    if first <= place.number <= end:
        return place.number
    raise CommandError(
        f"topic {where.topic!r} partition {where.partition} holds the offsets {first} to "
        f"{end - 1}, not {place.number}"
        if first < end
        else f"topic {where.topic!r} partition {where.partition} is empty; it continues "
        f"at offset {end}, not {place.number}"
    )
