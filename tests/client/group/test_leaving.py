"""Leaving a group: offsets that could not be committed, and deleting the group."""

from __future__ import annotations

import asyncio
import logging

import pytest

from tests.client.support.membered import Listener, Site, groups_cluster, poll_until, read, site

__all__ = ["groups_cluster", "site"]


async def test_an_automatic_commit_in_vain_is_told_in_the_log(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """No caller waits for an automatic commit, so only the log explains why a group makes no
    progress."""
    await site.create()
    await site.fill(3)
    async with site.consumer(auto_commit_interval_ms=50) as consumer:
        await consumer.subscribe([site.topic])
        await read(consumer, 3)
        with caplog.at_level(logging.WARNING, logger="ottla.client"):
            site.cluster.faults.fail_request("OFFSET_COMMIT", "INVALID_COMMIT_OFFSET_SIZE", 1)
            async with asyncio.timeout(90):
                while "were not stored" not in caplog.text:
                    await consumer.poll(50)
        site.cluster.faults.clear()

    assert site.group in caplog.text
    assert "INVALID_COMMIT_OFFSET_SIZE" in caplog.text


async def test_who_is_interrupted_while_it_joins_leaves_the_group_at_once(site: Site) -> None:
    """The others would wait for it, up to the end of its session."""
    await site.create(2)
    listener = Listener()
    async with site.consumer(assignors=("range",), session_timeout_ms=300_000) as first:
        await first.subscribe([site.topic], listener)
        await poll_until(lambda: bool(listener.told), first)

        async def join() -> None:
            async with site.consumer(assignors=("range",), session_timeout_ms=300_000) as second:
                await second.subscribe([site.topic])
                # It waits for the first, who does not poll and so does not join again.
                await second.poll(60_000)

        joining = asyncio.create_task(join())
        async with asyncio.timeout(90):
            while await site.members() < 2:
                await asyncio.sleep(0.02)
        joining.cancel()
        async with asyncio.timeout(90):
            with pytest.raises(asyncio.CancelledError):
                await joining
            while await site.members() > 1:
                await asyncio.sleep(0.02)
        # Both partitions go back to the first member at its next poll.
        await poll_until(lambda: set(first.assignment) == set(site.parts(0, 1)), first)
