"""Fetch: what it gives, and what it refuses. How long it waits: ``test_fetch_waiting.py``."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import iterate_batches
from tests.broker.support.requests import (
    batch,
    create,
    fetch,
    fetched,
    name_by_id,
    produced,
)
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.raw_client import RawClient


async def test_a_disconnected_waiter_is_forgotten() -> None:
    """Ten thousand impatient clients must leave nothing behind (hazard N-09)."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        async with running.connect() as reader:
            reader.send(12, fetch(0, max_wait_ms=60_000, min_bytes=1))
            while running.broker.parts.shared.waiting.count == 0:
                await asyncio.sleep(0.01)

        async with asyncio.timeout(60):
            while running.broker.parts.shared.waiting.count:
                await asyncio.sleep(0.01)

        assert running.broker.parts.shared.waiting.key_count == 0


@pytest.mark.parametrize("version", range(4, 18))
async def test_every_version_reads(client: RawClient, version: int) -> None:
    """Old clients send old versions for ever."""
    await create(client)
    await produced(client, batch(b"x"))

    answer = await fetched(client, 0, version)

    assert b"x" in bytes(answer.records)
    assert (answer.error_code, answer.high_watermark) == (ErrorCode.NONE, 1)


@pytest.mark.requirement("LOG-12")
async def test_an_offset_inside_a_batch_gives_the_whole_batch(client: RawClient) -> None:
    """Batches are not cut; the client skips what lies before its offset."""
    await create(client)
    await produced(client, batch(b"a", b"b", b"c"))

    (found,) = iterate_batches(bytes((await fetched(client, 1)).records))

    assert (found.base_offset, found.last_offset) == (0, 2)


@pytest.mark.requirement("LOG-13")
async def test_a_batch_larger_than_the_limits_is_still_given(client: RawClient) -> None:
    """Otherwise the consumer could never get past it (KIP-74)."""
    await create(client)
    await produced(client, batch(b"x" * 10_000))

    answer = await fetched(client, 0, partition_bytes=10, max_bytes=10)

    assert len(bytes(answer.records)) > 10_000


async def test_the_limit_ends_the_answer_between_batches(client: RawClient) -> None:
    """Whole batches up to the limit and no more."""
    await create(client)
    one = batch(b"x" * 1000)
    for _ in range(5):
        await produced(client, one)

    answer = await fetched(client, 0, partition_bytes=3 * len(one) + 10)

    assert len(bytes(answer.records)) == 3 * len(one)


async def test_the_leader_epoch_is_fenced_both_ways(client: RawClient) -> None:
    """A client with stale or newer metadata must not read from the wrong lineage (KIP-320)."""
    await create(client)
    await produced(client, batch(b"x"))
    (stored,) = iterate_batches(bytes((await fetched(client, 0)).records))
    epoch = stored.leader_epoch

    newer = await fetched(client, 0, current_leader_epoch=epoch + 1)
    same = await fetched(client, 0, current_leader_epoch=epoch)

    assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH
    assert same.error_code == ErrorCode.NONE
    if epoch > 0:
        older = await fetched(client, 0, current_leader_epoch=epoch - 1)
        assert older.error_code == ErrorCode.FENCED_LEADER_EPOCH


async def test_each_partition_has_its_own_error(client: RawClient) -> None:
    """One unknown topic does not spoil the rest of the request."""
    await create(client)
    await produced(client, batch(b"x"))
    request = fetch(0)
    request.topics += fetch(0, topic="missing").topics

    answer = await client.call(12, request)

    codes = [topic.partitions[0].error_code for topic in answer.responses]
    assert codes == [ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]


async def test_a_topic_that_compresses_with_zstd_needs_version_10(client: RawClient) -> None:
    """Older clients would take the batch for damaged."""
    await create(client, compression_type="zstd")

    assert (await fetched(client, 0, 9)).error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
    assert (await fetched(client, 0, 10)).error_code == ErrorCode.NONE


@pytest.mark.requirement("NET-11")
async def test_zero_copy_and_buffered_give_the_same_bytes() -> None:
    """TLS and platforms without sendfile must not be a different broker."""
    answers = []
    for zero_copy in ("true", "false"):
        settings = {"ottla.fetch.zero.copy": zero_copy}
        async with running_broker(settings) as running, running.connect() as client:
            await create(client)
            for size in (1, 100, 100_000, 300_000):
                await produced(client, batch(b"x" * size))
            client.send(12, fetch(0))
            answers.append(await client.frame())

    assert len(answers[0]) > 400_000
    assert answers[0] == answers[1]


@pytest.mark.parametrize("version", range(11, 18))
@pytest.mark.parametrize("isolation_level", [0, 1])
async def test_the_short_way_answers_as_the_long_one(
    client: RawClient, version: int, isolation_level: int
) -> None:
    """Requests without a client id take the long way, the others the short one if they can."""
    await create(client, segment_bytes="200")
    for _ in range(4):
        await produced(client, batch(b"x" * 60))
    epoch = (await fetched(client, 0)).current_leader.leader_epoch
    asked = [
        fetch(offset, isolation_level=isolation_level, **more)
        for offset in (-1, 0, 1, 3, 4, 5)
        for more in (
            {"max_wait_ms": 0},
            {"max_wait_ms": 5, "min_bytes": 1 << 20},
            {"max_bytes": 1},
            {"partition_bytes": 0},
            {"max_bytes": -1},
            {"current_leader_epoch": epoch},
            {"current_leader_epoch": 0},
            {"current_leader_epoch": 99},
            {"topic": "other"},
        )
    ]

    for one in asked:
        if version >= 13:
            await name_by_id(client, one)
        frames = []
        for client_id in (None, "raw", "raw"):
            client.send(version, one, client_id)
            frames.append((await client.frame())[4:])
        assert frames[0] == frames[1] == frames[2], one


async def test_a_topic_that_took_over_the_name_is_another_topic() -> None:
    """A client that asks by id must never read what was written under the name later."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x"))
        partition = running.broker.partitions.find("t", 0)
        assert partition is not None
        partition.log.topic_id = b"another topic id"

        answer = await fetched(client, 0, 17)

        assert answer.error_code == ErrorCode.INCONSISTENT_TOPIC_ID
        assert bytes(answer.records) == b""
