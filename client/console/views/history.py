"""The last hour of a topic: leaders, in-sync replicas and ends, and what has changed. Pure."""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document

HISTORY_MS = 3_600_000
STEP_MS = 2_000
MOMENTS_MAX = HISTORY_MS // STEP_MS
CHANGES_MAX = 1_000
CHANGES_SHOWN = 50
# Records in a second are those of so long before.
RATE_MS = 10_000


class SeenPartition(NamedTuple):
    """One partition at some moment; ``leader`` is -1 for none, ``end`` None if it is unknown."""

    leader: int
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    end: int | None


class TopicMoment(NamedTuple):
    """All partitions at one time of the wall clock."""

    at_ms: int
    states: Mapping[int, SeenPartition]


class TopicChange(NamedTuple):
    """What happened to a partition, as a sentence."""

    at_ms: int
    partition: int
    sentence: str


def _listed(brokers: set[int]) -> str:
    return ", ".join(map(str, sorted(brokers)))


def changes_of(old: SeenPartition, new: SeenPartition) -> list[str]:
    """What happened between two states, as sentences."""
    found = []
    if new.leader != old.leader and new.leader < 0:
        found.append("the partition has no leader")
    elif (new.leader, new.leader_epoch) != (old.leader, old.leader_epoch):
        found.append(f"broker {new.leader} leads in epoch {new.leader_epoch}")
    if gone := set(old.isr) - set(new.isr):
        found.append(f"left the ISR: {_listed(gone)}")
    if joined := set(new.isr) - set(old.isr):
        found.append(f"joined the ISR: {_listed(joined)}")
    if new.replicas != old.replicas:
        found.append(f"the replicas are {', '.join(map(str, new.replicas))}")
    if old.end is not None and new.end is not None and new.end < old.end:
        found.append(f"the end went back from {old.end} to {new.end}")
    return found


class History:
    """Moments of one topic, at most an hour; what is older is dropped."""

    def __init__(self) -> None:
        self._moments: deque[TopicMoment] = deque(maxlen=MOMENTS_MAX)
        self._changes: deque[TopicChange] = deque(maxlen=CHANGES_MAX)

    def add(self, at_ms: int, states: Mapping[int, SeenPartition]) -> None:
        """Keep a moment. One that is not later than the last one is left out: the clock jumped."""
        last = self._moments[-1] if self._moments else None
        if last is not None and at_ms <= last.at_ms:
            return
        kept = dict(states)
        for partition, new in states.items():
            old = None if last is None else last.states.get(partition)
            if old is None:
                continue
            if old == new:
                # One object for all moments between two changes.
                kept[partition] = old
            for sentence in changes_of(old, new):
                self._changes.append(TopicChange(at_ms, partition, sentence))
        self._moments.append(TopicMoment(at_ms, kept))
        while self._moments[0].at_ms < at_ms - HISTORY_MS:
            self._moments.popleft()
        while self._changes and self._changes[0].at_ms < at_ms - HISTORY_MS:
            self._changes.popleft()

    def at(self, at_ms: int) -> TopicMoment | None:
        """The last moment not after that time; the first one if there is none before."""
        moments = list(self._moments)
        if not moments:
            return None
        index = bisect_right(moments, at_ms, key=lambda one: one.at_ms)
        return moments[max(0, index - 1)]

    def document(self, now_ms: int, back_s: int) -> Document:
        """What the page shows: the moment so many seconds ago, and the changes until then."""
        moment = self.at(now_ms - back_s * 1000)
        if moment is None:
            return {"at": None, "first": None, "brokers": [], "partitions": [], "changes": []}
        brokers = {broker for one in moment.states.values() for broker in one.replicas}
        before = self.at(moment.at_ms - RATE_MS)
        changes = [one for one in self._changes if one.at_ms <= moment.at_ms]
        return {
            "at": moment.at_ms,
            "first": self._moments[0].at_ms,
            "brokers": sorted(brokers),
            "partitions": [
                {
                    "partition": partition,
                    **state._asdict(),
                    "replicas": list(state.replicas),
                    "isr": list(state.isr),
                    "per_second": _rate(partition, before, moment),
                }
                for partition, state in sorted(moment.states.items())
            ],
            "changes": [one._asdict() for one in reversed(changes[-CHANGES_SHOWN:])],
        }


def _rate(partition: int, before: TopicMoment | None, now: TopicMoment) -> float | None:
    """Records in a second between two moments; None if that is unknown."""
    if before is None or before.at_ms >= now.at_ms or partition not in before.states:
        return None
    old, new = before.states[partition].end, now.states[partition].end
    if old is None or new is None:
        return None
    return round(max(0, new - old) * 1000 / (now.at_ms - before.at_ms), 1)
