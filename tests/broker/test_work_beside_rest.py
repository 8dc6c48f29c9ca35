"""What a replicated record costs three brokers beside few and beside many partitions at rest."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.producer import Producer
from tests.broker.support.brokers import Brokers

if TYPE_CHECKING:
    from types import CodeType, FrameType

FEW, MANY = 10, 300
RECORDS = 60
# What time and the machine change from run to run; one loop over all at rest would add more.
GROWTH_MAX = 1.25
# What a record and the fetches of its followers pass through.
ROOMS = tuple(
    f"/ottla/broker/{room}/"
    for room in ("engine", "following", "handlers/data", "partitions", "replica")
)
# A busy machine spreads records over more requests, and looks at the ISR in between.
ATTEMPTS = 3


class Bytecodes:
    """Counts the bytecodes that each function of these rooms executes while it is entered."""

    def __init__(self) -> None:
        self.counts: Counter[CodeType] = Counter()

    def __enter__(self) -> Bytecodes:
        sys.settrace(self._on_call)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(None)

    def _on_call(self, frame: FrameType, _event: str, _argument: object) -> Any:
        if not any(room in frame.f_code.co_filename for room in ROOMS):
            return None
        frame.f_trace_lines, frame.f_trace_opcodes = False, True
        return self._on_event

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> Any:
        if event == "opcode":
            self.counts[frame.f_code] += 1
        return self._on_event


async def bytecodes_of_records(partitions: int) -> list[Counter[CodeType]]:
    """Of the same records each time, one after the other, with acks=all."""
    brokers = Brokers(3, {"replica.lag.time.max.ms": "60000"})
    await brokers.start()
    found = []
    try:
        async with (
            Admin(",".join(brokers.bootstrap)) as admin,
            Producer(",".join(brokers.bootstrap), linger_ms=0) as producer,
        ):
            await admin.create_topics([NewTopic("t", partitions, 3)])
            for index in range(partitions):
                await brokers.until_in_sync("t", 3, index)
            # Until followers have been told everything.
            await asyncio.sleep(1.5)
            for _ in range(ATTEMPTS):
                await (await producer.send("t", b"warm", partition=0))
                with Bytecodes() as seen:
                    for _ in range(RECORDS):
                        await (await producer.send("t", b"one", partition=0))
                found.append(seen.counts)
            return found
    finally:
        await brokers.stop()


@pytest.mark.parametrize("partitions", [MANY, pytest.param(1_000, marks=pytest.mark.soak)])
async def test_a_replicated_record_costs_the_same_beside_many_partitions_at_rest(
    partitions: int,
) -> None:
    """Followers and leaders looked at each partition once for each record: 3 ms of CPU time."""
    few = min(await bytecodes_of_records(FEW), key=Counter.total)
    many = min(await bytecodes_of_records(partitions), key=Counter.total)

    assert few.total() > 1_000 * RECORDS
    grown = (many - few).most_common(3)
    assert many.total() <= GROWTH_MAX * few.total(), (many.total(), few.total(), grown)
    # A leader has a third of them: a step of five bytecodes for each of those would be above.
    assert all(count < RECORDS * (partitions - FEW) for _code, count in grown), grown
