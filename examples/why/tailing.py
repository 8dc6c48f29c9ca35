"""Tailing: a consumer that keeps up causes no reads from the disk.

    python -m examples.why.tailing [--quick]

A producer sends batches of a megabyte, and a consumer fetches each of them right away. The kernel
counts what the broker process reads from and writes to devices (/proc/PID/io), and what the device
does for all processes (/proc/diskstats, which iostat shows, too). Afterwards the program removes
the records from the page cache and reads them once more, to show that reads would be counted.
"""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import drive
from examples.why.measuring import (
    BATCH_BYTES,
    TOPIC,
    broker,
    device_bytes,
    end_offset,
    read_batches,
    segments,
    traffic,
)
from examples.why.picture import Line, line_chart
from examples.why.showing import Shown, run, table

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess

FLUSHING = {"log.flush.interval.ms": "1000"}


class Second(NamedTuple):
    """A part of the run: megabytes of the broker's records, and of the whole device."""

    at_s: float
    produced_mb: float
    consumed_mb: float
    broker_read_mb: float
    broker_written_mb: float
    device_read_mb: float
    device_written_mb: float


class Tailing(NamedTuple):
    """Both halves: at the end of the log, and from a log that is in no cache."""

    parts: list[Second]
    cold_consumed_mb: float
    cold_read_mb: float

    def total(self, field: str) -> float:
        found: list[float] = [getattr(part, field) for part in self.parts]
        return sum(found)


def measure(quick: bool) -> Tailing:
    """Produce and consume in step, then read everything from the disk."""
    parts, requests = (8, 8) if quick else (40, 50)
    frame = produce_frame(TOPIC, 0, batch_of(BATCH_BYTES, 1_000))
    with broker(FLUSHING) as started:
        # The first requests load code, which is read from the disk, too.
        drive(started, frame, requests=2, pipeline=1, connections=1)
        records = end_offset(started) // 2
        read_batches(started, [0])
        found: list[Second] = []
        began = time.monotonic()
        for _ in range(parts):
            before, device = traffic(started.process_id), device_bytes(started.data_dir)
            first = end_offset(started)
            sent = drive(started, frame, requests=requests, pipeline=1, connections=2).sent_bytes
            read = read_batches(started, range(first, first + requests * records, records))
            used = traffic(started.process_id).since(before)
            after = device_bytes(started.data_dir) or (0, 0)
            elapsed = time.monotonic() - began
            shared = [now - then for now, then in zip(after, device or (0, 0), strict=True)]
            sizes = [sent, read, used.device_read_bytes, used.device_written_bytes, *shared]
            found.append(Second(elapsed, *(size / 1e6 for size in sizes)))
        cold = read_cold(started, records)
    return Tailing(found, *cold)


def read_cold(started: BrokerProcess, records: int) -> tuple[float, float]:
    """Take the segments out of the page cache and read all batches: megabytes that were answered,
    and megabytes that the broker got from a device for it."""
    for path in segments(started):
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    before = traffic(started.process_id)
    answered = read_batches(started, range(0, end_offset(started), records))
    return answered / 1e6, traffic(started.process_id).since(before).device_read_bytes / 1e6


def show(tailing: Tailing) -> Shown:
    """Totals of both halves, and the course of the first one."""
    consumed, read = tailing.total("consumed_mb"), tailing.total("broker_read_mb")
    written = tailing.total("broker_written_mb")
    rows = [
        ("broker, consumer at the end", consumed, read, written),
        (
            "whole device meanwhile",
            "",
            tailing.total("device_read_mb"),
            tailing.total("device_written_mb"),
        ),
        ("broker, nothing in the cache", tailing.cold_consumed_mb, tailing.cold_read_mb, ""),
    ]
    cells = [
        (name, *(f"{one:,.1f} MB" if isinstance(one, float) else one for one in row))
        for name, *row in rows
    ]

    def course(name: str, field: str) -> Line:
        total, points = 0.0, [(0.0, 0.0)]
        for part in tailing.parts:
            total += getattr(part, field)
            points.append((part.at_s, total))
        return Line(name, points)

    lines = [
        course("fetched by the consumer", "consumed_mb"),
        course("read from the device by the broker", "broker_read_mb"),
        course("written to the device, by all processes", "device_written_mb"),
    ]
    return Shown(
        table(["", "fetched", "read from device", "written"], cells),
        line_chart("A consumer at the end of the log", lines, "seconds", "MB so far"),
        holds=read < consumed / 50
        and written > consumed / 2
        and tailing.cold_read_mb > tailing.cold_consumed_mb / 2,
    )


if __name__ == "__main__":
    sys.exit(run("tailing", measure, show))
