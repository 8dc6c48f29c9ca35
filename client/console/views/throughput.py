"""Records and bytes per second, of topics and of the brokers that lead them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.console.views.series import Series
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping

    from ottla.protocol.ids import TopicPartition

# Only the busiest topics have a chart; all have values.
CHARTED_TOPICS_MAX = 200


class LogMoment(NamedTuple):
    """All partitions at one time.

    Attributes:
        ends: The high watermark of each partition.
        sizes: The bytes of its leader's log.
        leaders: The id of its leader.
    """

    ends: Mapping[TopicPartition, int]
    sizes: Mapping[TopicPartition, int]
    leaders: Mapping[TopicPartition, int]


class FlowRate(NamedTuple):
    """The write rate per second."""

    records: float = 0.0
    size_bytes: float = 0.0

    def plus(self, other: FlowRate) -> FlowRate:
        """Return the sum of both rates."""
        return FlowRate(self.records + other.records, self.size_bytes + other.size_bytes)


class ThroughputHistory:
    """The latest rates, and those of the last hour for brokers and for the busiest topics."""

    def __init__(self) -> None:
        self.topics: dict[str, FlowRate] = {}
        self.brokers: dict[int, FlowRate] = {}
        self.at_ms: int | None = None
        self._last: LogMoment | None = None
        self._series: dict[Hashable, Series] = {}

    @property
    def partitions(self) -> int:
        """How many partitions are recorded."""
        return 0 if self._last is None else len(self._last.ends)

    def add(self, at_ms: int, moment: LogMoment) -> None:
        """Compare with the previous moment. A log that has become shorter counts with 0 bytes: its
        oldest records were deleted."""
        last, before_ms = self._last, self.at_ms
        if before_ms is not None and at_ms <= before_ms:
            return
        self._last, self.at_ms = moment, at_ms
        if last is None or before_ms is None:
            return
        seconds = (at_ms - before_ms) / 1000
        self.topics, self.brokers = {}, dict.fromkeys(moment.leaders.values(), FlowRate())
        for where, end in moment.ends.items():
            if where not in last.ends:
                continue
            records = max(0, end - last.ends[where]) / seconds
            size = moment.sizes.get(where, 0)
            grown = max(0, size - last.sizes.get(where, size)) / seconds
            rate = FlowRate(records, grown)
            self.topics[where.topic] = self.topics.get(where.topic, FlowRate()).plus(rate)
            leader = moment.leaders.get(where)
            if leader is not None:
                self.brokers[leader] = self.brokers[leader].plus(rate)
        self._keep(at_ms)

    def _keep(self, at_ms: int) -> None:
        kept: dict[Hashable, float] = {one: rate.records for one, rate in self.brokers.items()}
        busy = sorted(self.topics, key=lambda one: -self.topics[one].records)
        kept |= {one: self.topics[one].records for one in busy[:CHARTED_TOPICS_MAX]}
        for name in self._series.keys() - kept.keys():
            topic = self.topics.get(name) if isinstance(name, str) else None
            if topic is None or len(self._series) > 2 * CHARTED_TOPICS_MAX:
                del self._series[name]
            else:
                kept[name] = topic.records
        for name, records in kept.items():
            self._series.setdefault(name, Series()).add(at_ms, round(records))

    def points_of(self, name: Hashable) -> list[tuple[int, int]]:
        """Return the records per second of a topic (by name) or a broker (by id) over time."""
        series = self._series.get(name)
        return [] if series is None else series.points()
