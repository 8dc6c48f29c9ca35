"""Reads places in a partition as users write them; ``start_offset`` finds their offsets."""

from __future__ import annotations

from datetime import UTC, datetime
from enum import Enum

from ottla.client.cli.arguments import INT64_MAX
from ottla.protocol.named_tuples import NamedTuple

POSITION_FORMS = "N, -N (records before the end), beginning, end, @TIME"


class PositionKind(Enum):
    """The meaning of a place's number; BEGINNING, END and STORED have none."""

    OFFSET = "an offset"
    FROM_END = "records before the end"
    TIMESTAMP = "milliseconds since 1970"
    BEGINNING = "the first record there is"
    END = "after the last record"
    STORED = "where a group stands"


class PositionSpec(NamedTuple):
    """A place in a partition. ``is_stop``: reading stops there instead of beginning."""

    kind: PositionKind
    number: int = 0
    is_stop: bool = False


BEGINNING = PositionSpec(PositionKind.BEGINNING)
END = PositionSpec(PositionKind.END)
STORED = PositionSpec(PositionKind.STORED)
WORDS = {"beginning": BEGINNING, "start": BEGINNING, "end": END}


def read_position(text: str) -> PositionSpec:
    """Read a place. Raises ValueError."""
    if text in WORDS:
        return WORDS[text]
    if text.startswith("@"):
        return PositionSpec(PositionKind.TIMESTAMP, read_time(text[1:]))
    digits = text.removeprefix("-")
    if digits.isascii() and digits.isdigit():
        return PositionSpec(
            PositionKind.FROM_END if text.startswith("-") else PositionKind.OFFSET, int(digits)
        )
    raise ValueError(f"{text!r} is none of N, -N, beginning, end, @MS and @TIME")


def read_range_position(text: str) -> PositionSpec:
    """Read a place to begin or, with ``e@``, to stop at. Raises ValueError."""
    if text == "stored":
        return STORED
    if text.startswith("s@"):
        return PositionSpec(PositionKind.TIMESTAMP, read_time(text[2:]))
    if text.startswith("e@"):
        return PositionSpec(PositionKind.TIMESTAMP, read_time(text[2:]), is_stop=True)
    try:
        return read_position(text)
    except ValueError as error:
        if text.startswith("@"):
            raise
        raise ValueError(
            f"{text!r} is none of N, -N, beginning, end, stored, s@TIME and e@TIME"
        ) from error


def read_time(text: str) -> int:
    """Read a time in ms since 1970 or in ISO 8601. Raises ValueError."""
    if text.isascii() and text.isdigit():
        # Python raises its own error beyond 4300 digits.
        if len(text) > len(str(INT64_MAX)) or int(text) > INT64_MAX:
            raise ValueError(f"{text!r} is too large for a time in milliseconds")
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
