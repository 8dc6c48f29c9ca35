"""The comparisons with Apache Kafka that ``python -m benchmarks`` knows."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.beside.alone import beside_kafka
from benchmarks.beside.growth import beside_kafka_growth
from benchmarks.beside.replicated import beside_kafka_replicated

if TYPE_CHECKING:
    from collections.abc import Callable

COMPARISONS: dict[str, Callable[[], dict[str, float]]] = {
    measure.__name__: measure
    for measure in (beside_kafka, beside_kafka_replicated, beside_kafka_growth)
}
