"""The load of ``ottla perf produce``: sends records at a rate and times acknowledgements."""

from __future__ import annotations

import asyncio
import secrets
import time
from array import array
from typing import TYPE_CHECKING

from ottla.client.cli.settings import perf_producer_config
from ottla.client.producer import Producer

if TYPE_CHECKING:
    import argparse

    from ottla.client.cli.progress import ProgressLine
    from ottla.client.records.delivery import Delivery

# How many records one call sends with --batch, unless the rate is lower.
RECORDS_PER_CALL = 1_000
# Reading the clock for every record would cost more than a record.
RECORDS_PER_LOOK = 100
LOOKS_PER_SECOND = 50
# Different values, so that codecs have work to do; made before the clock starts.
VALUES = 256
# Fewer large values, to bound the memory of the load itself.
VALUES_BYTES_MAX = 64 * 1024 * 1024


class Load:
    """Sends records through one producer. ``latencies_ms`` has one entry per record, or with
    --batch one per batch."""

    def __init__(self, producer: Producer, topic: str, arguments: argparse.Namespace) -> None:
        self.latencies_ms = array("d")
        self._producer = producer
        self._topic = topic
        self._arguments = arguments
        # Half random bytes: compresses about like real records.
        half = arguments.size // 2
        self._values = [
            secrets.token_bytes(half) + bytes(arguments.size - half)
            for _ in range(max(1, min(VALUES, VALUES_BYTES_MAX // arguments.size)))
        ]
        self._open: Delivery | None = None
        self._begun: list[float] = []
        self._watching: set[asyncio.Task[None]] = set()

    async def run(self, progress: ProgressLine) -> float:
        """Send all records; return the seconds until the last acknowledgement.

        Raises the ClientError of the first batch that failed."""
        try:
            return await self._run(progress)
        finally:
            # After an interrupt the remaining results are not needed.
            for task in self._watching:
                task.cancel()

    async def _run(self, progress: ProgressLine) -> float:
        arguments = self._arguments
        count, rate = arguments.records, arguments.rate
        step = RECORDS_PER_CALL if arguments.batch else RECORDS_PER_LOOK
        if rate is not None:
            step = max(1, min(step, rate // LOOKS_PER_SECOND))
        await self._producer.partition_count(self._topic)
        begun = time.monotonic()
        sent = 0
        while sent < count:
            part = min(step, count - sent)
            if rate is not None:
                await asyncio.sleep(max(0.0, begun + sent / rate - time.monotonic()))
            if arguments.batch:
                await self._send_batch(part)
            else:
                await self._send_records(part)
            sent += part
            progress.add(part)
        self._close_group()
        await self._producer.flush()
        seconds = time.monotonic() - begun
        await asyncio.gather(*self._watching)
        return seconds

    async def _send_batch(self, count: int) -> None:
        now = time.monotonic()
        values = (self._values * (count // len(self._values) + 1))[:count]
        sent = await self._producer.send_batch(self._topic, values)
        for delivery in sent.parts:
            if self._open is None or not self._open.is_together_with(delivery):
                self._close_group()
                self._open = delivery
                self._begun = [now]

    async def _send_records(self, count: int) -> None:
        topic, values, send = self._topic, self._values, self._producer.send
        now = time.monotonic()
        for number in range(count):
            delivery = await send(topic, values[number % len(values)])
            if self._open is None or not self._open.is_together_with(delivery):
                self._close_group()
                self._open = delivery
                now = time.monotonic()
            self._begun.append(now)

    def _close_group(self) -> None:
        """Watch the completed batch."""
        if self._open is not None:
            task = asyncio.ensure_future(self._watch(self._open, self._begun))
            self._watching.add(task)
        self._open, self._begun = None, []

    async def _watch(self, delivery: Delivery, begun: list[float]) -> None:
        await delivery
        now = time.monotonic()
        self.latencies_ms.extend([(now - moment) * 1000 for moment in begun])


async def fill(topic: str, arguments: argparse.Namespace) -> None:
    """Fill the topic with records for a consumer."""
    config = perf_producer_config(arguments)
    async with Producer(arguments.bootstrap, config) as producer:
        left = arguments.records
        value = secrets.token_bytes(arguments.size)
        while left:
            part = min(left, RECORDS_PER_CALL)
            await producer.send_batch(topic, [value] * part)
            left -= part
        await producer.flush()
