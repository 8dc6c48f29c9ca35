"""Records that an application keeps stay valid while later ones arrive."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from ottla.client.consumer import Consumer
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from tests.client.test_consumer import FIRST, config

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.client.fetching.batches import FetchedBatch
    from ottla.protocol.records.columns import Columns
    from tests.client.support.toy_broker import ToyCluster

    Kept = list[tuple[Callable[[], list[bytes | None]], int]]

# Frames of this size have buffers that are used again; there are more of them than buffers.
FETCHES, RECORDS, VALUE_BYTES = 12, 3, 60_000


def value_of(offset: int) -> bytes:
    """Differs everywhere from that of any other offset."""
    return bytes([65 + offset]) * (VALUE_BYTES + offset)


def values_of(records: FetchedBatch | Columns) -> list[bytes | None]:
    """Decoded now."""
    return [record.value for record in records.records()]


async def records(consumer: Consumer, kept: Kept) -> int:
    found = await consumer.poll(max_records=2)
    if found:
        kept.append((lambda: [record.value for record in found], found[0].offset))
    return len(found)


async def batches(consumer: Consumer, kept: Kept) -> int:
    """Looked into much later."""
    found = await consumer.poll_batches()
    for batch in found:
        kept.append((batch.values, batch.base_offset))
    return sum(batch.count for batch in found)


async def opened(consumer: Consumer, kept: Kept) -> int:
    """In every form, one after the other, of one batch."""
    found = await consumer.poll_batches()
    for batch in found:
        columns, table = batch.columns(), batch.arrow()
        kept.append((partial(values_of, columns), batch.base_offset))
        kept.append((table.column("value").to_pylist, batch.base_offset))
        kept.append((partial(values_of, batch), batch.base_offset))
    return sum(batch.count for batch in found)


async def columns(consumer: Consumer, kept: Kept) -> int:
    found = await consumer.poll_columns(max_records=2)
    for _, part in found:
        first = part.records()[0].offset
        kept.append((partial(values_of, part), first))
    return sum(part.count for _, part in found)


async def arrow(consumer: Consumer, kept: Kept) -> int:
    """A slice of one column alone: the rest of its batch is given back."""
    async for batch in consumer.arrow(max_wait_ms=1_000, max_records=RECORDS):
        first = batch.column("offset")[0].as_py()
        values = batch.column("value").slice(1)
        kept.append((values.to_pylist, first + 1))
        return len(values) + 1
    return 0


@pytest.mark.parametrize("codec", [Codec.NONE, Codec.LZ4])
@pytest.mark.parametrize("take", [records, batches, opened, columns, arrow])
async def test_what_is_kept_stays_what_it_was(
    toy: ToyCluster, take: Callable[[Consumer, Kept], Awaitable[int]], codec: Codec
) -> None:
    """A receive buffer is reused only when no record refers to it any more."""
    log = toy.add_topic("t").partitions[0]
    for number in range(FETCHES):
        offsets = range(number * RECORDS, (number + 1) * RECORDS)
        entries = [(1, None, value_of(offset), ()) for offset in offsets]
        log.append(encode_batch(entries, BatchOptions(codec=codec)))
    kept: Kept = []
    async with Consumer(toy.bootstrap, config(partition_bytes_max=1_000)) as consumer:
        consumer.assign([FIRST])
        count = 0
        while count < FETCHES * RECORDS:
            count += await take(consumer, kept)

    for values, first in kept:
        for offset, value in enumerate(values(), first):
            assert value == value_of(offset)
    assert len(kept) >= FETCHES
