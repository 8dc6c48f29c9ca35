"""A clock for expiry that stands still while the process is stalled.

While the event loop is blocked, or the process is stopped, heartbeats accumulate in socket buffers.
Afterwards every deadline has passed, and expiring members before reading their heartbeats would
evict a healthy group (hazards G-09, P-02). So time in which the broker read no requests does not
count against members, and some time is added to read what has arrived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.coordinator.effects import Moment

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Clock, Timer

TICK_MS = 200.0
# Up to this delay the loop is only busy, and still reads its sockets between timers.
STALL_MS = 500.0
# How long the clock stands still after a stall: some turns of the loop, to read what has arrived.
GRACE_MS = 100.0


class StallClock:
    """Owned by the server. ``now_ms`` never decreases; call ``start`` before relying on it.

    The first ``now_ms`` after a stall detects it: no timer has to run before."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._stalled_ms = 0.0
        self._expected_ms: float | None = None
        self._last_ms = 0.0
        self._timer: Timer | None = None
        self.stall_count = 0
        # Whether the wall clock may decide what expires (hazard S-18).
        self.trusts_wall: Callable[[], bool] = lambda: True

    def start(self) -> None:
        """Start watching the loop. May be called again."""
        if self._timer is None:
            self._tick()

    def stop(self) -> None:
        """Stop watching; the clock then runs like any other."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self._expected_ms = None

    def now_ms(self) -> float:
        """Monotonic milliseconds without the stalls."""
        real_ms = self._clock.now_ms()
        if self._expected_ms is not None:
            late_ms = real_ms - self._expected_ms
            if late_ms > STALL_MS:
                self.stall_count += 1
                self._stalled_ms += late_ms + GRACE_MS
                # Counted once: the tick that is late, too, must not count the same stall again.
                self._expected_ms = real_ms + TICK_MS
        self._last_ms = max(self._last_ms, real_ms - self._stalled_ms)
        return self._last_ms

    def moment(self) -> Moment:
        """Return the current time in the machines' form."""
        return Moment(self.now_ms(), self._clock.wall_ms(), self.trusts_wall())

    def real_ms(self, deadline_ms: float) -> float:
        """Convert a time of this clock to the real clock, assuming no stall until then."""
        return deadline_ms + self._stalled_ms

    def _tick(self) -> None:
        self.now_ms()
        next_ms = self._clock.now_ms() + TICK_MS
        self._expected_ms = next_ms
        self._timer = self._clock.call_at(next_ms, self._tick)
