"""Clocks over virtual time: each process has its own origin, rate and idea of the date."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Timer
    from tests.simulation.world.loop import SimLoop
    from tests.simulation.world.random import SimRandom

WALL_ORIGIN_MS = 1_750_000_000_000


class SimClock:
    """``ports.Clock``. The monotonic clock drifts but never goes back; the wall clock may jump."""

    def __init__(
        self,
        loop: SimLoop,
        random: SimRandom,
        *,
        rate: float = 1.0,
        wall_offset_ms: float = 0.0,
        slack_ms: float = 0.1,
    ) -> None:
        self.rate = rate
        self.slack_ms = slack_ms
        self._loop = loop
        self._random = random
        self._born_s = loop.time()
        # An arbitrary origin per process: nothing may compare or store it across a restart.
        self._origin_ms = random.between(1_000.0, 1_000_000.0)
        self._wall_offset_ms = wall_offset_ms + self._born_s * 1_000.0 * (1.0 - rate)

    def now_ms(self) -> float:
        return self._origin_ms + (self._loop.time() - self._born_s) * 1_000.0 * self.rate

    def wall_ms(self) -> int:
        elapsed_ms = self._loop.time() * 1_000.0 * self.rate
        return WALL_ORIGIN_MS + int(elapsed_ms + self._wall_offset_ms)

    def jump_wall(self, step_ms: float) -> None:
        """Step the date, as an administrator or NTP does."""
        self._wall_offset_ms += step_ms

    def call_at(self, deadline_ms: float, callback: Callable[[], object]) -> Timer:
        """Late by a seeded slack, never early."""
        delay_s = (deadline_ms - self.now_ms()) / self.rate / 1_000.0
        slack_s = 1e-9 + self._random.random() * self.slack_ms / 1_000.0
        return self._loop.call_later(max(0.0, delay_s) + slack_s, callback)

    async def sleep(self, delay_ms: float) -> None:
        waiter = self._loop.create_future()

        def wake() -> None:
            if not waiter.done():
                waiter.set_result(None)

        timer = self.call_at(self.now_ms() + delay_ms, wake)
        try:
            await waiter
        finally:
            timer.cancel()
