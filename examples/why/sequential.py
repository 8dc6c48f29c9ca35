"""Disks: sequential writes of large blocks are far faster than small random ones.

    python -m examples.why.sequential [--quick]

A file is written three times past the page cache (O_DIRECT) and durably (O_DSYNC: each write
returns when the device has it): in order in blocks of 1 MiB, as a log is written in batches; in
order in blocks of 4 KiB; and in blocks of 4 KiB at random places. The second one tells how much of
the difference comes from the size of the writes and how much from their place. Where the file
system knows no O_DIRECT, each write is followed by fsync, and the table says so.
"""

from __future__ import annotations

import mmap
import os
import random
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table, work_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

LARGE_BYTES, SMALL_BYTES = 1 << 20, 4 << 10
SEED = 1
# Of an array of six disks with 7,200 revolutions a minute.
PUBLISHED = (("published: sequential", 300e6), ("published: random", 50e3))


class Rate(NamedTuple):
    """Of one way of writing."""

    name: str
    writes: int
    bytes_per_second: float


class Rates(NamedTuple):
    """The three ways, and how the writes became durable."""

    way: str
    sequential: Rate
    small: Rate
    random: Rate


def measure(quick: bool) -> Rates:
    """Write the file once to have its blocks, then three ways."""
    size_bytes = (16 if quick else 256) * LARGE_BYTES
    small_writes = 100 if quick else 1_000
    chance = random.Random(SEED)
    with work_folder() as folder:
        path = folder / "file"
        path.write_bytes(b"")
        places = range(0, size_bytes, LARGE_BYTES)
        with opened(path) as (descriptor, way):
            write(descriptor, LARGE_BYTES, places, way)
            large = write(descriptor, LARGE_BYTES, places, way)
            in_order = range(0, small_writes * SMALL_BYTES, SMALL_BYTES)
            small = write(descriptor, SMALL_BYTES, in_order, way)
            blocks = chance.choices(range(size_bytes // SMALL_BYTES), k=small_writes)
            anywhere = write(descriptor, SMALL_BYTES, [n * SMALL_BYTES for n in blocks], way)
    return Rates(
        way,
        Rate("in order, 1 MiB each", len(places), large),
        Rate("in order, 4 KiB each", small_writes, small),
        Rate("at random, 4 KiB each", small_writes, anywhere),
    )


@contextmanager
def opened(path: Path) -> Iterator[tuple[int, str]]:
    """A descriptor of the file, and how its writes become durable."""
    flags = os.O_WRONLY | getattr(os, "O_DSYNC", 0)
    way = "O_DIRECT and O_DSYNC"
    try:
        descriptor = os.open(path, flags | os.O_DIRECT)
    except (AttributeError, OSError):
        descriptor, way = os.open(path, flags), "fsync"
    try:
        yield descriptor, way
    finally:
        os.close(descriptor)


def write(descriptor: int, size_bytes: int, places: Iterable[int], way: str) -> float:
    """Write a block at each place; bytes per second."""
    # A mapping begins at a page, as O_DIRECT wants it.
    with mmap.mmap(-1, size_bytes) as block:
        block.write(os.urandom(size_bytes))
        began, written = time.perf_counter(), 0
        for place in places:
            written += os.pwrite(descriptor, block, place)
            if way == "fsync":
                os.fsync(descriptor)
        return written / (time.perf_counter() - began)


def show(rates: Rates) -> Shown:
    """A row for each way, and bars beside the published ones."""
    found = [rates.sequential, rates.small, rates.random]
    rows = [
        (
            one.name,
            f"{one.writes:,}",
            f"{one.bytes_per_second / 1e6:,.2f} MB/s",
            f"{rates.sequential.bytes_per_second / one.bytes_per_second:,.1f}",
        )
        for one in found
    ]
    rows += [(name, "", f"{rate / 1e6:,.2f} MB/s", "") for name, rate in PUBLISHED]
    bars = [
        Bar(one.name, one.bytes_per_second, f"{one.bytes_per_second / 1e6:,.2f} MB/s")
        for one in found
    ]
    bars += [Bar(name, rate, f"{rate / 1e6:,.2f} MB/s", 1) for name, rate in PUBLISHED]
    return Shown(
        [
            *table(["writes", "count", "rate", "times slower"], rows),
            f"Each write waited for the device: {rates.way}.",
        ],
        bar_chart("Rates of durable writes", bars, logarithmic=True),
        holds=rates.sequential.bytes_per_second > 4 * rates.random.bytes_per_second,
    )


if __name__ == "__main__":
    sys.exit(run("sequential", measure, show))
