"""Several independent clusters, and the contents of their topics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla import Consumer, Isolation, Producer
from ottla.client.mirror.settings import MirrorSettings, MirrorSource

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from ottla.client.fetching.batches import ConsumerRecord as Record
    from ottla.client.mirror.mirror import Mirror

PATIENCE_S = 120.0


def settings(target: str, *sources: MirrorSource, **changes: object) -> MirrorSettings:
    """Of a mirror that stores its positions often."""
    quick = {"commit_ms": 50.0, "refresh_ms": 200.0, **changes}
    return MirrorSettings(target=target, sources=sources, **quick)  # type: ignore[arg-type]


async def until(is_so: Callable[[], bool]) -> None:
    """Wait for it."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await asyncio.sleep(0.02)


async def fill(
    bootstrap: str, topic: str, values: Iterable[bytes], partition: int | None = None
) -> None:
    """Send them; with a partition all go there."""
    async with Producer(bootstrap) as producer:
        for value in values:
            await producer.send(topic, value, key=value[-1:], partition=partition)


async def copy_all(mirror: Mirror) -> None:
    """Run one that ends by itself."""
    async with asyncio.timeout(PATIENCE_S), mirror:
        await mirror.wait()


async def read(bootstrap: str, topic: str, count: int) -> dict[int, list[Record[bytes, bytes]]]:
    """Read so many committed records, by partition; fail if there are more."""
    found: dict[int, list[Record[bytes, bytes]]] = {}
    config = {"offset_reset": "earliest", "isolation": Isolation.READ_COMMITTED}
    async with asyncio.timeout(PATIENCE_S), Consumer(bootstrap, **config) as consumer:  # type: ignore[arg-type]
        partitions = await consumer.partitions_of(topic)
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        seen = 0
        while seen < count or any(
            (consumer.position(where) or 0) < end for where, end in ends.items()
        ):
            for record in await consumer.poll(100):
                found.setdefault(record.partition, []).append(record)
                seen += 1
    return found
