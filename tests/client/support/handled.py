"""Support for tests of parallel runs: records with keys, a member that reads them, and a ledger."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from contextlib import AbstractContextManager, asynccontextmanager
from typing import TYPE_CHECKING, Any

from ottla import Admin, Consumer, ConsumerConfig, NewTopic, Producer, TopicPartition

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from ottla.client.records.consumer_record import ConsumerRecord

PARTITIONS = 3


async def fill(broker: str, topic: str, count: int, key_count: int = 7) -> None:
    """Records whose values are their places in a row, under some keys."""
    async with Admin(broker) as admin:
        await admin.create_topic(NewTopic(topic, PARTITIONS))
    async with Producer(broker) as producer:
        for number in range(count):
            await producer.send(topic, b"%d" % number, b"key %d" % (number % key_count))


@asynccontextmanager
async def subscribed(broker: str, topic: str, **more: Any) -> AsyncIterator[Consumer[bytes, bytes]]:
    """A member of the group that is named after the topic."""
    settings: dict[str, Any] = {
        "group_id": topic,
        "offset_reset": "earliest",
        "auto_commit_interval_ms": 50,
        "heartbeat_interval_ms": 200,
        "session_timeout_ms": 6_000,
        **more,
    }
    async with Consumer[bytes, bytes](broker, ConsumerConfig(**settings)) as consumer:
        await consumer.subscribe([topic])
        yield consumer


class Ledger:
    """What was handled, in order, and how many records at once."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.by_key: dict[bytes | None, list[int]] = defaultdict(list)
        self.busy: Counter[bytes | None] = Counter()
        self.at_once_max = 0
        self.handled: Counter[int] = Counter()
        self.all_done = asyncio.Event()

    async def handle(self, record: ConsumerRecord[bytes, bytes]) -> None:
        """Take a moment; two of one key at the same time are a fault."""
        with self.working(record):
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    def working(self, record: ConsumerRecord[bytes, bytes]) -> AbstractContextManager[None]:
        """A context that notes the record at its end."""
        ledger = self

        class Noted(AbstractContextManager[None]):
            def __enter__(self) -> None:
                ledger.busy[record.key] += 1
                assert ledger.busy[record.key] == 1, f"two of {record.key!r} at once"
                ledger.at_once_max = max(ledger.at_once_max, sum(ledger.busy.values()))

            def __exit__(self, kind: object, error: object, traceback: object) -> None:
                ledger.busy[record.key] -= 1
                if kind is None:
                    ledger.note(record)

        return Noted()

    def note(self, record: ConsumerRecord[bytes, bytes]) -> None:
        number = int(record.value or b"")
        self.by_key[record.key].append(number)
        self.handled[number] += 1
        if len(self.handled) == self.count:
            self.all_done.set()

    def check_order(self) -> None:
        for numbers in self.by_key.values():
            assert numbers == sorted(numbers)


async def run_until(run: Awaitable[None], stop: Callable[[], object], done: asyncio.Event) -> None:
    """Let it run until the event, then stop it."""
    task = asyncio.ensure_future(run)
    waiting = asyncio.ensure_future(done.wait())
    await asyncio.wait([task, waiting], return_when=asyncio.FIRST_COMPLETED, timeout=60)
    waiting.cancel()
    stop()
    await task


async def ends(consumer: Consumer[bytes, bytes], topic: str) -> dict[TopicPartition, int]:
    return await consumer.end_offsets(await consumer.partitions_of(topic))


async def stored(consumer: Consumer[bytes, bytes]) -> dict[TopicPartition, int]:
    found = await consumer.committed()
    return {partition: position.offset for partition, position in found.items()}
