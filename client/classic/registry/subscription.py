"""A member's subscription as stored in its znode: the form of 0.7 and the JSON form. Pure."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from ottla.client.classic.registry.layout import RegistryLayout
from ottla.client.classic.registry.topic_filter import TopicFilter, blacklist, whitelist
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

STATIC, WHITE, BLACK = "static", "white_list", "black_list"
# How 0.7 writes a filter: the mark, the number of streams, the mark, the expression.
_FILTER_07 = re.compile(r"([*!])(\d+)\1(\S*)")
_MARKS = {True: "*", False: "!"}


class TopicCount(NamedTuple):
    """Numbers of streams: by topic, or for all topics of a filter."""

    streams: Mapping[str, int]
    filter: TopicFilter | None = None
    excludes_internal: bool = True

    def streams_of(self, topics: Iterable[str]) -> dict[str, int]:
        """Return the number of streams of each topic; ``topics`` are all existing ones."""
        if self.filter is None:
            return dict(self.streams)
        count = next(iter(self.streams.values()))
        chosen = self.filter.chosen(topics, excludes_internal=self.excludes_internal)
        return dict.fromkeys(chosen, count)


def static(streams: Mapping[str, int]) -> TopicCount:
    """Return a subscription by topic. Raises ValueError unless each topic has at least one
    stream."""
    if not streams:
        raise ValueError("no topic is named: give at least one, as {'orders': 1}")
    for topic, count in streams.items():
        _check_count(count, f"topic {topic!r}")
    return TopicCount(dict(streams))


def filtered(chosen: TopicFilter, count: int, *, excludes_internal: bool = True) -> TopicCount:
    """Return a subscription by filter. Raises ValueError for fewer than one stream."""
    _check_count(count, "a filter")
    return TopicCount({chosen.regex: count}, chosen, excludes_internal)


def _check_count(count: object, what: str) -> None:
    if not isinstance(count, int) or isinstance(count, bool) or count < 1:
        raise ValueError(f"{what} has at least one stream, not {count!r}")


def build(count: TopicCount, layout: RegistryLayout, wall_ms: int) -> bytes:
    """Return the value of a member's znode."""
    if layout is RegistryLayout.V07:
        if count.filter is None:
            return _json(dict(count.streams))
        mark = _MARKS[count.filter.is_whitelist]
        return f"{mark}{next(iter(count.streams.values()))}{mark}{count.filter.regex}".encode()
    pattern = STATIC
    if count.filter is not None:
        pattern = WHITE if count.filter.is_whitelist else BLACK
    value = {"version": 1, "subscription": dict(count.streams), "pattern": pattern}
    return _json({**value, "timestamp": str(wall_ms)})


def parse(data: bytes) -> TopicCount | None:
    """Parse the value of a znode, in both forms; None if it has neither form."""
    text = data.decode("utf-8", "replace").strip()
    if found := _FILTER_07.fullmatch(text):
        return _parsed_filter(found[3], int(found[2]), found[1] == "*")
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if not isinstance(value, dict):
        return None
    pattern = value.get("pattern")
    if not isinstance(pattern, str):
        return _parsed_counts(value)
    subscription = value.get("subscription")
    if not isinstance(subscription, dict):
        return None
    if pattern == STATIC:
        return _parsed_counts(subscription)
    counts = _parsed_counts(subscription)
    if counts is None or pattern not in (WHITE, BLACK):
        return None
    regex, count = next(iter(counts.streams.items()))
    return _parsed_filter(regex, count, pattern == WHITE)


def _parsed_counts(value: Mapping[str, Any]) -> TopicCount | None:
    try:
        return static({str(name): int(count) for name, count in value.items()})
    except (ValueError, TypeError):
        return None


def _parsed_filter(regex: str, count: int, is_whitelist: bool) -> TopicCount | None:
    try:
        return filtered(whitelist(regex) if is_whitelist else blacklist(regex), count)
    except ValueError:
        return None


def _json(value: Mapping[str, object]) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()
