"""Page cache: a broker's memory stays flat while gigabytes pass through it.

    python -m examples.why.page_cache [--quick]

One broker in a process of its own. 5 GB are written in batches of a megabyte and read again, and
after each part the resident memory of the broker is read from /proc. The records are in the page
cache, which belongs to the kernel. A cache inside of the process would have grown by what passed.
"""

from __future__ import annotations

import sys
from typing import NamedTuple

from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import drive
from examples.why.measuring import (
    BATCH_BYTES,
    MEBIBYTE,
    PASSING,
    TOPIC,
    broker,
    end_offset,
    read_batches,
    resident_mib,
)
from examples.why.picture import Line, line_chart
from examples.why.showing import Shown, run, table

FLAT_MIB = 64
WARM_UP_REQUESTS = 32


class Sample(NamedTuple):
    """What has passed in each direction so far, and the broker's memory then."""

    written_gb: float
    read_gb: float
    resident_mib: float


def measure(quick: bool) -> list[Sample]:
    """Write some, read that, and again; the first sample is the one after the warm-up."""
    parts, requests = (10, 30) if quick else (50, 100)
    samples: list[Sample] = []
    written = read = 0
    with broker(PASSING) as started:
        frame = produce_frame(TOPIC, 0, batch_of(BATCH_BYTES, 1_000))
        drive(started, frame, requests=WARM_UP_REQUESTS, pipeline=2, connections=4)
        records = end_offset(started) // WARM_UP_REQUESTS
        samples.append(Sample(0.0, 0.0, resident_mib(started.process_id)))
        for _ in range(parts):
            first = end_offset(started)
            written += drive(
                started, frame, requests=requests, pipeline=2, connections=2
            ).sent_bytes
            offsets = range(first, first + requests * records, records)
            read += read_batches(started, offsets)
            samples.append(Sample(written / 1e9, read / 1e9, resident_mib(started.process_id)))
    return samples


def growth_mib(samples: list[Sample]) -> float:
    """Between the smallest and the largest."""
    sizes = [sample.resident_mib for sample in samples]
    return max(sizes) - min(sizes)


def show(samples: list[Sample]) -> Shown:
    """A row for each sample; memory against what has passed."""
    rows = [
        (f"{one.written_gb:.2f} GB", f"{one.read_gb:.2f} GB", f"{one.resident_mib:.1f} MiB")
        for one in samples[:: max(1, len(samples) // 10)]
    ]
    grown = growth_mib(samples)
    passed_gb = samples[-1].written_gb
    lines = [
        Line(
            "resident memory of the broker", [(one.written_gb, one.resident_mib) for one in samples]
        ),
        Line(
            f"the limit of the claim: {FLAT_MIB} MiB above the first sample",
            [(one.written_gb, samples[0].resident_mib + FLAT_MIB) for one in samples],
        ),
    ]
    return Shown(
        [
            *table(["written", "read", "resident memory"], rows),
            f"Memory changed by {grown:.1f} MiB while {passed_gb:.1f} GB came and went.",
        ],
        line_chart("Memory of the broker while records pass", lines, "GB written and read", "MiB"),
        holds=grown < FLAT_MIB
        and min(passed_gb, samples[-1].read_gb) * 1e9 > 4 * FLAT_MIB * MEBIBYTE,
    )


if __name__ == "__main__":
    sys.exit(run("page_cache", measure, show))
