"""Log start and high watermark never go back, whichever client asks whichever broker.

An answer counts against those that were complete before it was asked for. A loss of power may take
the high watermark back, but not below what was durable. A restart may take the log start back to
what DeleteRecords has promised.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from tests.simulation.history import Watermarks

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.history import History, Partition


def check(history: History) -> list[str]:
    """Violations in words."""
    by_partition: dict[Partition, list[Watermarks]] = defaultdict(list)
    for told in history.watermarks:
        by_partition[told.partition].append(told)
    return [
        violation
        for partition, told in by_partition.items()
        for violation in _judge(history, partition, told)
    ]


def _judge(history: History, partition: Partition, told: list[Watermarks]) -> list[str]:
    found = [
        f"watermarks: {partition} starts at {one.log_start} beyond its end {one.high_watermark}"
        for one in told
        if 0 <= one.high_watermark < one.log_start
    ]
    return found + _Sweep(history, partition, told).found


class _Sweep:
    """One pass over asking, answering and losing in their order."""

    def __init__(self, history: History, partition: Partition, told: list[Watermarks]) -> None:
        self.found: list[str] = []
        self._partition = partition
        self._highest = (-1, -1)
        self._promised_start = -1
        self._bounds: dict[Watermarks, tuple[int, int]] = {}
        events: list[tuple[int, Callable[[Watermarks], object], Watermarks]] = [
            (one.asked, self._ask, one) for one in told
        ]
        events += [(one.answered, self._answer, one) for one in told]
        for loss in history.losses:
            end = loss.durable_ends.get(partition, 0)
            events.append((loss.order, self._lose, Watermarks(0, 0, partition, end, end)))
        nothing = Watermarks(0, 0, partition, -1, -1)
        events += [(order, self._restart, nothing) for order in history.restarts]
        for _, handle, one in sorted(events, key=lambda event: event[0]):
            handle(one)

    def _ask(self, one: Watermarks) -> None:
        self._bounds[one] = self._highest

    def _answer(self, one: Watermarks) -> None:
        bounds = self._bounds.pop(one, None)
        if bounds is None:
            # It was asked before a loss or a restart and may speak of either side of it.
            if one.promised:
                self._promised_start = max(self._promised_start, one.log_start)
            return
        for name, bound, now in zip(
            ("log start", "high watermark"),
            bounds,
            (one.log_start, one.high_watermark),
            strict=True,
        ):
            if 0 <= now < bound:
                self.found.append(f"watermarks: {name} of {self._partition}: {bound}, then {now}")
        start, high = self._highest
        self._highest = (max(start, one.log_start), max(high, one.high_watermark))
        if one.promised:
            self._promised_start = max(self._promised_start, one.log_start)

    def _restart(self, _: Watermarks) -> None:
        self._highest = (self._promised_start, self._highest[1])
        self._bounds.clear()

    def _lose(self, one: Watermarks) -> None:
        start, high = self._highest
        self._highest = (min(start, one.log_start), min(high, one.high_watermark))
        self._bounds.clear()
