"""Splits a consumer's records into short runs, so that other visitors' requests are served in
between."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ottla.client.records.consumer_record import ConsumerRecord

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns
    from ottla.protocol.records.record import Record

SeenRecord = ConsumerRecord[bytes, bytes]
Decode = Callable[[SeenRecord], Awaitable[SeenRecord]]
"""Turns keys and values of a schema registry into JSON; leaves all others as they are."""
RUN_RECORDS = 200
RUN_BYTES = 1024 * 1024


def seen(where: TopicPartition, one: Record) -> SeenRecord:
    """Return a record with its partition."""
    return SeenRecord(*where, one.offset, one.timestamp, one.key, one.value, one.headers)


async def record_runs(
    where: TopicPartition, columns: Columns, decode: Decode | None = None
) -> AsyncGenerator[list[SeenRecord], None]:
    """Yield the records of a partition a few at a time, and yield to the event loop after each
    run."""
    start = 0
    size = max(1, len(columns.keys.data) + len(columns.values.data))
    step = max(1, min(RUN_RECORDS, columns.count * RUN_BYTES // size))
    while start < columns.count:
        part = columns.slice(start, min(start + step, columns.count))
        records = [seen(where, record) for record in part.records()]
        if decode is not None:
            records = [await decode(record) for record in records]
        yield records
        start += step
        await asyncio.sleep(0)
