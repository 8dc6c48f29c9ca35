"""A fetch of many partitions that waits: what wakes it is read again, and not the others."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.broker.partitions import reads as module
from ottla.broker.partitions.reading import read_partition
from ottla.broker.partitions.reads import Reads
from ottla.protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from tests.broker.support.requests import TOPIC, batch, create, produce
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    import pytest

COUNT = 50


def _fetch(offset: int, *, min_bytes: int, max_wait_ms: int) -> FetchRequest:
    wanted = [
        FetchPartition(partition=index, fetch_offset=offset, partition_max_bytes=1 << 20)
        for index in range(COUNT)
    ]
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=min_bytes,
        max_bytes=1 << 20,
        topics=[FetchTopic(topic=TOPIC, partitions=wanted)],
    )


async def test_one_record_costs_one_reading_of_a_request_that_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A consumer of two thousand partitions is woken a hundred times a second."""
    read: list[int] = []
    original = read_partition

    def counted(partition: Any, *rest: Any) -> Any:
        read.append(partition.partition.partition)
        return original(partition, *rest)

    async with running_broker() as broker, broker.connect() as client, broker.connect() as other:
        await create(client, partitions=COUNT)
        monkeypatch.setattr(module, "read_partition", counted)
        waiting = asyncio.create_task(client.call(11, _fetch(0, min_bytes=1, max_wait_ms=60_000)))
        while len(read) < COUNT:
            await asyncio.sleep(0.001)
        await other.call(9, produce(batch(b"one"), acks=1, partition=7))
        answer = (await waiting).responses[0].partitions

    assert read == [*range(COUNT), 7]
    assert [one.partition_index for one in answer] == list(range(COUNT))
    assert {one.partition_index for one in answer if one.records} == {7}
    assert [one.high_watermark for one in answer] == [int(index == 7) for index in range(COUNT)]


async def test_a_repeated_read_equals_a_first_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is remembered and has changed would be an answer from the past."""
    looks: list[bool] = []
    original = Reads._read_all

    def compared(self: Reads, plan: Any, seen: Any = ()) -> Any:
        found = original(self, plan, seen)
        looks.append(found == original(self, plan))
        return found

    async with running_broker() as broker, broker.connect() as client, broker.connect() as other:
        await create(client, partitions=COUNT)
        monkeypatch.setattr(Reads, "_read_all", compared)
        request = _fetch(0, min_bytes=1 << 19, max_wait_ms=1_500)
        waiting = asyncio.create_task(client.call(11, request))
        while not looks:
            await asyncio.sleep(0.001)
        for number in range(20):
            await other.call(9, produce(batch(b"v"), acks=1, partition=number % 3))
        cut = DeleteRecordsTopic(name=TOPIC, partitions=[DeleteRecordsPartition(0, 2)])
        await other.call(2, DeleteRecordsRequest(topics=[cut], timeout_ms=5_000))
        await other.call(9, produce(batch(b"v"), acks=1, partition=40))
        await waiting

    assert len(looks) > 5
    assert all(looks)
