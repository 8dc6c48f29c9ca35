"""The text form, as its description by Prometheus wants it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from ottla.broker.engine.histogram import BOUNDS_MS, Histogram
from ottla.broker.metrics.exposition import COUNTER, GAUGE, HISTOGRAM, Family, gauge, render

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.metrics.exposition import Sample


def _text(*families: Family) -> str:
    return "".join(render(families))


def test_a_family_has_its_meaning_its_kind_and_a_line_for_each_figure() -> None:
    """Names and labels are what dashboards and alerts are written against."""
    samples = [(("orders", "0"), 12), (("orders", "1"), 2.5)]
    family = Family(COUNTER, "records_total", "Records.", ("topic", "partition"), samples)

    assert _text(gauge("brokers", "Live brokers.", 3), family) == (
        "# HELP brokers Live brokers.\n"
        "# TYPE brokers gauge\n"
        "brokers 3\n"
        "# HELP records_total Records.\n"
        "# TYPE records_total counter\n"
        'records_total{topic="orders",partition="0"} 12\n'
        'records_total{topic="orders",partition="1"} 2.5\n'
    )


def test_a_label_cannot_break_out_of_its_quotes() -> None:
    """A group may be called anything; one odd name must not make the whole page unreadable."""
    family = Family(GAUGE, "lag", "Lag.", ("group",), [(('a"b\\c\nd',), 1)])

    assert _text(family).splitlines()[-1] == 'lag{group="a\\"b\\\\c\\nd"} 1'


def test_a_label_too_many_is_a_mistake_of_ours() -> None:
    """Silently dropped it would merge two figures into one."""
    with pytest.raises(ValueError, match="zip"):
        _text(Family(GAUGE, "lag", "Lag.", ("group",), [(("a", "b"), 1)]))


def test_a_histogram_counts_up_to_each_bound() -> None:
    """Quantiles are computed from buckets that include all the smaller ones."""
    times = Histogram()
    for value_ms in (0.1, 0.2, 3, 3, 60_000):
        times.observe(value_ms)

    lines = _text(Family(HISTOGRAM, "ms", "Times.", ("api",), [(("Fetch",), times)])).splitlines()

    found = {line.rsplit(" ", 1)[0]: float(line.rsplit(" ", 1)[1]) for line in lines[2:]}
    assert found['ms_bucket{api="Fetch",le="0.1"}'] == 1
    assert found['ms_bucket{api="Fetch",le="0.25"}'] == 2
    assert found['ms_bucket{api="Fetch",le="2.5"}'] == 2
    assert found['ms_bucket{api="Fetch",le="5"}'] == 4
    assert found['ms_bucket{api="Fetch",le="10000"}'] == 4
    assert found['ms_bucket{api="Fetch",le="+Inf"}'] == 5
    assert found['ms_count{api="Fetch"}'] == 5
    assert found['ms_sum{api="Fetch"}'] == pytest.approx(60_006.3)
    assert len(found) == len(BOUNDS_MS) + 3
    assert times.count == 5


def test_figures_are_made_one_by_one() -> None:
    """Rendering ten thousand partitions in one step would block all requests meanwhile."""
    made = []

    def samples() -> Iterator[Sample]:
        for number in range(3):
            made.append(number)
            yield (str(number),), number

    lines = render([Family(GAUGE, "n", "N.", ("n",), samples())])
    next(lines)
    next(lines)

    assert made == [0]
