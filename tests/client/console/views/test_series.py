"""Numbers over time stay within bounds, and their charts have words."""

from __future__ import annotations

from itertools import pairwise

from ottla.client.console.views.series import (
    CHART_HEIGHT,
    CHART_WIDTH,
    HISTORY_MS,
    PARTITIONS_KEPT_MAX,
    LagHistory,
    Series,
    chart_of,
)
from ottla.client.console.views.throughput import FlowRate, LogMoment, ThroughputHistory
from ottla.protocol.ids import TopicPartition

WHERE = TopicPartition("t", 0)


def test_an_hour_of_points_about_ten_seconds_apart_is_kept() -> None:
    """However often numbers come, and for however long."""
    series = Series()
    for second in range(0, 10_000, 2):
        series.add(second * 1000, second)
    points = series.points()

    assert len(points) <= HISTORY_MS / 8_000 + 2
    assert points[-1] == (9_998_000, 9_998)
    assert points[0][0] >= 9_998_000 - HISTORY_MS
    assert max(new - old for (old, _), (new, _) in pairwise(points)) <= 12_000


def test_lags_are_kept_by_partition_and_summed() -> None:
    """An unknown lag is left out; a partition that is gone is forgotten."""
    history, other = LagHistory(), TopicPartition("t", 1)
    history.add(0, {WHERE: 5, other: None})
    history.add(20_000, {WHERE: 7, other: 3})
    history.add(40_000, {other: 1})

    assert history.total.points() == [(0, 5), (20_000, 10), (40_000, 1)]
    assert history.of(WHERE) == []
    assert history.of(other) == [(20_000, 3), (40_000, 1)]


def test_a_group_of_many_partitions_keeps_only_some_of_them() -> None:
    """The sum counts all."""
    history = LagHistory()
    history.add(0, {TopicPartition("t", number): 1 for number in range(2 * PARTITIONS_KEPT_MAX)})

    assert history.partitions == PARTITIONS_KEPT_MAX
    assert history.total.points() == [(0, 2 * PARTITIONS_KEPT_MAX)]


def test_a_chart_is_a_line_in_its_box_with_a_sentence() -> None:
    """For eyes, and for a screen reader."""
    chart = chart_of([(0, 0), (60_000, 50), (120_000, 25)], "Lag of a")

    assert chart is not None
    places = [[float(part) for part in one.split(",")] for one in chart["points"].split()]
    assert places[0] == [0, CHART_HEIGHT - 2]
    assert places[1] == [CHART_WIDTH / 2, 2]
    assert places[2] == [CHART_WIDTH, CHART_HEIGHT / 2]
    assert chart["sentence"] == "Lag of a in the last 2 min: from 0 to 25, at most 50"
    assert chart_of([(0, 1)], "x") is None
    flat = chart_of([(0, 0), (1, 0)], "x")
    assert flat is not None
    assert flat["highest"] == 0


def _moment(end: int, size: int, leader: int = 1) -> LogMoment:
    other = TopicPartition("u", 0)
    return LogMoment({WHERE: end, other: 5}, {WHERE: size, other: 10}, {WHERE: leader, other: 2})


def test_rates_are_those_between_two_moments() -> None:
    """By topic, and by the broker that leads."""
    history = ThroughputHistory()
    history.add(0, _moment(100, 1_000))
    assert not history.topics
    history.add(2_000, _moment(300, 5_000))

    assert history.topics == {"t": FlowRate(100, 2_000), "u": FlowRate()}
    assert history.brokers == {1: FlowRate(100, 2_000), 2: FlowRate()}
    history.add(4_000, _moment(300, 1_000))
    assert history.topics["t"] == FlowRate()
    assert history.points_of("t") == [(2_000, 100), (4_000, 0)]
    assert history.points_of(1) == [(2_000, 100), (4_000, 0)]
    assert history.points_of("none") == []


def test_only_the_busiest_of_many_topics_have_charts() -> None:
    """Ten thousand topics must not take memory for a chart each."""
    history = ThroughputHistory()
    for step in range(20):
        ends = {TopicPartition(f"t{n}", 0): step * (n + step) % 997 for n in range(1_000)}
        history.add(step * 10_000, LogMoment(ends, {}, {}))

    assert len(history.topics) == 1_000
    assert len(history._series) <= 600
