"""Parses the metrics of a push: OpenTelemetry's MetricsData in protobuf. Needs ottla[otel].

Sums and gauges are stored; histograms and summaries, which no known client pushes, are counted as
dropped. Pure.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from ottla.broker.telemetry.series import ClientFigure
from ottla.protocol.errors import ErrorCode, KafkaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from opentelemetry.proto.common.v1.common_pb2 import KeyValue
    from opentelemetry.proto.metrics.v1.metrics_pb2 import Metric, NumberDataPoint

    from ottla.broker.telemetry.series import LabelPairs

# Resource attributes that become a label of each of the client's figures.
_OF_RESOURCE = ("group_id", "group_member_id", "transactional_id", "client_rack")
# One push must not block the event loop for long.
FIGURES_MAX = 2_000


def read_metrics(data: bytes) -> list[ClientFigure]:
    """Return the figures of a push, at most ``FIGURES_MAX``. Raises KafkaError(INVALID_RECORD)."""
    try:
        parsed = MetricsData.FromString(data)
    except DecodeError as error:
        raise KafkaError(ErrorCode.INVALID_RECORD, f"no MetricsData: {error}") from None
    found: list[ClientFigure] = []
    for resource in parsed.resource_metrics:
        common = tuple(
            pair for pair in _pairs(resource.resource.attributes) if pair[0] in _OF_RESOURCE
        )
        for scope in resource.scope_metrics:
            for metric in scope.metrics:
                for figure in _figures(metric, common):
                    if len(found) >= FIGURES_MAX:
                        return found
                    found.append(figure)
    return found


def _figures(metric: Metric, common: LabelPairs) -> Iterator[ClientFigure]:
    kind = metric.WhichOneof("data")
    if kind == "gauge":
        for point in metric.gauge.data_points:
            yield _figure(metric.name, point, common, (False, False))
    elif kind == "sum":
        delta = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
        is_counter = metric.sum.is_monotonic
        is_delta = metric.sum.aggregation_temporality == delta
        for point in metric.sum.data_points:
            yield _figure(metric.name, point, common, (is_counter, is_delta))


def _figure(
    name: str, point: NumberDataPoint, common: LabelPairs, kind: tuple[bool, bool]
) -> ClientFigure:
    value = point.as_double if point.WhichOneof("value") == "as_double" else point.as_int
    return ClientFigure(name, common + _pairs(point.attributes), float(value), *kind)


def _pairs(attributes: Iterable[KeyValue]) -> LabelPairs:
    return tuple((one.key, _text(one)) for one in attributes)


def _text(attribute: KeyValue) -> str:
    kind = attribute.value.WhichOneof("value")
    return "" if kind is None else str(getattr(attribute.value, kind))
