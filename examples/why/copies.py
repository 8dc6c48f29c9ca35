"""Copies: a buffered answer reads and sends each chunk, a zero-copy answer hands it to the kernel.

    python -m examples.why.copies [--quick]

Two brokers differ in ``ottla.fetch.zero.copy``. Each stores batches of 64 KiB and answers a fetch
for each of them while strace watches its system calls. Without strace the same two ways are counted
inside of one process (benchmarks/zero_copy.py).
"""

from __future__ import annotations

import asyncio
import re
import sys
from typing import TYPE_CHECKING, NamedTuple

import ottla.sync
from benchmarks import zero_copy
from benchmarks.frames import batch_of, produce_frame
from benchmarks.harness import drive
from examples.why.measuring import TOPIC, end_offset, read_batches
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table, work_folder
from tests.support.broker_process import BrokerProcess
from tests.support.tracing import can_trace

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

CHUNK_BYTES = 64 << 10
CALLS = "trace=sendfile,read,readv,pread64,preadv,preadv2,sendmsg,sendto,write,writev"
CALL = re.compile(r"\b(\w+)\(\d+<([^>]*)>.* = (\d+)$")
READS = ("read", "readv", "pread64", "preadv", "preadv2")
SENDS = ("sendmsg", "sendto", "write", "writev")
# Smaller ones look at the header of a batch, or carry the header of an answer.
LARGE_BYTES = CHUNK_BYTES // 2
COPIES_BY_DEVICES = 2


class Way(NamedTuple):
    """One way of answering: large calls for each chunk, and copies of its bytes."""

    name: str
    reads: float
    sends: float
    sendfiles: float

    @property
    def copies(self) -> float:
        """From the disk and to the network, and one for each time the bytes enter or leave the
        process."""
        return COPIES_BY_DEVICES + self.reads + self.sends


class Ways(NamedTuple):
    """Both, and how they were counted."""

    counted_by: str
    buffered: Way
    direct: Way


def measure(quick: bool) -> Ways:
    """By strace where it works, otherwise by counting."""
    chunks = 20 if quick else 200
    if not can_trace():
        classical, direct = asyncio.run(zero_copy.compare(chunks))
        crossings = classical.copies - COPIES_BY_DEVICES
        return Ways(
            "counters in the process",
            Way("buffered", crossings / 2, crossings / 2, 0.0),
            Way("zero copy", 0.0, 0.0, direct.system_calls),
        )
    return Ways("strace", traced("buffered", False, chunks), traced("zero copy", True, chunks))


def traced(name: str, is_zero_copy: bool, chunks: int) -> Way:
    """Start a broker under strace, and count the large calls for its answers."""
    options = {"ottla.fetch.zero.copy": str(is_zero_copy).lower()}
    with work_folder() as folder:
        trace = folder / "trace"
        launcher = ["strace", "-D", "-f", "-y", "-e", CALLS, "-o", str(trace)]
        with BrokerProcess(folder / "data", options=options, launcher=launcher) as broker:
            with ottla.sync.Admin(broker.address) as admin:
                admin.create_topic(ottla.NewTopic(TOPIC, 1, 1))
            frame = produce_frame(TOPIC, 0, batch_of(CHUNK_BYTES, 1_000))
            drive(broker, frame, requests=chunks, pipeline=1, connections=1)
            end = end_offset(broker)
            before = len(trace.read_text("utf-8", "replace").splitlines())
            # One batch for each fetch: it is whole, however little the fetch asks for.
            read_batches(broker, range(0, end, end // chunks), fetch_bytes_max=1)
        lines = trace.read_text("utf-8", "replace").splitlines()[before:]
    return counted(name, lines, chunks)


def counted(name: str, lines: Iterable[str], chunks: int) -> Way:
    """The large reads of the log, the large sends, and the hand-overs, for each chunk."""
    reads = sends = sendfiles = 0
    for line in lines:
        found = CALL.search(line)
        if found is None or int(found[3]) < LARGE_BYTES:
            continue
        reads += found[1] in READS and found[2].endswith(".log")
        sends += found[1] in SENDS and not found[2].endswith(".log")
        sendfiles += found[1] == "sendfile"
    return Way(name, reads / chunks, sends / chunks, sendfiles / chunks)


def show(ways: Ways) -> Shown:
    """Both ways side by side."""
    both = (ways.buffered, ways.direct)
    rows: Sequence[Sequence[object]] = [
        ("reads of the chunk", *(f"{way.reads:.2f}" for way in both)),
        ("sends of the chunk", *(f"{way.sends:.2f}" for way in both)),
        ("sendfile", *(f"{way.sendfiles:.2f}" for way in both)),
        ("copies of its bytes", *(f"{way.copies:.2f}" for way in both)),
    ]
    bars = [
        Bar(f"{way.name}: {what}", count, f"{count:.2f}", colour)
        for way in both
        for colour, (what, count) in enumerate(
            (("reads", way.reads), ("sends", way.sends), ("sendfile", way.sendfiles))
        )
    ]
    return Shown(
        [
            *table(["for each chunk of 64 KiB", *(way.name for way in both)], rows),
            f"Counted by {ways.counted_by}.",
        ],
        bar_chart("System calls that move a chunk of 64 KiB", bars),
        holds=[round(count) for count in ways.buffered[1:]] == [1, 1, 0]
        and [round(count) for count in ways.direct[1:]] == [0, 0, 1],
    )


if __name__ == "__main__":
    sys.exit(run("copies", measure, show))
