"""The last hour of partitions: leaders, in-sync replicas, end offsets and changes. Pure.

A partition has an entry for each change, so partitions at rest take no space. If many partitions
change all the time, entries that differ only in offsets are kept less often.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

from ottla.client.console.views.history_changes import broker_changes, partition_changes
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document
    from ottla.client.console.views.history_changes import SeenBrokers, SeenPartition
    from ottla.protocol.ids import TopicPartition

HISTORY_MS = 3_600_000
STEP_MS = 2_000
MOMENTS_MAX = HISTORY_MS // STEP_MS
# Limit of entries of all partitions: about 20 MB.
ENTRIES_MAX = 40_000
CHANGES_MAX = 1_000
CHANGES_SHOWN = 50
# Rates are computed over this time.
RATE_MS = 10_000
_TRIM = 64


class TopicChange(NamedTuple):
    """A change, as a sentence; ``topic`` and ``partition`` are None for the cluster."""

    at_ms: int
    topic: str | None
    partition: int | None
    sentence: str


class ClusterMoment(NamedTuple):
    """All recorded partitions and the brokers at one time."""

    states: Mapping[TopicPartition, SeenPartition]
    brokers: SeenBrokers


class StateTimeline:
    """The states of one partition, each with the time when it was first seen."""

    __slots__ = ("_at_ms", "_states")

    def __init__(self) -> None:
        self._at_ms: list[int] = []
        self._states: list[SeenPartition] = []

    def __len__(self) -> int:
        return len(self._at_ms)

    @property
    def last(self) -> SeenPartition | None:
        """The newest state."""
        return self._states[-1] if self._states else None

    def add(self, at_ms: int, state: SeenPartition, keep_ms: float) -> None:
        """Add a state unless it equals the previous one. A state that differs only in offsets
        replaces the last one until ``keep_ms`` have passed since the one before that."""
        last = self.last
        if last == state:
            return
        is_soon = len(self._at_ms) > 1 and at_ms - self._at_ms[-2] < keep_ms
        if last is not None and is_soon and last.roles == state.roles == self._states[-2].roles:
            self._at_ms[-1] = at_ms
            self._states[-1] = state
        else:
            self._at_ms.append(at_ms)
            self._states.append(state)

    def forget(self, before_ms: int) -> None:
        """Drop entries that were replaced before that time; a few may stay."""
        left = bisect_right(self._at_ms, before_ms) - 1
        if left >= _TRIM:
            self.drop(left)

    def drop(self, count: int) -> None:
        """Drop the oldest entries, except for the last one."""
        count = min(count, len(self._at_ms) - 1)
        del self._at_ms[:count]
        del self._states[:count]

    def at(self, at_ms: int) -> tuple[int, SeenPartition] | None:
        """Return the entry that was valid at that time; None before the first one."""
        index = bisect_right(self._at_ms, at_ms) - 1
        return (self._at_ms[index], self._states[index]) if index >= 0 else None


class History:
    """Moments of some partitions, at most an hour; older ones are dropped."""

    def __init__(self, entries_max: int = ENTRIES_MAX) -> None:
        self._entries_max = entries_max
        self._moments: deque[int] = deque(maxlen=MOMENTS_MAX)
        self._changes: deque[TopicChange] = deque(maxlen=CHANGES_MAX)
        self._timelines: dict[TopicPartition, StateTimeline] = {}
        self._brokers: SeenBrokers | None = None
        self.keep_ms = 0.0

    @property
    def entries(self) -> int:
        """The number of stored states."""
        return sum(map(len, self._timelines.values()))

    @property
    def partitions(self) -> int:
        """How many partitions are recorded."""
        return len(self._timelines)

    @property
    def first_ms(self) -> int | None:
        """When the recording began, or an hour before the last moment."""
        return self._moments[0] if self._moments else None

    @property
    def last_change(self) -> TopicChange | None:
        """The newest change."""
        return self._changes[-1] if self._changes else None

    def add(self, at_ms: int, moment: ClusterMoment) -> None:
        """Add a moment. A moment that is not later than the last one is ignored: the clock
        jumped."""
        if self._moments and at_ms <= self._moments[-1]:
            return
        if self._brokers is not None:
            for sentence in broker_changes(self._brokers, moment.brokers):
                self._changes.append(TopicChange(at_ms, None, None, sentence))
        self._brokers = moment.brokers
        self.keep_ms = HISTORY_MS * len(moment.states) / self._entries_max
        for where, new in moment.states.items():
            timeline = self._timelines.setdefault(where, StateTimeline())
            old = timeline.last
            timeline.add(at_ms, new, self.keep_ms)
            for sentence in () if old is None else partition_changes(old, new):
                self._changes.append(TopicChange(at_ms, *where, sentence))
        for gone in self._timelines.keys() - moment.states.keys():
            del self._timelines[gone]
        self._moments.append(at_ms)
        self._forget(at_ms - HISTORY_MS)

    def _forget(self, before_ms: int) -> None:
        while self._moments[0] < before_ms:
            self._moments.popleft()
        while self._changes and self._changes[0].at_ms < before_ms:
            self._changes.popleft()
        for timeline in self._timelines.values():
            timeline.forget(before_ms)
        if self.entries > 2 * self._entries_max:
            # Roles change all the time: drop the older half.
            for timeline in self._timelines.values():
                timeline.drop(len(timeline) // 2)

    def moment_at(self, at_ms: int) -> int | None:
        """The time of the last moment not after that time; the first one if there is none before;
        None without any."""
        moments = list(self._moments)
        if not moments:
            return None
        return moments[max(0, bisect_right(moments, at_ms) - 1)]

    def states_at(self, at_ms: int) -> dict[TopicPartition, SeenPartition]:
        """The states of all partitions at that time."""
        found = {where: timeline.at(at_ms) for where, timeline in self._timelines.items()}
        return {where: entry[1] for where, entry in found.items() if entry is not None}

    def rate_at(self, where: TopicPartition, at_ms: int) -> float | None:
        """Return the records per second before that time; None if unknown."""
        timeline = self._timelines[where]
        new, old = timeline.at(at_ms), timeline.at(at_ms - RATE_MS)
        if new is None or old is None or new[1].end is None or old[1].end is None:
            return None
        since_ms = max(old[0], at_ms - RATE_MS) if self.keep_ms <= RATE_MS else old[0]
        elapsed_ms = max(1, (at_ms if self.keep_ms <= RATE_MS else new[0]) - since_ms)
        return round(max(0, new[1].end - old[1].end) * 1000 / elapsed_ms, 1)

    def changes_until(self, at_ms: int) -> list[Document]:
        """Return the last changes until then, the latest first."""
        found = [one for one in self._changes if one.at_ms <= at_ms]
        return [one._asdict() for one in reversed(found[-CHANGES_SHOWN:])]
