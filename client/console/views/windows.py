"""Computes the offsets that a page of records reads, and where the next page begins. Pure."""

from __future__ import annotations

import heapq
from typing import TYPE_CHECKING

from ottla.client.console.views.asked import BadRequest, whole_number
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.client.records.consumer_record import ConsumerRecord

Places = dict[int, int]
"""An offset of each partition."""
Placed = tuple[int, "ConsumerRecord[bytes, bytes]"]
"""A partition and a record in it."""


class RecordWindow(NamedTuple):
    """The offsets of one partition from ``start`` up to ``stop``, exclusive."""

    partition: int
    start: int
    stop: int


def read_places(name: str, text: str) -> Places:
    """Parse ``0:123,4:56``: partitions and offsets. Raises BadRequest."""
    places: Places = {}
    for item in filter(None, text.split(",")):
        partition, colon, offset = item.partition(":")
        if not colon:
            raise BadRequest(f"{name} is of the form PARTITION:OFFSET,PARTITION:OFFSET")
        places[whole_number(name, partition)] = whole_number(name, offset)
    return places


def places_text(places: Mapping[int, int]) -> str:
    """Return the text that ``read_places`` parses."""
    return ",".join(f"{partition}:{offset}" for partition, offset in sorted(places.items()))


def forward(limits: Mapping[int, tuple[int, int]], starts: Mapping[int, int]) -> list[RecordWindow]:
    """Return windows from these offsets, or the first ones, to the end of each partition."""
    return [
        RecordWindow(partition, min(max(starts.get(partition, first), first), end), end)
        for partition, (first, end) in sorted(limits.items())
    ]


def backward(
    limits: Mapping[int, tuple[int, int]], before: Mapping[int, int], records: int
) -> list[RecordWindow]:
    """Return the last offsets before some places, or the ends; about that many in all partitions
    together.

    Longer partitions get the offsets that a short one does not have."""
    stops = {
        partition: min(max(before.get(partition, end), first), end)
        for partition, (first, end) in limits.items()
    }
    windows = []
    left = records
    by_length = sorted(limits, key=lambda partition: stops[partition] - limits[partition][0])
    for index, partition in enumerate(by_length):
        share = -(-left // (len(by_length) - index))
        start = max(limits[partition][0], stops[partition] - max(share, 0))
        windows.append(RecordWindow(partition, start, stops[partition]))
        left -= stops[partition] - start
    return sorted(windows)


def newest_first(found: Iterable[Placed], limit: int) -> list[Placed]:
    """Sort the newest records by timestamp, those of one partition by offset."""
    rows: dict[int, list[Placed]] = {}
    for partition, record in found:
        rows.setdefault(partition, []).append((partition, record))
    ordered = [sorted(one, key=lambda row: -row[1].offset) for one in rows.values()]
    merged = heapq.merge(*ordered, key=lambda row: -row[1].timestamp)
    return [row for row, _ in zip(merged, range(limit), strict=False)]


def older_places(
    windows: Sequence[RecordWindow], found: Sequence[Placed], kept: Sequence[Placed]
) -> Places:
    """Return where the page of older records ends: before the oldest shown record if some were left
    out, otherwise before the window."""
    matched, shown = _offsets_by_partition(found), _offsets_by_partition(kept)
    places = {}
    for window in windows:
        offsets = shown.get(window.partition, [])
        is_cut = len(offsets) < len(matched.get(window.partition, []))
        if not is_cut:
            places[window.partition] = window.start
        else:
            places[window.partition] = min(offsets, default=window.stop)
    return places


def _offsets_by_partition(rows: Sequence[Placed]) -> dict[int, list[int]]:
    offsets: dict[int, list[int]] = {}
    for partition, record in rows:
        offsets.setdefault(partition, []).append(record.offset)
    return offsets


def has_older(limits: Mapping[int, tuple[int, int]], places: Mapping[int, int]) -> bool:
    """Whether any partition has offsets before those places."""
    return any(places.get(partition, first) > first for partition, (first, _end) in limits.items())


def has_newer(limits: Mapping[int, tuple[int, int]], places: Mapping[int, int]) -> bool:
    """Whether any partition has offsets from those places on."""
    return any(places.get(partition, end) < end for partition, (_first, end) in limits.items())
