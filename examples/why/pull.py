"""Pull: a slow consumer has no effect on the others. A broker that pushes has to choose a victim.

    python -m examples.why.pull [--quick]

On a real broker a fast consumer reads all that is produced, first alone, then beside slow consumers
that ask for a batch and hardly read the answer. The program compares what the fast one got, what it
cost the broker, and the broker's memory. Beside it a simulation shows the three things that a
broker which pushes can do about a slow consumer.
"""

from __future__ import annotations

import socket
import sys
from collections import deque
from contextlib import ExitStack
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.frames import batch_of, fetch_frame, produce_frame
from benchmarks.harness import cpu_seconds, drive
from examples.why.measuring import (
    BATCH_BYTES,
    TOPIC,
    broker,
    end_offset,
    read_batches,
    resident_mib,
)
from examples.why.picture import Bar, bar_chart
from examples.why.showing import Shown, run, table

if TYPE_CHECKING:
    from tests.support.broker_process import BrokerProcess

SLOW_CONSUMERS = 8
SIP_BYTES = 1_024
PRODUCED_PER_TICK, SLOW_PER_TICK, TICKS, QUEUE_MAX = 10, 1, 1_000, 100
WAIT, KEEP, DROP = "wait for the slow one", "keep a queue for it", "drop what it misses"


class Pulled(NamedTuple):
    """Of some rounds: megabytes, and milliseconds of the broker in the cheapest round."""

    kind: str
    produced_mb: float
    fast_mb: float
    slow_mb: float
    cpu_ms: float
    growth_mib: float


class Pushed(NamedTuple):
    """What came of the records if the broker pushes. The longest queue was in its memory."""

    policy: str
    produced: int
    fast: int
    slow: int
    lost: int
    longest_queue: int


class Both(NamedTuple):
    """The real broker that is asked, and the simulated ones that push."""

    alone: Pulled
    beside: Pulled
    pushed: list[Pushed]


def measure(quick: bool) -> Both:
    """Both parts."""
    alone, beside = pull(*((4, 10) if quick else (20, 24)))
    return Both(alone, beside, [push(policy) for policy in (WAIT, KEEP, DROP)])


def pull(rounds: int, requests: int) -> tuple[Pulled, Pulled]:
    """Produce and read in rounds, alone, and beside the slow consumers."""
    with broker() as started, ExitStack() as stack:
        # The first round loads code, and is not counted.
        produce_and_read(started, requests)
        alone = read_in_rounds("alone", started, [], rounds, requests)
        slow = [stack.enter_context(ask(started)) for _ in range(SLOW_CONSUMERS)]
        beside = read_in_rounds(
            f"beside {SLOW_CONSUMERS} slow ones", started, slow, rounds, requests
        )
    return alone, beside


def ask(started: BrokerProcess) -> socket.socket:
    """A consumer that has asked for the first batch."""
    connection = socket.create_connection(("127.0.0.1", started.port))
    connection.sendall(fetch_frame(TOPIC, 0, 0, BATCH_BYTES))
    return connection


def read_in_rounds(
    kind: str, started: BrokerProcess, slow: list[socket.socket], rounds: int, requests: int
) -> Pulled:
    """Let the slow ones take a sip between the rounds."""
    memory = resident_mib(started.process_id)
    produced = fast = sipped = 0
    costs_s = []
    for _ in range(rounds):
        before = cpu_seconds(started.process_id)
        sent, read = produce_and_read(started, requests)
        costs_s.append(cpu_seconds(started.process_id) - before)
        produced, fast = produced + sent, fast + read
        sipped += sum(len(one.recv(SIP_BYTES)) for one in slow)
    growth = resident_mib(started.process_id) - memory
    return Pulled(kind, produced / 1e6, fast / 1e6, sipped / 1e6, 1_000 * min(costs_s), growth)


def produce_and_read(started: BrokerProcess, requests: int) -> tuple[int, int]:
    """Bytes that were produced, and bytes that the fast consumer got of them."""
    frame = produce_frame(TOPIC, 0, batch_of(BATCH_BYTES, 1_000))
    first = end_offset(started)
    sent = drive(started, frame, requests=requests, pipeline=1, connections=2).sent_bytes
    end = end_offset(started)
    return sent, read_batches(started, range(first, end, (end - first) // requests))


def push(policy: str) -> Pushed:
    """A broker that pushes to a fast and to a slow consumer, tick by tick."""
    queue: deque[int] = deque()
    produced = fast = slow = lost = longest_queue = 0
    for _ in range(TICKS):
        for _ in range(PRODUCED_PER_TICK):
            is_full = len(queue) >= QUEUE_MAX
            if is_full and policy == WAIT:
                # Neither the fast consumer nor the producer goes on.
                break
            produced += 1
            fast += 1
            if is_full and policy == DROP:
                lost += 1
            else:
                queue.append(produced)
        longest_queue = max(longest_queue, len(queue))
        for _ in range(min(SLOW_PER_TICK, len(queue))):
            queue.popleft()
            slow += 1
    return Pushed(policy, produced, fast, slow, lost, longest_queue)


def show(both: Both) -> Shown:
    """The real rounds, then the simulated policies."""
    pulled = (both.alone, both.beside)
    rows = [
        (
            f"fast consumer {one.kind}",
            f"{one.produced_mb:.1f} MB",
            f"{one.fast_mb:.1f} MB",
            f"{one.slow_mb:.2f} MB",
            f"{one.cpu_ms:.1f} ms",
            f"{one.growth_mib:.1f} MiB",
        )
        for one in pulled
    ]
    offered = PRODUCED_PER_TICK * TICKS
    bars = [
        Bar(f"pull, {one.kind}", one.fast_mb / one.produced_mb, f"{one.fast_mb:,.0f} MB", 0)
        for one in pulled
    ]
    bars += [
        Bar(f"push: {one.policy}", one.fast / offered, figure, 1)
        for one, figure in zip(
            both.pushed,
            (
                f"{both.pushed[0].fast:,} of {offered:,}",
                f"all; {both.pushed[1].longest_queue:,} queued",
                f"all; {both.pushed[2].lost:,} lost",
            ),
            strict=True,
        )
    ]
    head = ["pull", "produced", "fast got", "slow got", "broker a round", "memory grew by"]
    return Shown(
        [
            *table(head, rows),
            "",
            *table(["push (simulated)", *Pushed._fields[1:]], both.pushed),
        ],
        bar_chart("What the fast consumer gets", bars),
        holds=all(one.fast_mb > 0.99 * one.produced_mb for one in pulled)
        and both.beside.slow_mb < both.beside.produced_mb / 100
        and both.beside.growth_mib < both.beside.produced_mb / 4,
    )


if __name__ == "__main__":
    sys.exit(run("pull", measure, show))
