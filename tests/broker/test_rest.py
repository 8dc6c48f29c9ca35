"""What brokers do while nothing happens: as much for many partitions as for few."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from typing import TYPE_CHECKING

from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from tests.broker.support.brokers import Brokers

if TYPE_CHECKING:
    from types import CodeType, FrameType

FEW, MANY = 10, 200
# Long enough for a look at the ISR and for checkpoints, of each several.
WATCHED_S = 2.5
SETTINGS = {"replica.high.watermark.checkpoint.interval.ms": "1000"}


class Calls:
    """Counts the calls of each Python function of this tree while it is entered."""

    def __init__(self) -> None:
        self.counts: Counter[CodeType] = Counter()

    def __enter__(self) -> Calls:
        sys.setprofile(self._on_event)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)

    def _on_event(self, frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and "ottla" in frame.f_code.co_filename:
            self.counts[frame.f_code] += 1


async def calls_at_rest(partitions: int) -> Counter[CodeType]:
    """Of three brokers in this process that replicate so many partitions."""
    brokers = Brokers(3, SETTINGS)
    await brokers.start()
    try:
        async with Admin(",".join(brokers.bootstrap)) as admin:
            await admin.create_topics([NewTopic("t", partitions, 3)])
        for index in range(partitions):
            await brokers.until_in_sync("t", 3, index)
        # Until followers have been told everything, and ask for nothing new.
        await asyncio.sleep(1.5)
        with Calls() as calls:
            await asyncio.sleep(WATCHED_S)
        return calls.counts
    finally:
        await brokers.stop()


async def test_partitions_at_rest_cost_no_calls() -> None:
    """Twenty times as many must not be twenty times the work: a broker of thousands of partitions
    would be busy with doing nothing. What is left for each is a glance within a loop."""
    few = await calls_at_rest(FEW)
    many = await calls_at_rest(MANY)

    grown = (many - few).most_common(3)

    assert few.total() > 100
    # Not even one call of one function for each partition that was added.
    assert all(count < MANY - FEW for _code, count in grown), grown
