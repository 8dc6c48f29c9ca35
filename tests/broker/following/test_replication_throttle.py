"""Throttled replicas on a cluster (KIP-73): who is held back, and who never is."""

from __future__ import annotations

import asyncio
from typing import Any

from tests.broker.support.followers import Replicated, replicated, until
from tests.broker.support.requests import batch, produce

THROTTLED: Any = {"leader_replication_throttled_replicas": "*"}
SIZE = 30_000


async def written(site: Replicated, count: int) -> None:
    """Batches of thirty thousand bytes."""
    async with site.connect() as client:
        for _ in range(count):
            await client.call(11, produce(batch(b"x" * SIZE), 1))


async def sizes(site: Replicated, count: int) -> list[int]:
    """What the first follower gets, one batch at a time."""
    found = []
    for offset in range(count):
        answer = await site.fetched(site.first, offset, max_bytes=1)
        found.append(len(bytes(answer.records)))
    return found


async def test_a_leader_throttles_followers_outside_the_isr() -> None:
    """One batch more than the rate allows, and then nothing until the debt is paid."""
    settings = {"leader.replication.throttled.rate": "6000", "replica.lag.time.max.ms": "400"}
    async with replicated(settings, **THROTTLED) as site:
        await written(site, 3)
        await until(lambda: site.leading.in_sync.committed == (site.leader_id,))
        first = await sizes(site, 3)
        async with asyncio.timeout(60):
            while not (await site.fetched(site.first, 1, max_bytes=1)).records:
                await asyncio.sleep(0.1)

        assert first[0] > SIZE
        assert first[1:] == [0, 0]


async def test_members_of_the_isr_are_not_throttled() -> None:
    """Held back they would fall out of it, one after the other (R-17)."""
    settings = {"leader.replication.throttled.rate": "1"}
    async with replicated(settings, **THROTTLED) as site:
        await written(site, 3)

        assert min(await sizes(site, 3)) > SIZE


async def test_a_follower_that_catches_up_takes_its_time() -> None:
    """And arrives all the same; the one that is not named does not wait for it."""
    settings = {
        "follower.replication.throttled.rate": "40000",
        "replica.lag.time.max.ms": "400",
        "replica.fetch.max.bytes": "1000",
    }
    async with replicated(
        settings, follower_replication_throttled_replicas="*", min_insync_replicas="1"
    ) as site:
        await written(site, 5)
        await until(lambda: site.leading.in_sync.committed == (site.leader_id,))
        fetchers = site.cluster[site.first].parts.fetchers
        fetchers._is_stopping = False
        started = asyncio.get_running_loop().time()
        fetchers.on_role(site.on(site.first))
        await until(lambda: site.on(site.first).log.log_end_offset == 5)

        # 150 000 bytes, the first 40 000 for nothing, the last batch before its debt.
        assert 1.5 < asyncio.get_running_loop().time() - started < 60
