"""Summarizes measurements of ``ottla perf`` as text and as JSON. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cli.output import json_document
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MEGABYTE = 1_000_000
SHARES = (("p50", 0.5), ("p99", 0.99), ("p999", 0.999))


class Figures(NamedTuple):
    """One measurement; ``latencies_ms`` are unordered, and empty if none were measured."""

    kind: str
    topic: str
    records: int
    value_bytes: int
    seconds: float
    latencies_ms: Sequence[float] = ()


def percentile(ordered: Sequence[float], share: float) -> float:
    """The percentile: the smallest value that at least ``share`` of all do not exceed."""
    assert ordered
    assert 0 < share <= 1
    # Rounded first: 0.99 * 100 is a little more than 99.
    rank = -int(-round(share * len(ordered), 6) // 1)
    return ordered[max(0, rank - 1)]


def summary(latencies_ms: Sequence[float]) -> dict[str, float]:
    """Average, percentiles and maximum, in ms."""
    ordered = sorted(latencies_ms)
    found = {"average": sum(ordered) / len(ordered)}
    found.update((name, percentile(ordered, share)) for name, share in SHARES)
    found["max"] = ordered[-1]
    return {name: round(value, 3) for name, value in found.items()}


def as_document(figures: Figures) -> str:
    """The measurement as a JSON object."""
    seconds = max(figures.seconds, 1e-9)
    document: dict[str, object] = {
        "kind": figures.kind,
        "topic": figures.topic,
        "records": figures.records,
        "bytes": figures.value_bytes,
        "seconds": round(figures.seconds, 4),
        "records_per_second": round(figures.records / seconds, 1),
        "mb_per_second": round(figures.value_bytes / MEGABYTE / seconds, 3),
    }
    if figures.latencies_ms:
        document["latency_ms"] = summary(figures.latencies_ms)
    return json_document(document)


def as_text(figures: Figures) -> str:
    """The measurement as text of at most two lines."""
    seconds = max(figures.seconds, 1e-9)
    lines = [
        f"{figures.kind}: {figures.records:,} records in {figures.seconds:.2f} s: "
        f"{figures.records / seconds:,.0f} records/s, "
        f"{figures.value_bytes / MEGABYTE / seconds:,.2f} MB/s\n"
    ]
    if figures.latencies_ms:
        found = summary(figures.latencies_ms)
        lines.append(
            f"latency: average {found['average']:.2f} ms, p50 {found['p50']:.2f}, p99 "
            f"{found['p99']:.2f}, p99.9 {found['p999']:.2f}, max {found['max']:.2f}\n"
        )
    return "".join(lines)
