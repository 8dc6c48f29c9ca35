"""The figures of docs/sizing.md are those of the measurements: operators plan by them."""

from __future__ import annotations

import json
import re

import pytest

from tests.tidy.tree import ROOT

RESULTS = ROOT / "benchmarks" / "results"
# The beginning of a row; the measurement and the name of its figure; what one unit there is here.
FIGURES = [
    ("memory, idle", "beside_kafka", "idle_resident_mb ottla", 1.0),
    ("memory for each replica", "many_partitions", "kib_per_replica", 1.0),
    ("memory after 6 GB of records", "flat_memory", "growth_mb", 1.0),
    ("memory with a group", "group_heartbeats", "resident_mb", 1.0),
    ("memory with 1,000,000", "offsets_loading", "resident_mb", 1.0),
    ("produce, batches of 1 MiB", "beside_kafka", "produce_1m_bytes_per_second ottla", 1e9),
    ("produce, batches of 16 KiB", "beside_kafka", "produce_16k_bytes_per_second ottla", 1e9),
    ("fetch, 1 MiB", "beside_kafka", "fetch_1m_bytes_per_second ottla", 1e9),
    (
        "small requests",
        "beside_kafka",
        "produce_one_record_pipelined_requests_per_second ottla",
        1.0,
    ),
    (
        "three replicas, `acks=all`",
        "beside_kafka_replicated",
        "bursts_bytes_per_second ottla",
        1e6,
    ),
    ("2,000 partitions at rest", "partitions_at_rest", "of_three_percent", 1.0),
    ("transactions", "transactions", "1_records_transactions_per_s", 1.0),
    ("start", "beside_kafka_growth", "start_up_seconds ottla", 1.0),
    ("failover", "failover_killed", "unavailable_p50_s", 1.0),
]


def rows() -> dict[str, tuple[str, str]]:
    """Of the table of a broker: subject, figure, and how it was measured."""
    text = (ROOT / "docs" / "sizing.md").read_text("utf-8")
    table = text[text.index("| what | figure |") : text.index("A broker handles its requests")]
    lines = [line.strip("| ").split(" | ") for line in table.splitlines()[2:] if line]
    return {subject: (figure, measured) for subject, figure, measured in lines}


@pytest.mark.parametrize(("subject", "measurement", "name", "unit"), FIGURES)
def test_a_figure_is_what_was_measured(
    subject: str, measurement: str, name: str, unit: float
) -> None:
    """Rounded to one or two digits; a new measurement changes the page, too."""
    (row,) = [found for key, found in rows().items() if key.startswith(subject)]
    first = re.search(r"[0-9][0-9,.]*", row[0])
    assert first is not None
    measured = json.loads((RESULTS / f"{measurement}.json").read_text("utf-8"))["figures"][name]

    assert f"`{measurement}`" in row[1]
    shown = float(first[0].rstrip(",.").replace(",", ""))
    assert shown == pytest.approx(measured / unit, rel=0.18)


def test_each_row_names_a_measurement_that_is_kept() -> None:
    """So that its machine, commit and load can be looked up."""
    named = {name for _, measured in rows().values() for name in re.findall(r"`(\w+)`", measured)}

    assert sorted(name for name in named if not (RESULTS / f"{name}.json").is_file()) == []
