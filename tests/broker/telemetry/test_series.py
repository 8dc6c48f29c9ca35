"""What a client's push adds to the metrics page, and how little a client can do to it."""

from __future__ import annotations

import pytest
from opentelemetry.proto.metrics.v1.metrics_pb2 import AggregationTemporality, MetricsData

from ottla.broker.metrics.exposition import COUNTER, GAUGE, Family, render
from ottla.broker.telemetry.demands import ClientIdentity
from ottla.broker.telemetry.otlp_metrics import FIGURES_MAX, read_metrics
from ottla.broker.telemetry.series import (
    SERIES_OF_CLIENT_MAX,
    ClientFigure,
    ClientSeries,
    LabelPairs,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import uuid_to_text

CLIENT = ClientIdentity(bytes([7] * 16), 'shop"1', "librdkafka", "2.16.0", "127.0.0.1", "5000")
NAME = "org.apache.kafka.producer.record.queue.time.avg"


def page(series: ClientSeries) -> list[str]:
    """The lines of the page without those of comments."""
    families = (
        Family(COUNTER if one.is_counter else GAUGE, one.name, "", one.label_names, one.samples)
        for one in series.families()
    )
    text = "".join(render(families))
    return [line for line in text.splitlines() if not line.startswith("#")]


def figure(name: str, value: float, labels: LabelPairs = ()) -> ClientFigure:
    """One gauge."""
    return ClientFigure(name, labels, value, is_counter=False, is_delta=False)


def difference(name: str, value: float, labels: LabelPairs = ()) -> ClientFigure:
    """What has been added to a counter."""
    return ClientFigure(name, labels, value, is_counter=True, is_delta=True)


def test_gauges_are_replaced_and_counters_added_up() -> None:
    """Clients send what has been added since their last push; Prometheus wants the sum."""
    series = ClientSeries()
    for value in (3, 4):
        series.take(CLIENT, [figure(NAME, value), difference("a.b", value, (("node", "1"),))])

    own = f'client_id="shop\\"1",client_instance_id="{uuid_to_text(CLIENT.instance_id)}"'
    software = 'client_software_name="librdkafka"'
    assert page(series) == [
        f'kafka_client_a_b_total{{{own},{software},node="1"}} 7.0',
        f"kafka_client_producer_record_queue_time_avg{{{own},{software}}} 4.0",
    ]


def test_a_client_cannot_write_into_the_figures_of_the_broker() -> None:
    """The page belongs to the broker: a name of the broker's would raise false alarms."""
    series = ClientSeries()
    series.take(
        CLIENT, [figure('kafka_server_x{a="b"} 1\nup', 1, (("__name__", "up"), ("1", "2")))]
    )

    (line,) = page(series)

    assert line.startswith("kafka_client_kafka_server_x_a__b___1_up{")
    assert 'label_name__="up",label_1="2"' in line or 'label_1="2",label_name__="up"' in line


def test_one_client_has_a_bounded_number_of_series() -> None:
    """Labels that differ in each push would fill the memory of broker and Prometheus."""
    series = ClientSeries()
    many = [
        figure("m", 1, (("number", str(number)),)) for number in range(SERIES_OF_CLIENT_MAX + 5)
    ]
    series.take(CLIENT, many)

    assert (len(series), series.dropped_count) == (SERIES_OF_CLIENT_MAX, 5)
    series.forget(CLIENT.instance_id)
    assert (len(series), page(series)) == (0, [])


def test_one_name_has_one_type() -> None:
    """Prometheus refuses a whole page with two types of one name."""
    series = ClientSeries()
    series.take(CLIENT, [figure("a_total", 1), difference("a", 1)])

    assert len(page(series)) == 1
    assert series.dropped_count == 1


def pushed(count: int) -> bytes:
    """A push with so many gauges and one counter."""
    data = MetricsData()
    resource = data.resource_metrics.add()
    group = resource.resource.attributes.add()
    group.key, group.value.string_value = "group_id", "g"
    other = resource.resource.attributes.add()
    other.key, other.value.string_value = "secret", "s"
    scope = resource.scope_metrics.add()
    counter = scope.metrics.add()
    counter.name = "c"
    counter.sum.is_monotonic = True
    counter.sum.aggregation_temporality = AggregationTemporality.AGGREGATION_TEMPORALITY_DELTA
    counter.sum.data_points.add().as_int = 5
    gauge = scope.metrics.add()
    gauge.name = "g"
    for number in range(count):
        point = gauge.gauge.data_points.add()
        point.as_double = number
        pair = point.attributes.add()
        pair.key, pair.value.int_value = "partition", number
    return bytes(data.SerializeToString())


def test_sums_and_gauges_are_read_with_the_labels_of_client_and_point() -> None:
    """The group of a consumer is what an operator looks for."""
    found = read_metrics(pushed(1))

    assert found == [
        ClientFigure("c", (("group_id", "g"),), 5.0, is_counter=True, is_delta=True),
        ClientFigure(
            "g", (("group_id", "g"), ("partition", "0")), 0.0, is_counter=False, is_delta=False
        ),
    ]


def test_one_push_is_read_to_a_bound_and_garbage_is_refused() -> None:
    """The event loop serves other clients as well."""
    assert len(read_metrics(pushed(FIGURES_MAX + 10))) == FIGURES_MAX
    with pytest.raises(KafkaError) as raised:
        read_metrics(b"\xff\xff\xff")
    assert raised.value.code is ErrorCode.INVALID_RECORD
