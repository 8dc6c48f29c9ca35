"""How late the event loop runs what is due: everything in a broker waits for that long.

A timer that asks for its turn and looks when it got it. It costs one timer a quarter second, and
runs only on brokers that serve metrics.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.engine.histogram import Histogram
from ottla.broker.metrics.exposition import HISTOGRAM, Family, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.ports import Clock, Timer

INTERVAL_MS = 250.0


class LoopDelay:
    """Owned by the HTTP pages; ``start`` and ``stop`` once each."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._timer: Timer | None = None
        self._due_ms = 0.0
        self.delays = Histogram()
        self.last_ms = 0.0

    def start(self) -> None:
        self._due_ms = self._clock.now_ms() + INTERVAL_MS
        self._timer = self._clock.call_at(self._due_ms, self._tick)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def families(self) -> Iterator[Family]:
        """The delays so far, and the last one."""
        yield Family(
            HISTOGRAM,
            "ottla_event_loop_delay_ms",
            "Milliseconds that a due timer had to wait for its turn.",
            (),
            (((), self.delays),),
        )
        yield gauge(
            "ottla_event_loop_last_delay_ms",
            "Milliseconds that the latest due timer had to wait.",
            self.last_ms,
        )

    def _tick(self) -> None:
        self.last_ms = max(0.0, self._clock.now_ms() - self._due_ms)
        self.delays.observe(self.last_ms)
        self.start()
