"""How late the event loop of a measured broker is."""

from __future__ import annotations

import asyncio
import time

SAMPLE_S = 0.001


class Lateness:
    """How much later than asked for the loop calls back, in milliseconds."""

    def __init__(self) -> None:
        self.samples: list[float] = []
        # CPU time of this whole process between two measurements: its own part in the delay, on a
        # machine that others use as well.
        self.own: list[float] = []
        self._used = time.process_time()
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        self._due = 0.0

    def start(self) -> None:
        # The loop's own clock may count whole milliseconds.
        self._due = time.perf_counter() + SAMPLE_S
        self._loop.call_later(SAMPLE_S, self._tick)

    def _tick(self) -> None:
        self.samples.append(1000 * (time.perf_counter() - self._due))
        used = time.process_time()
        self.own.append(1000 * (used - self._used))
        self._used = used
        if not self._is_over:
            self.start()

    def stop(self) -> None:
        self._is_over = True


def percentile(samples: list[float], share: float) -> float:
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
