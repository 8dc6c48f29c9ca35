"""Where ``ottla consume`` begins: reading the option, and finding the offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

from ottla.client.cli.run import CommandError
from ottla.client.state.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ottla.client.offsets import OffsetAt
    from ottla.protocol.ids import TopicPartition


class Kind(Enum):
    """How the number of a start is meant."""

    OFFSET = "an offset"
    FROM_END = "records before the end"
    TIMESTAMP = "milliseconds since 1970, -1 for the end, -2 for the beginning"


class Start(NamedTuple):
    """A place in a partition, as a person names it."""

    kind: Kind
    number: int


BEGINNING = Start(Kind.TIMESTAMP, EARLIEST_TIMESTAMP)
END = Start(Kind.TIMESTAMP, LATEST_TIMESTAMP)


def read_start(text: str) -> Start:
    """Read the option's value. Raises ValueError with a sentence."""
    if text == "beginning":
        return BEGINNING
    if text == "end":
        return END
    if text.startswith("@"):
        return Start(Kind.TIMESTAMP, read_time(text[1:]))
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return Start(Kind.FROM_END if text.startswith("-") else Kind.OFFSET, int(digits))
    raise ValueError(f"{text!r} is none of N, -N, beginning, end, @MS and @TIME")


def read_time(text: str) -> int:
    """Milliseconds since 1970, given as such or in ISO 8601. Raises ValueError."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(
            f"{text!r} is no time; one looks like 2026-01-31T12:00:00Z or 1769860800000"
        ) from None
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return max(0, round(moment.timestamp() * 1000))


async def resolve(
    offsets_at: Callable[
        [Mapping[TopicPartition, int]], Awaitable[Mapping[TopicPartition, OffsetAt]]
    ],
    partitions: Iterable[TopicPartition],
    start: Start,
) -> tuple[dict[TopicPartition, int], dict[TopicPartition, int]]:
    """Where each partition begins, and where it ends now; ``offsets_at`` is ``Consumer``'s.

    Raises CommandError for an offset that a partition does not hold."""
    wanted = list(partitions)
    firsts = await offsets_at(dict.fromkeys(wanted, EARLIEST_TIMESTAMP))
    lasts = await offsets_at(dict.fromkeys(wanted, LATEST_TIMESTAMP))
    ends = {where: answer.offset for where, answer in lasts.items()}
    starts: dict[TopicPartition, int] = {}
    if start.kind is Kind.TIMESTAMP and start.number >= 0:
        found = await offsets_at(dict.fromkeys(wanted, start.number))
        for where, answer in found.items():
            starts[where] = ends[where] if answer.offset < 0 else answer.offset
        return starts, ends
    for where in wanted:
        first, end = firsts[where].offset, ends[where]
        if start == BEGINNING:
            starts[where] = first
        elif start == END:
            starts[where] = end
        elif start.kind is Kind.FROM_END:
            starts[where] = max(first, end - start.number)
        elif first <= start.number <= end:
            starts[where] = start.number
        else:
            raise CommandError(
                f"topic {where.topic!r} partition {where.partition} holds the offsets {first} to "
                f"{end - 1}, not {start.number}"
                if first < end
                else f"topic {where.topic!r} partition {where.partition} is empty; it continues "
                f"at offset {end}, not {start.number}"
            )
    return starts, ends
