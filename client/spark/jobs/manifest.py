"""Describes what a load contains; stored beside its rows. Pure."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.client.spark.jobs.errors import JobRefused
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

FILE = "_offsets.json"
DEFAULT_WINDOW = "hour"


class Range(NamedTuple):
    """Offsets from ``start`` up to ``end``."""

    start: int
    end: int


class Manifest(NamedTuple):
    """One load: its number, from 1 on, and the offset ranges of its rows. The load contains the
    rows of the loads that it ``replaces``, as far as they still count. ``window`` is how its rows
    are divided, ``ids`` are the topics' ids; None and empty in old files."""

    number: int
    ranges: dict[TopicPartition, Range]
    row_count: int
    replaces: tuple[int, ...] = ()
    window: str | None = None
    ids: Mapping[str, str] = MappingProxyType({})

    def text(self) -> str:
        """The stored form, JSON."""
        topics: dict[str, dict[str, list[int]]] = {}
        for where, one in sorted(self.ranges.items()):
            topics.setdefault(where.topic, {})[str(where.partition)] = list(one)
        document = {
            "load": self.number,
            "rows": self.row_count,
            "window": self.window,
            "ids": dict(self.ids),
            "replaces": list(self.replaces),
            "offsets": topics,
        }
        return json.dumps(document, indent=2) + "\n"

    @classmethod
    def read(cls, text: str) -> Manifest:
        """Parse the stored form. Raises ValueError."""
        try:
            document = json.loads(text)
            ranges = {
                TopicPartition(topic, int(partition)): Range(int(start), int(end))
                for topic, partitions in document["offsets"].items()
                for partition, (start, end) in partitions.items()
            }
            replaces = tuple(int(number) for number in document["replaces"])
            window = None if document.get("window") is None else str(document["window"])
            ids = {str(topic): str(one) for topic, one in document.get("ids", {}).items()}
            return cls(int(document["load"]), ranges, int(document["rows"]), replaces, window, ids)
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"{FILE} is not what a load has written: {error!r}") from error


def replaced(loads: Iterable[Manifest]) -> set[int]:
    """The loads that others replace: their directories are to be deleted."""
    return {number for load in loads for number in load.replaces}


def window_of(loads: Sequence[Manifest], wanted: str | None) -> str:
    """The window of the next load: the same as before, since Spark reads only directories of one
    layout together. Raises JobRefused if another one is wanted."""
    known = {load.window for load in loads} - {None}
    before = known.pop() if known else None
    if wanted is not None and before is not None and wanted != before:
        raise JobRefused(
            f"--window {wanted}: what is there is divided by --window {before}; leave the option"
            " away, or load to another place"
        )
    return wanted or before or DEFAULT_WINDOW


def same_ids(loads: Iterable[Manifest], now: Mapping[str, str]) -> dict[str, str]:
    """The ids of all topics that were ever loaded or are loaded now. Raises JobRefused for a
    recreated topic: its offsets mean other records, even if none are missing."""
    known: dict[str, str] = {}
    for load in loads:
        known.update({topic: one for topic, one in load.ids.items() if one})
    for topic, one in now.items():
        if one and known.get(topic, one) != one:
            raise JobRefused(
                f"topic {topic!r} was deleted and created again since it was loaded; load "
                "it to another"
                " place"
            )
    return {**known, **{topic: one for topic, one in now.items() if one}}


def stored_ends(loads: Iterable[Manifest]) -> dict[TopicPartition, int]:
    """Where the next load continues, by partition."""
    ends: dict[TopicPartition, int] = {}
    for load in loads:
        for where, one in load.ranges.items():
            ends[where] = max(one.end, ends.get(where, 0))
    return ends


class Offsets(NamedTuple):
    """Present offsets by partition: the first, the end, and where to stop."""

    first: Mapping[TopicPartition, int]
    end: Mapping[TopicPartition, int]
    stop: Mapping[TopicPartition, int]


def next_ranges(
    stored: Mapping[TopicPartition, int], now: Offsets, *, may_lose: bool
) -> dict[TopicPartition, Range]:
    """The ranges to load, without empty ones.

    Raises JobRefused for records that were deleted before they were loaded, and for a partition
    that ends before what was loaded of it."""
    ranges = {}
    for where, stop in sorted(now.stop.items()):
        start = stored.get(where, now.first[where])
        if start > now.end[where]:
            raise JobRefused(
                f"topic {where.topic!r} partition {where.partition} ends at offset "
                f"{now.end[where]}, and was loaded up to {start}: it is another topic of that name;"
                " load it to another place"
            )
        if not may_lose and start < now.first[where]:
            raise JobRefused(
                f"topic {where.topic!r} partition {where.partition}: offsets {start} to "
                f"{now.first[where] - 1} are gone, and were not loaded; --allow-loss continues"
            )
        start = max(start, now.first[where])
        if stop > start:
            ranges[where] = Range(start, stop)
    return ranges


def touched(loads: Sequence[Manifest], cuts: Mapping[TopicPartition, int]) -> list[Manifest]:
    """The loads with rows at or after these offsets."""
    return [
        load
        for load in loads
        if any(one.end > cuts[where] for where, one in load.ranges.items() if where in cuts)
    ]


def merged(
    old: Iterable[Manifest], new: Mapping[TopicPartition, Range]
) -> dict[TopicPartition, Range]:
    """The ranges of a load that includes what it keeps of others."""
    ranges = dict(new)
    for load in old:
        for where, one in load.ranges.items():
            has = ranges.get(where)
            # The rest is loaded again, so the ranges touch.
            ranges[where] = (
                one if has is None else Range(min(one.start, has.start), max(one.end, has.end))
            )
    return ranges
