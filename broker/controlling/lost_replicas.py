"""Decides when a controller retries replicas that brokers could not serve, or roles they refused.

A full disk refuses a new topic and is freed a minute later; a dead disk refuses for ever. The
answer does not show the difference, so the controller retries with increasing pauses.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.ports import Clock, Timer

FIRST_DELAY_MS = 2_000.0
DELAY_MAX_MS = 300_000.0


class _Alarms:
    """At most one timer per broker."""

    def __init__(self, clock: Clock, due: Callable[[int], object]) -> None:
        self._clock = clock
        self._due = due
        self._timers: dict[int, Timer] = {}

    def set(self, node_id: int, delay_ms: float) -> bool:
        """Set the timer; return False if the broker has one already."""
        if node_id in self._timers:
            return False
        due_ms = self._clock.now_ms() + delay_ms
        self._timers[node_id] = self._clock.call_at(due_ms, lambda: self._ring(node_id))
        return True

    def stop(self) -> None:
        """The controllership has ended."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()

    def _ring(self, node_id: int) -> None:
        del self._timers[node_id]
        self._due(node_id)


class LostReplicas:
    """Owned by one controllership. ``ask`` is called with a broker's id when its retry is due."""

    def __init__(self, clock: Clock, ask: Callable[[int], object]) -> None:
        self._clock = clock
        self._alarms = _Alarms(clock, ask)
        self.stop = self._alarms.stop
        self._delays: dict[int, float] = {}
        self._failed_ms: dict[int, float] = {}
        self._asked: dict[int, set[TopicPartition]] = {}

    def failed(self, node_id: int) -> None:
        """The broker cannot serve a replica, again or for the first time."""
        now_ms = self._clock.now_ms()
        last_ms = self._failed_ms.get(node_id)
        self._failed_ms[node_id] = now_ms
        delay_ms = FIRST_DELAY_MS
        if last_ms is not None and now_ms - last_ms <= 2 * DELAY_MAX_MS:
            delay_ms = min(2 * self._delays[node_id], DELAY_MAX_MS)
        if self._alarms.set(node_id, delay_ms):
            self._delays[node_id] = delay_ms

    def asked(self, node_id: int, partitions: Collection[TopicPartition]) -> None:
        """The controller asks the broker about these now."""
        self._asked[node_id] = set(partitions)

    def take_back(
        self, node_id: int, served: Iterable[TopicPartition]
    ) -> tuple[TopicPartition, ...]:
        """Return the served replicas that the broker was asked about, once per request.

        Otherwise a replica that fails only when it leads would change back and forth as fast as
        requests can be sent."""
        asked = self._asked.get(node_id)
        if not asked:
            return ()
        back = tuple(item for item in served if item in asked)
        asked.difference_update(back)
        return back


REFUSED_ROLE_RETRY_MS = 10_000.0


class RefusedRoles:
    """Owned by one controllership: the roles that each broker refused, sent again to that broker
    after a while in one request. Sending them to all brokers would double the refusals each
    time."""

    def __init__(
        self, clock: Clock, again: Callable[[int, tuple[TopicPartition, ...]], object]
    ) -> None:
        self._again = again
        self._refused: dict[int, set[TopicPartition]] = {}
        self._alarms = _Alarms(clock, self._due)
        self.stop = self._alarms.stop

    def refused(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """The broker has refused these roles."""
        self._alarms.set(node_id, REFUSED_ROLE_RETRY_MS)
        self._refused.setdefault(node_id, set()).update(partitions)

    def _due(self, node_id: int) -> None:
        self._again(node_id, tuple(sorted(self._refused.pop(node_id))))
