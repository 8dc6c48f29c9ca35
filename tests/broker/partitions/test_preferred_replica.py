"""Consumers that read from a replica in their own rack (KIP-392)."""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

from ottla.client.consumer import Consumer
from ottla.client.settings.config import ConsumerConfig
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.batch import iterate_batches
from tests.broker.support.followers import (
    VERSION,
    Replicated,
    create_replicated,
    racked_cluster,
    until,
)
from tests.broker.support.requests import fetch

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

SELECTOR = "org.apache.kafka.common.replica.RackAwareReplicaSelector"


@asynccontextmanager
async def racked(selector: str = SELECTOR) -> AsyncIterator[Replicated]:
    async with racked_cluster({"replica.selector.class": selector}) as cluster:
        await create_replicated(cluster)
        yield Replicated(cluster)


async def written(site: Replicated, count: int) -> None:
    """That many records, which every replica knows to be committed."""
    for _ in range(count):
        answer = await site.produced(-1)
        assert answer.error_code == ErrorCode.NONE
    end = site.partition.log.log_end_offset
    await until(lambda: all(site.on(n).replica.high_watermark == end for n in (1, 2, 3)))


@pytest.mark.parametrize("selector", [SELECTOR, "RackAwareReplicaSelector"])
async def test_a_consumer_is_sent_to_the_replica_in_its_rack_and_reads_there(
    selector: str,
) -> None:
    """The leader names it and gives no records; the follower gives them."""
    async with racked(selector) as site:
        await written(site, 3)
        sent = await site.consumed(site.leader_id, 0, rack_id=f"r{site.first}")
        read = await site.consumed(site.first, 0, rack_id=f"r{site.first}")

        assert (sent.preferred_read_replica, bytes(sent.records)) == (site.first, b"")
        assert sent.error_code == ErrorCode.NONE
        assert [one.base_offset for one in iterate_batches(bytes(read.records))] == [0, 1, 2]
        assert (read.error_code, read.high_watermark) == (ErrorCode.NONE, 3)


async def test_our_consumer_goes_where_it_is_sent() -> None:
    """The consumer continues with the leader when that replica dies."""
    async with racked() as site:
        await written(site, 3)
        address = site.cluster[site.leader_id].address
        where = TopicPartition("t", 0)
        settings = ConsumerConfig(rack=f"r{site.first}", offset_reset="earliest")
        async with Consumer(str(address), settings) as consumer:
            consumer.assign([where])
            before = [record.offset for record in await consumer.poll(20_000)]
            nearer = site.cluster[site.first]
            await nearer.stop()
            site.cluster.running.brokers.remove(nearer)
            await site.produced(1)
            after = [record.offset for record in await consumer.poll(20_000)]

        assert (before, after) == ([0, 1, 2], [3])


async def test_the_leader_serves_who_is_as_near_to_it_or_nowhere() -> None:
    """Its own rack, a rack without replicas, and consumers that do not say."""
    async with racked() as site:
        await written(site, 1)
        for rack in (f"r{site.leader_id}", "r9", ""):
            answer = await site.consumed(site.leader_id, 0, rack_id=rack)

            assert answer.preferred_read_replica == -1
            assert len(bytes(answer.records)) > 0


async def test_what_a_follower_does_not_know_of_it_does_not_deny() -> None:
    """OFFSET_OUT_OF_RANGE would make a consumer reset to the start, or skip to the end."""
    async with racked() as site:
        await written(site, 2)
        for node in (site.first, site.second):
            await site.cluster[node].parts.fetchers.stop()
        await site.produced(1)
        beyond = await site.consumed(site.first, 3)
        at_end = await site.consumed(site.first, 2)
        sent = await site.consumed(site.leader_id, 3, rack_id=f"r{site.first}")
        newer = await site.consumed(site.first, 0, current_leader_epoch=99)

        assert beyond.error_code == ErrorCode.OFFSET_NOT_AVAILABLE
        assert (at_end.error_code, bytes(at_end.records)) == (ErrorCode.NONE, b"")
        assert sent.preferred_read_replica == -1
        assert newer.error_code == ErrorCode.UNKNOWN_LEADER_EPOCH


async def test_a_consumer_that_waits_at_a_follower_is_answered_soon() -> None:
    """When the follower learns that the record is committed, not when its wait is over (R-31)."""
    async with racked() as site, site.connect(site.first) as consumer:
        await written(site, 1)
        asked = fetch(1, max_wait_ms=5_000, rack_id=f"r{site.first}")
        asked.topics[0].topic_id = site.topic_id
        consumer.send(VERSION, asked)
        await until(lambda: site.cluster[site.first].parts.shared.waiting.count == 1)
        await site.produced(-1)
        answer = await asyncio.wait_for(consumer.answer(VERSION, asked), 1)

        assert len(bytes(answer.responses[0].partitions[0].records)) > 0


async def test_a_replica_that_left_the_isr_is_not_named() -> None:
    """It lags and may be dead (R-31)."""
    async with racked() as site:
        await written(site, 1)
        leadership = site.partition.replica.leadership
        assert leadership is not None
        smaller = leadership.__class__(
            leadership.leader,
            leadership.leader_epoch,
            99,
            (site.leader_id, site.second),
            leadership.replicas,
        )
        await site.cluster[site.first].parts.fetchers.stop()
        await site.partition.become(smaller)
        answer = await site.consumed(site.leader_id, 0, rack_id=f"r{site.first}")

        assert answer.preferred_read_replica == -1
