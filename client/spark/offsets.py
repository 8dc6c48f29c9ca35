"""Reads and writes offsets as JSON, for options and for checkpoints. Pure.

Both are ``{"topic": {"0": 17}}``, as in Spark's connector. The checkpoint's other data is under
``$``, which is not a valid topic name, and which options ignore: so the progress that a query shows
can be given to another as its start.
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
    """A start or an end. One field is set: ``time`` for all partitions, ``offsets`` or ``times`` by
    partition. A time is in ms since 1970; -2 and -1 are the ends of the log, among offsets too."""

    option: str
    time: int | None = None
    offsets: Offsets | None = None
    times: Offsets | None = None

    @property
    def is_latest(self) -> bool:
        """Whether it contains the end of a log."""
        return LATEST_TIMESTAMP in self._all

    @property
    def is_earliest(self) -> bool:
        """Whether it contains the beginning of a log."""
        return EARLIEST_TIMESTAMP in self._all

    @property
    def _all(self) -> set[int | None]:
        return {self.time, *(self.offsets or {}).values()}

    def time_of(self, partition: TopicPartition) -> int | None:
        """The time in ms to look up for that partition; None if it is not a time."""
        time = self.time if self.times is None else self.times[partition]
        return None if time is None or time < 0 else time


class QueryOffsets(NamedTuple):
    """The progress of a query: the offset of each partition, and its context.

    ``begins`` has the first offsets of partitions that the batch which ends here reads for the
    first time: the start of a query is stored nowhere else, and must be the same when its first
    batch is repeated after a crash. ``topic_ids`` distinguish recreated topics of the same name."""

    offsets: Offsets
    begins: Offsets
    topic_ids: dict[str, str]
    query_id: str

    def as_json(self) -> dict[str, Any]:
        """The form that Spark stores in the checkpoint."""
        beside = {"id": self.query_id, "topics": self.topic_ids, "begins": nested(self.begins)}
        return {**nested(self.offsets), BESIDE: beside}

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> QueryOffsets:
        """Parse Spark's form, whose keys are text."""
        beside = found.get(BESIDE, {})
        return cls(
            flat({topic: parts for topic, parts in found.items() if topic != BESIDE}),
            flat(beside.get("begins", {})),
            dict(beside.get("topics", {})),
            str(beside.get("id", "")),
        )


def nested(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as nested dicts, sorted: Spark compares their text."""
    found: dict[str, dict[str, int]] = {}
    for where in sorted(offsets):
        found.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return found


def flat(found: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The inverse of ``nested``."""
    return {
        TopicPartition(topic, int(partition)): int(offset)
        for topic, parts in found.items()
        for partition, offset in parts.items()
    }


def ends_of(option: str, text: str) -> int:
    """The special timestamp for ``earliest`` or ``latest``."""
    one_of(f"the option {option}", text.lower(), ENDS)
    return ENDS[text.lower()]


def offsets_of(option: str, text: str) -> Offsets:
    """Parse offsets of an option; -2 is the beginning and -1 the end. Raises ValueError."""
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
