"""What clients have pushed (KIP-714), and what the broker did with it.

Loaded by brokers that take metrics of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import COUNTER, GAUGE, Family, counter, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.telemetry.receiver import ClientTelemetry


def client_telemetry_families(telemetry: ClientTelemetry) -> Iterator[Family]:
    """The broker's own counts, then those of the clients."""
    series = telemetry.current_series()
    yield gauge(
        "ottla_client_telemetry_clients",
        "Clients that ask which metrics to push.",
        telemetry.client_count,
    )
    yield gauge("ottla_client_telemetry_series", "Series that clients push.", len(series))
    yield counter(
        "ottla_client_telemetry_pushes_total", "Pushes that were taken.", telemetry.push_count
    )
    yield counter(
        "ottla_client_telemetry_refusals_total",
        "Requests about metrics of clients that were answered with an error.",
        telemetry.refusal_count,
    )
    yield counter(
        "ottla_client_telemetry_dropped_total",
        "Figures of pushes that were beyond the bounds.",
        series.dropped_count,
    )
    for one in series.families():
        kind = COUNTER if one.is_counter else GAUGE
        text = "Pushed by clients (KIP-714)."
        yield Family(kind, one.name, text, one.label_names, one.samples)
