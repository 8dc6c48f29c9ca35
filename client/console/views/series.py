"""Values over the last hour, in limited memory, and their small charts. Pure."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.console.views.asked import Document
    from ottla.protocol.ids import TopicPartition

HISTORY_MS = 3_600_000
# A value that comes sooner replaces the previous one.
POINT_MS = 10_000
CHART_WIDTH, CHART_HEIGHT = 240, 48
# Limit of partitions of one group; above it only the sum is kept.
PARTITIONS_KEPT_MAX = 500


class Series:
    """One value over time: at most one point in ten seconds, for an hour."""

    __slots__ = ("_at_ms", "_values")

    def __init__(self) -> None:
        self._at_ms = array("q")
        self._values = array("q")

    def __len__(self) -> int:
        return len(self._at_ms)

    def add(self, at_ms: int, value: int) -> None:
        """Add a value, and drop those older than an hour."""
        if self._at_ms and at_ms <= self._at_ms[-1]:
            return
        if len(self._at_ms) > 1 and at_ms - self._at_ms[-2] < POINT_MS:
            self._at_ms[-1] = at_ms
            self._values[-1] = value
        else:
            self._at_ms.append(at_ms)
            self._values.append(value)
        old = bisect_left(self._at_ms, at_ms - HISTORY_MS)
        del self._at_ms[:old]
        del self._values[:old]

    def points(self) -> list[tuple[int, int]]:
        """Return pairs of time and value."""
        return list(zip(self._at_ms, self._values, strict=True))


class LagHistory:
    """The lag of each partition of a group, and their sum."""

    def __init__(self) -> None:
        self.total = Series()
        self._by_partition: dict[TopicPartition, Series] = {}

    @property
    def partitions(self) -> int:
        """How many partitions are recorded."""
        return len(self._by_partition)

    def add(self, at_ms: int, lags: Mapping[TopicPartition, int | None]) -> None:
        """Add the lags of one time; None for unknown ones."""
        known = {where: lag for where, lag in lags.items() if lag is not None}
        if known or not lags:
            self.total.add(at_ms, sum(known.values()))
        for where, lag in known.items():
            series = self._by_partition.get(where)
            if series is None and len(self._by_partition) < PARTITIONS_KEPT_MAX:
                series = self._by_partition[where] = Series()
            if series is not None:
                series.add(at_ms, lag)
        for gone in self._by_partition.keys() - lags.keys():
            del self._by_partition[gone]

    def of(self, where: TopicPartition) -> list[tuple[int, int]]:
        """Return the lag of one partition over time."""
        series = self._by_partition.get(where)
        return [] if series is None else series.points()


def chart_of(points: list[tuple[int, int]], what: str) -> Document | None:
    """Return a chart as a line in a box of ``CHART_WIDTH`` by ``CHART_HEIGHT``; None with fewer
    than two points.

    ``what``: what the values are, for visitors who cannot see the chart."""
    if len(points) < 2:
        return None
    first_ms, last_ms = points[0][0], points[-1][0]
    highest = max(value for _at_ms, value in points)
    inner = CHART_HEIGHT - 4
    places = []
    for at_ms, value in points:
        x = (at_ms - first_ms) * CHART_WIDTH / (last_ms - first_ms)
        y = 2 + inner - (inner * value / highest if highest else 0)
        places.append(f"{x:.1f},{y:.1f}")
    minutes = max(1, round((last_ms - first_ms) / 60_000))
    return {
        "points": " ".join(places),
        "highest": highest,
        "sentence": f"{what} in the last {minutes} min: from {points[0][1]} to {points[-1][1]}, "
        f"at most {highest}",
    }
