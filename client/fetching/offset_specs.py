"""Parses positions in a topic: an offset, a time, or one of its two ends."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import datetime, timedelta
from numbers import Integral

from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.protocol.named_tuples import NamedTuple

Moment = int | str | datetime | timedelta | Mapping[int, int]
"""An offset (negative: so many before the end), "earliest", "latest", ISO text or a datetime, "1h"
or a timedelta for so long ago, or an offset for each partition. A time without a zone is local."""

_UNITS_MS = {
    "ms": 1,
    "s": 1_000,
    "m": 60_000,
    "min": 60_000,
    "h": 3_600_000,
    "d": 86_400_000,
    "w": 604_800_000,
}
_AGO_MS_MAX = 2.0**62
_AGO = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|min|m|h|d|w)")
_ENDS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Spot(NamedTuple):
    """Either ``offset`` or ``timestamp`` is set; -2 and -1 are the ends as timestamps."""

    offset: int | None = None
    timestamp: int | None = None


def spot_of(moment: Moment, partition: int, wall_ms: int) -> Spot:
    """Return the moment's position in one partition. Raises ValueError with a sentence."""
    if isinstance(moment, Mapping):
        if partition not in moment:
            raise ValueError(f"there is no offset for partition {partition}")
        moment = moment[partition]
    if isinstance(moment, datetime):
        return Spot(timestamp=_milliseconds(moment))
    if isinstance(moment, timedelta):
        return Spot(timestamp=_since_1970(wall_ms - moment // _MILLISECOND))
    if isinstance(moment, str):
        return Spot(timestamp=_timestamp(moment, wall_ms))
    return Spot(offset=_offset(moment))


def _offset(moment: object) -> int:
    if isinstance(moment, bool) or not isinstance(moment, Integral):
        raise TypeError(f"{moment!r} is no place in a topic; an offset, a text and a time are")
    return int(moment)


def _timestamp(text: str, wall_ms: int) -> int:
    if text in _ENDS:
        return _ENDS[text]
    ago = _AGO.fullmatch(text.strip().removesuffix("ago").strip())
    if ago is not None:
        return _since_1970(wall_ms - int(min(float(ago[1]) * _UNITS_MS[ago[2]], _AGO_MS_MAX)))
    try:
        return _milliseconds(datetime.fromisoformat(text))
    except (ValueError, OverflowError):
        raise ValueError(
            f"{text!r} is not a position. Write earliest, latest, 1h or 2026-01-31T12:00"
        ) from None


def _milliseconds(moment: datetime) -> int:
    if moment.tzinfo is None:
        moment = moment.astimezone()
    # Rounded up: timestamps of records are whole milliseconds, and a record of this very
    # millisecond is before a moment that is some microseconds into it.
    return _since_1970(-((_EPOCH - moment) // _MILLISECOND))


def _since_1970(timestamp: int) -> int:
    """Clamp times before 1970 to the beginning: -1 as a timestamp would be the end."""
    return timestamp if timestamp >= 0 else EARLIEST_TIMESTAMP


_MILLISECOND = timedelta(milliseconds=1)
_EPOCH = datetime.fromisoformat("1970-01-01T00:00:00+00:00")
