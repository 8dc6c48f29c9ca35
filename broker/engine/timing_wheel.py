"""One coarse timer for many deadlines.

Every parked request has a deadline, nearly none reaches it. A timer of the event loop costs about
1 us to make and cancel; a place in this wheel costs a tenth. Deadlines are rounded up to a tick, so
a callback is never early and at most one tick (and the loop's own delay) late. The clock is armed
only while something waits.
"""

from __future__ import annotations

from collections import deque
from heapq import heappop, heappush
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Clock, Timer

TICK_MS = 10.0


class WheelTimer:
    """One callback that is still to come; its own token."""

    __slots__ = ("_callback", "_slot", "_wheel")

    def __init__(
        self,
        wheel: TimingWheel,
        slot: dict[WheelTimer, None],
        callback: Callable[[], object],
    ) -> None:
        self._wheel = wheel
        self._slot: dict[WheelTimer, None] | None = slot
        self._callback = callback

    def cancel(self) -> None:
        """Make sure that the callback does not run. May be called at any time, repeatedly."""
        slot = self._slot
        if slot is not None:
            self._slot = None
            slot.pop(self, None)
            self._wheel._forget_one()

    def _run(self) -> None:
        if self._slot is not None:
            self._slot = None
            self._wheel._forget_one()
            self._callback()


class TimingWheel:
    """Owned by the server, one per process; given to every part that has deadlines.

    Slots are dicts, not sets: two runs of one seed must see the same order. An emptied slot stays
    until its tick, so a request that is parked and released a thousand times within one tick leaves
    one slot, not a thousand heap entries."""

    def __init__(self, clock: Clock, tick_ms: float = TICK_MS) -> None:
        assert tick_ms > 0
        self._clock = clock
        self._tick_ms = tick_ms
        self._slots: dict[int, dict[WheelTimer, None]] = {}
        self._ticks: list[int] = []
        self._overdue: deque[WheelTimer] = deque()
        self._armed_tick: int | None = None
        self._timer: Timer | None = None
        self._count = 0

    @property
    def count(self) -> int:
        """Callbacks still to come."""
        return self._count

    @property
    def is_armed(self) -> bool:
        """Whether the clock will call; False whenever nothing waits."""
        return self._timer is not None

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> WheelTimer:
        """Run the callback soon after the deadline, never before it and never from in here."""
        tick = int(-(-deadline_ms // self._tick_ms))
        slot = self._slots.get(tick)
        if slot is None:
            slot = self._slots[tick] = {}
            heappush(self._ticks, tick)
        timer = WheelTimer(self, slot, callback)
        slot[timer] = None
        self._count += 1
        if self._armed_tick is None or tick < self._armed_tick:
            self._arm(tick)
        return timer

    def close(self) -> None:
        """Drop everything that is still to come."""
        for slot in list(self._slots.values()):
            for timer in list(slot):
                timer.cancel()
        for timer in list(self._overdue):
            timer.cancel()
        assert self._count == 0

    def _arm(self, tick: int) -> None:
        self._disarm()
        self._armed_tick = tick
        self._timer = self._clock.call_at(tick * self._tick_ms, self._turn)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._armed_tick = None

    def _forget_one(self) -> None:
        self._count -= 1
        assert self._count >= 0
        if self._count == 0:
            self._disarm()
            self._slots.clear()
            self._ticks.clear()
            self._overdue.clear()

    def _turn(self) -> None:
        self._timer = None
        self._armed_tick = None
        now_ms = self._clock.now_ms()
        while self._ticks and self._ticks[0] * self._tick_ms <= now_ms:
            self._overdue.extend(self._slots.pop(heappop(self._ticks)))
        try:
            while self._overdue:
                self._overdue.popleft()._run()
        finally:
            # A callback that raises must not take the others' deadlines with it.
            self._rearm()

    def _rearm(self) -> None:
        if self._overdue:
            self._arm(int(self._clock.now_ms() // self._tick_ms))
        elif self._count and (self._armed_tick is None or self._ticks[0] < self._armed_tick):
            self._arm(self._ticks[0])
