"""Offsets as JSON: those that users write, and those that a query's checkpoint keeps. Pure.

Both are ``{"topic": {"0": 17}}``, as Spark's connector has it. What the checkpoint needs beside
the offsets stands under ``$``, which is no name of a topic, and is passed over in what users write:
so what a query shows as its progress can be given to another as its start.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.settings.spelling import one_of
from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

Offsets = dict[TopicPartition, int]

ENDS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}
BESIDE = "$"


class Bound(NamedTuple):
    """Where to begin or to end. One is set: ``time`` for all partitions, ``offsets`` or ``times``
    for each. A time is in ms since 1970; -2 and -1 are the ends of the log, among offsets too."""

    option: str
    time: int | None = None
    offsets: Offsets | None = None
    times: Offsets | None = None

    @property
    def is_latest(self) -> bool:
        """Whether it is the end of some log."""
        return LATEST_TIMESTAMP in self._all

    @property
    def is_earliest(self) -> bool:
        """Whether it is the beginning of some log."""
        return EARLIEST_TIMESTAMP in self._all

    @property
    def _all(self) -> set[int | None]:
        return {self.time, *(self.offsets or {}).values()}

    def time_of(self, partition: TopicPartition) -> int | None:
        """What has to be looked up for that partition: a time in ms, None where it is no time."""
        time = self.time if self.times is None else self.times[partition]
        return None if time is None or time < 0 else time


class Place(NamedTuple):
    """Where a query is: what is read of each partition, and what explains it.

    ``begins`` has the first offset of those partitions that the batch which ends here is the first
    to read: the start of a query is nowhere else, and must be the same when its first batch is
    repeated after a crash. ``topic_ids`` tell a topic from another of the same name."""

    offsets: Offsets
    begins: Offsets
    topic_ids: dict[str, str]
    query_id: str

    def as_json(self) -> dict[str, Any]:
        """For Spark, which keeps it in the checkpoint."""
        beside = {"id": self.query_id, "topics": self.topic_ids, "begins": nested(self.begins)}
        return {**nested(self.offsets), BESIDE: beside}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Place:
        """From Spark, which has turned the keys into text."""
        beside = found.get(BESIDE, {})
        return cls(
            flat({topic: parts for topic, parts in found.items() if topic != BESIDE}),
            flat(beside.get("begins", {})),
            dict(beside.get("topics", {})),
            str(beside.get("id", "")),
        )


def nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Ordered, so that equal offsets are equal text: Spark compares that."""
    found: dict[str, dict[str, int]] = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return found


def flat(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The other way."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, parts in found.items()
        for partition, offset in parts.items()
    }


def ends_of(option: str, text: str) -> int:
    """``earliest`` or ``latest``, as a special timestamp."""
    one_of(f"the option {option}", text.lower(), ENDS)
    return ENDS[text.lower()]


def offsets_of(option: str, text: str) -> Offsets:
    """What a user wrote; -2 is the beginning and -1 the end. Raises ValueError."""
    return _numbers(option, text, -2, '{"topic": {"0": 17, "1": -2}}')


def times_of(option: str, text: str) -> Offsets:
    """What a user wrote. Raises ValueError."""
    return _numbers(option, text, 0, '{"topic": {"0": 1700000000000}}')


def partitions_of(option: str, text: str) -> tuple[TopicPartition, ...]:
    """What a user wrote. Raises ValueError."""
    example = '{"topic": [0, 1]}'
    found = []
    for topic, parts in _object(option, text, example).items():
        if not isinstance(parts, list) or not all(_is_number(part, 0) for part in parts):
            raise _malformed(option, text, example)
        found += [TopicPartition(topic, part) for part in parts]
    if not found:
        raise ValueError(f"the option {option} names no partition")
    return tuple(sorted(set(found)))


def _numbers(option: str, text: str, least: int, example: str) -> Offsets:
    found = {}
    for topic, parts in _object(option, text, example).items():
        if topic == BESIDE:
            continue
        if not isinstance(parts, dict):
            raise _malformed(option, text, example)
        for partition, number in parts.items():
            if not partition.isdecimal() or not _is_number(number, least):
                raise _malformed(option, text, example)
            found[TopicPartition(topic, int(partition))] = number
    return found


def _object(option: str, text: str, example: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        raise _malformed(option, text, example) from None
    if not isinstance(found, dict):
        raise _malformed(option, text, example)
    return found


def _is_number(value: object, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def _malformed(option: str, text: str, example: str) -> ValueError:
    return ValueError(f"the option {option} is JSON such as {example}, not {text!r}")
