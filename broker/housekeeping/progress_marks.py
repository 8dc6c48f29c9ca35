"""What is remembered of how far logs, followers and high watermarks had come, and when. Pure.

A mark is made only where something has moved, and says between which two looks it did. All marks
together are bounded; the oldest go first, and with them the answer for older records.
"""

from __future__ import annotations

from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.protocol.ids import TopicPartition

MARKS_MAX = 50_000


class LeaderProgress(NamedTuple):
    """How far a leader and its followers are. ``ends``: log ends by node, also the leader's."""

    leader_epoch: int
    high_watermark: int
    ends: Mapping[int, int]


class ProgressMark(NamedTuple):
    """What a look found, in milliseconds since 1970; ``before_ms`` is the time of the look before,
    0 for the first look at the partition."""

    before_ms: int
    time_ms: int
    progress: LeaderProgress


class SeenBetween(NamedTuple):
    """When something happened: after a look that did not show it, and before one that did.

    ``after_ms`` is None where the first look that is remembered shows it: then it happened before,
    and it is not known any more when."""

    after_ms: int | None
    by_ms: int

    def as_json(self) -> dict[str, int | None]:
        """The form in which clients get it."""
        return {"after_ms": self.after_ms, "by_ms": self.by_ms}


class ProgressMarks:
    """The marks of the partitions that one broker leads or has led."""

    def __init__(self, node_id: int, marks_max: int = MARKS_MAX) -> None:
        self._node_id = node_id
        self._marks_max = marks_max
        self._marks: dict[TopicPartition, deque[ProgressMark]] = {}
        self._order: deque[TopicPartition] = deque()

    def __len__(self) -> int:
        return len(self._order)

    def note(self, where: TopicPartition, progress: LeaderProgress, times: tuple[int, int]) -> None:
        """Take in one look; ``times`` are those of the look before and of this one."""
        marks = self._marks.get(where)
        if marks is None:
            marks = self._marks[where] = deque()
        elif marks[-1].progress == progress:
            return
        before_ms, time_ms = times
        marks.append(ProgressMark(before_ms if len(marks) else 0, time_ms, progress))
        self._order.append(where)
        if len(self._order) > self._marks_max:
            self._drop_oldest()
        assert len(self._order) <= self._marks_max

    def _drop_oldest(self) -> None:
        where = self._order.popleft()
        marks = self._marks[where]
        marks.popleft()
        if not marks:
            del self._marks[where]

    def of(self, where: TopicPartition, offset: int) -> dict[str, object] | None:
        """When this broker, as the leader, saw the record on each replica and below the high
        watermark; None if it remembers nothing of the partition.

        A replica that did not have it at the last look is left out."""
        marks = self._marks.get(where)
        if not marks:
            return None
        nodes = sorted({node for mark in marks for node in mark.progress.ends})
        stored = {node: _first(marks, partial(_has, node, offset)) for node in nodes}
        replicas = {
            str(node): moment.as_json() for node, moment in stored.items() if moment is not None
        }
        visible = _first(marks, lambda one: one.high_watermark > offset)
        return {
            "node_id": self._node_id,
            "since_ms": marks[0].time_ms,
            "leader_epochs": sorted({mark.progress.leader_epoch for mark in marks}),
            "replicas": replicas,
            "visible": None if visible is None else visible.as_json(),
        }


def _has(node: int, offset: int, progress: LeaderProgress) -> bool:
    return progress.ends.get(node, -1) > offset


def _first(
    marks: deque[ProgressMark], holds: Callable[[LeaderProgress], bool]
) -> SeenBetween | None:
    """When it began to hold. Logs are cut after elections, so the last beginning counts."""
    found: SeenBetween | None = None
    held = False
    for number, mark in enumerate(marks):
        holds_now = holds(mark.progress)
        if holds_now and not held:
            found = SeenBetween(None if number == 0 else mark.before_ms, mark.time_ms)
        elif not holds_now:
            found = None
        held = holds_now
    return found
