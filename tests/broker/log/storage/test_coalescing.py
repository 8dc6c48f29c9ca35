"""Many callers of one file: each is served by a write that began after it asked."""

from __future__ import annotations

import asyncio

import pytest

from ottla.broker.log.storage.coalescing import CoalescedSave


async def test_a_write_ends_before_the_next_begins_though_its_caller_is_cancelled() -> None:
    """What a worker has in hand cannot be called back: it would meet the next write's file (P-04),
    as at a stop that cancels retention."""
    gate = asyncio.Event()
    events: list[str] = []

    async def save() -> None:
        events.append("begin")
        await gate.wait()
        events.append("end")

    saving = CoalescedSave(save)
    first = asyncio.ensure_future(saving())
    await asyncio.sleep(0)
    first.cancel()
    second = asyncio.ensure_future(saving())
    for _ in range(5):
        await asyncio.sleep(0)
    assert events == ["begin"]
    gate.set()
    with pytest.raises(asyncio.CancelledError):
        await first
    await second
    assert events == ["begin", "end", "begin", "end"]
