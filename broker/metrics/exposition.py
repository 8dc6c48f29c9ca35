"""Families of figures, and the text form in which Prometheus reads them (version 0.0.4).

Our own sixty lines instead of the prometheus_client package: that one renders all figures in one
call, and with ten thousand partitions the event loop would stand still for a quarter of a second.
Here lines are made one by one, while they are being sent. Nor is anything registered or counted
twice: a metric is read at each scrape from the part that keeps it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

from ottla.broker.engine.histogram import Histogram
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"

Labels = tuple[str, ...]
Sample = tuple[Labels, float | Histogram]
_ESCAPES = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n"})


class Family(NamedTuple):
    """One name with all its figures. ``samples`` may be a generator; it is read once, and other
    things happen between two of its steps, so it must not walk over what may change meanwhile."""

    kind: str
    name: str
    documentation: str
    label_names: Labels
    samples: Iterable[Sample]


Collector = Callable[[], Iterable[Family]]
"""Gives the families of one part of the broker; called once for each scrape."""


def gauge(name: str, documentation: str, value: float) -> Family:
    """A figure without labels that goes up and down."""
    return Family(GAUGE, name, documentation, (), (((), value),))


def counter(name: str, documentation: str, value: float) -> Family:
    """A figure without labels that only grows; the name ends in ``_total``."""
    return Family(COUNTER, name, documentation, (), (((), value),))


def render(families: Iterable[Family]) -> Iterator[str]:
    """The lines of all families, each with its end."""
    for family in families:
        name = family.name
        yield f"# HELP {name} {family.documentation}\n# TYPE {name} {family.kind}\n"
        for values, figure in family.samples:
            labels = [
                f'{label}="{value.translate(_ESCAPES)}"'
                for label, value in zip(family.label_names, values, strict=True)
            ]
            if isinstance(figure, Histogram):
                yield from _histogram(name, labels, figure)
            else:
                yield _line(name, labels, figure)


def _histogram(name: str, labels: list[str], histogram: Histogram) -> Iterator[str]:
    count = 0
    for bound, count in histogram.buckets():
        yield _line(f"{name}_bucket", [*labels, f'le="{_number(bound)}"'], count)
    yield _line(f"{name}_sum", labels, histogram.sum_ms)
    yield _line(f"{name}_count", labels, count)


def _line(name: str, labels: list[str], value: float) -> str:
    within = f"{{{','.join(labels)}}}" if labels else ""
    return f"{name}{within} {_number(value)}\n"


def _number(value: float) -> str:
    if value == float("inf"):
        return "+Inf"
    return str(value)
