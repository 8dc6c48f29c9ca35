"""Plans what a query reads next, from its progress and the cluster's offsets. Pure.

Losses are returned as sentences; the caller decides whether they end the query.
"""

from __future__ import annotations

import heapq
import itertools
from typing import TYPE_CHECKING

from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.ranges import OffsetRange
from ottla.client.spark.errors import name_of
from ottla.client.spark.offsets import Bound, Offsets, QueryOffsets
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.protocol.ids import TopicPartition


class Limits(NamedTuple):
    """The first offset and the end offset of each partition."""

    firsts: Offsets
    lasts: Offsets


class ResolvedOffsets(NamedTuple):
    """Offsets, and the records lost before them."""

    offsets: Offsets
    losses: list[str]


def check_named(bound: Bound, partitions: Iterable[TopicPartition]) -> None:
    """Raise ValueError unless offsets or times by partition cover exactly these partitions: the
    user has not chosen where to read any other one."""
    named = bound.offsets if bound.times is None else bound.times
    if named is None:
        return
    read = set(partitions)
    text = f"the option {bound.option} has to name exactly the partitions that are read"
    missing, unknown = sorted(read - set(named)), sorted(set(named) - read)
    if missing:
        raise ValueError(f"{text}, and {name_of(missing[0])} is missing")
    if unknown:
        raise ValueError(f"{text}, and {name_of(unknown[0])} is not among them")


def start_of(
    bound: Bound, limits: Limits, found: Offsets, *, late_is_latest: bool
) -> ResolvedOffsets:
    """Where to begin. ``found`` has, for times, the first offset at or after them, -1 if there is
    none, which is an error unless ``late_is_latest``. Raises ValueError."""
    offsets, losses = _resolved(bound, limits, found)
    for where, offset in found.items():
        if offset < 0 and not late_is_latest:
            raise ValueError(
                f"{name_of(where)} has no record as late as the option {bound.option} says; with "
                "startingOffsetsByTimestampStrategy 'latest' it is read from its end"
            )
    return ResolvedOffsets(offsets, losses)


def end_of(bound: Bound, limits: Limits, found: Offsets) -> ResolvedOffsets:
    """Where to end; at the end of the log if no record is that late."""
    return _resolved(bound, limits, found)


def _resolved(bound: Bound, limits: Limits, found: Offsets) -> ResolvedOffsets:
    offsets: Offsets = {}
    losses = []
    for where, last in limits.lasts.items():
        first = limits.firsts[where]
        if where in found:
            offset = found[where] if found[where] >= 0 else last
        elif bound.offsets is None:
            offset = first if bound.time == EARLIEST_TIMESTAMP else last
        else:
            offset = bound.offsets[where]
            if offset == EARLIEST_TIMESTAMP:
                offset = first
            elif offset == LATEST_TIMESTAMP:
                offset = last
            elif not first <= offset <= last:
                losses.append(
                    f"the option {bound.option} names offset {offset} of {name_of(where)}, which "
                    f"has the offsets {first} to {last} only"
                )
        offsets[where] = min(max(offset, first), last)
    return ResolvedOffsets(offsets, losses)


def ranges_between(starts: Offsets, ends: Offsets) -> list[OffsetRange]:
    """The ranges of a batch query. Raises ValueError for a start beyond the end."""
    for where, start in starts.items():
        if start > ends[where]:
            raise ValueError(
                f"{name_of(where)} would be read from offset {start} to {ends[where]}: the start "
                "lies beyond the end"
            )
    return [OffsetRange(where, starts[where], ends[where]) for where in sorted(starts)]


def advanced(
    place: QueryOffsets, limits: Limits, topic_ids: Mapping[str, str]
) -> tuple[QueryOffsets, list[str]]:
    """Advance to the end of the logs; also returns the losses. ``limits.firsts`` is needed only for
    new partitions (see ``new_at``)."""
    losses = _missing(place, limits, topic_ids)
    begins: Offsets = {}
    for where in new_at(place, limits.lasts, topic_ids):
        begins[where] = limits.firsts[where]
        if begins[where] > 0 and where not in place.offsets:
            losses.append(f"{name_of(where)} is new and begins at offset {begins[where]} only")
    for where, last in limits.lasts.items():
        offset = place.offsets.get(where, 0)
        if where not in begins and last < offset:
            losses.append(
                f"{name_of(where)} ends at offset {last}, and the query had come to {offset}"
            )
            begins[where] = last
    for where, offset in place.offsets.items():
        # Nothing has been read of it yet, so its beginning is stored only here.
        if where in limits.lasts and place.begins.get(where) == offset:
            begins.setdefault(where, offset)
    known = {name: text for name, text in topic_ids.items() if text}
    return QueryOffsets(dict(limits.lasts), begins, known, place.query_id), losses


def _missing(place: QueryOffsets, limits: Limits, topic_ids: Mapping[str, str]) -> list[str]:
    losses = [
        f"{name_of(where)} does not exist any more"
        for where in sorted(place.offsets)
        if where not in limits.lasts
    ]
    return losses + [
        f"topic {name!r} was deleted and created again"
        for name in sorted(topic_ids)
        if is_other(place, name, topic_ids)
    ]


def is_beyond(place: QueryOffsets, lasts: Offsets) -> bool:
    """Whether the query has passed these ends."""
    return any(lasts.get(where, -1) < offset for where, offset in place.offsets.items())


def is_other(place: QueryOffsets, topic: str, topic_ids: Mapping[str, str]) -> bool:
    """Whether the topic was recreated since it was read; older clusters have no ids."""
    known, now = place.topic_ids.get(topic), topic_ids.get(topic)
    return bool(known) and bool(now) and known != now


def new_at(
    place: QueryOffsets, partitions: Iterable[TopicPartition], topic_ids: Mapping[str, str]
) -> list[TopicPartition]:
    """The partitions that the query has not read yet."""
    return [
        where
        for where in partitions
        if where not in place.offsets or is_other(place, where.topic, topic_ids)
    ]


def starts_of(start: QueryOffsets, end: QueryOffsets) -> Offsets:
    """Where the batch between two places begins in each partition."""
    return {
        where: end.begins.get(where, start.offsets.get(where, 0)) for where in sorted(end.offsets)
    }


def cut(start: QueryOffsets, end: QueryOffsets, limit: int) -> QueryOffsets:
    """Limit a batch to about ``limit`` offsets, divided in proportion to what each partition has.
    Each nonempty partition gets at least one: a short partition must not wait for the long ones."""
    starts = starts_of(start, end)
    sizes = {where: end.offsets[where] - offset for where, offset in starts.items()}
    total = sum(sizes.values())
    if total <= limit:
        return end
    shares = {where: min(size, max(1, limit * size // total)) for where, size in sizes.items()}
    excess = sum(shares.values()) - limit
    for where in sorted(shares, key=lambda where: -shares[where]):
        if excess <= 0:
            break
        surplus = min(excess, max(0, shares[where] - 1))
        shares[where] -= surplus
        excess -= surplus
    return end._replace(offsets={where: starts[where] + share for where, share in shares.items()})


def ranges_of(start: QueryOffsets, end: QueryOffsets) -> list[OffsetRange]:
    """The ranges of a micro-batch. Raises ValueError for a backward one: Spark does not check."""
    if start == end:
        return []
    return ranges_between(starts_of(start, end), end.offsets)


def split(
    ranges: Sequence[OffsetRange], min_partitions: int | None, max_records: int | None
) -> list[OffsetRange]:
    """Divide ranges among tasks: a partition, or a part of one. Empty ranges are left out."""
    parts = {one: 1 for one in ranges if one.start < one.stop}
    if max_records is not None:
        parts = {one: -(-_size(one) // max_records) for one in parts}
    missing = min(min_partitions or 0, sum(map(_size, parts))) - sum(parts.values())
    # Split the range with the largest parts once more.
    longest = [(-_size(one) / count, one) for one, count in parts.items()]
    heapq.heapify(longest)
    for _ in range(missing):
        one = longest[0][1]
        parts[one] += 1
        heapq.heapreplace(longest, (-_size(one) / parts[one], one))
    return [piece for one, count in parts.items() for piece in _pieces(one, count)]


def _size(one: OffsetRange) -> int:
    return one.stop - one.start


def _pieces(one: OffsetRange, count: int) -> list[OffsetRange]:
    edges = [one.start + _size(one) * number // count for number in range(count + 1)]
    return [
        OffsetRange(one.partition, start, stop)
        for start, stop in itertools.pairwise(edges)
        if start < stop
    ]
