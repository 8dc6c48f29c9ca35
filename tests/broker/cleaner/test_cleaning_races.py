"""What others do to a log while it is being cleaned, and what cleaning does to them."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.broker.cleaner.test_cleaner import room, timed_room

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.broker.log.timestamps import TimestampedOffset
    from ottla.protocol.ports import Disk


class Watched:
    """A disk that has something done right after each operation on names."""

    def __init__(self, disk: Disk, deed: Callable[[], Awaitable[object]]) -> None:
        self._disk, self._deed = disk, deed

    def __getattr__(self, name: str) -> object:
        return getattr(self._disk, name)

    async def rename(self, source: str, target: str) -> None:
        await self._disk.rename(source, target)
        await self._deed()

    async def fsync_directory(self, directory: str) -> None:
        await self._disk.fsync_directory(directory)
        await self._deed()


async def test_times_are_looked_up_while_segments_are_swapped() -> None:
    """Files that have no name, or another's, for a moment are no fault of the disk: taken for one,
    it would take all logs of the directory offline."""
    one, times = await timed_room()
    lookups: list[asyncio.Future[TimestampedOffset | None]] = []

    async def look_up() -> None:
        wanted = (times[number] for number in (3, 40, 80))
        lookups.extend(asyncio.ensure_future(one.log.offset_for_timestamp(time)) for time in wanted)
        # Not for their ends: some have to wait for the swap's.
        for _ in range(20):
            await asyncio.sleep(0)

    one.log.home.disk = Watched(one.log.home.disk, look_up)  # type: ignore[assignment]
    await one.seal_and_clean()
    found = await asyncio.gather(*lookups)

    assert one.log.home.health.is_online
    assert len(found) > 20
    assert None not in found
    assert set(found[2::3]) == {(80, times[80], 0)}


async def test_a_log_that_is_not_to_be_compacted_any_more_is_left_alone() -> None:
    """Its topic's policy may change while a run begins, and its segments go with the other one."""
    one = await room(segment_bytes="1000")
    for number in range(50):
        one.write((b"a", b"%d" % number))
    one.roll()
    flush_sealed = one.log.flush_sealed

    async def change() -> None:
        await flush_sealed()
        one.one.settings = replace(one.one.settings, compaction=None)
        await one.log.delete_records_before(40)

    one.log.flush_sealed = change  # type: ignore[method-assign]

    assert not await one.clean()
    assert one.cleaning.status().aborted == 1
