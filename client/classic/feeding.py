"""Fetches the partitions that a member owns, and passes their batches to its streams.

Runs on one event loop. The partitions of a stream with enough batches are paused until its thread
has opened them.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.client.classic.consumer_settings import LARGEST, SMALLEST
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.process.errors import NoOffset
from ottla.client.process.tasks import ClientTasks
from ottla.protocol.ids import TopicPartition
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.client.classic.registry.layout import RegistrySlot
    from ottla.client.classic.registry.member import Share
    from ottla.client.classic.streams import StreamQueue
    from ottla.client.consumer import Consumer
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.classic")

POLL_WAIT_MS = 500.0
FAILURE_WAIT_MS = 500.0
RESET_TIMES = {SMALLEST: EARLIEST_TIMESTAMP, LARGEST: LATEST_TIMESTAMP}


class StreamFeed:
    """A member's ``PartitionFeed``; it must be closed."""

    def __init__(
        self,
        consumer: Consumer,
        stream_of: Callable[[RegistrySlot, str], StreamQueue],
        clock: Clock,
        *,
        offset_reset: str,
        chunks_max: int,
        commits: bool,
        is_dual: bool = False,
    ) -> None:
        self._consumer = consumer
        self._stream_of = stream_of
        self._clock = clock
        self._reset_time = RESET_TIMES.get(offset_reset)
        self._chunks_max = chunks_max
        # Whether consumed offsets are committed when partitions are released.
        self._commits = commits
        # An offset read from two storages may be missing in one of them: then it is committed
        # again, even if no record was consumed.
        self._is_dual = is_dual
        self._streams: dict[TopicPartition, StreamQueue] = {}
        self._slots: dict[TopicPartition, RegistrySlot] = {}
        self._paused: set[TopicPartition] = set()
        # The first offset that a stream got of each partition, and the known committed offset.
        self._first: dict[TopicPartition, int] = {}
        self._stored: dict[RegistrySlot, int] = {}
        self._begun = asyncio.Event()
        self._tasks = ClientTasks(self._crashed)

    def start(self) -> None:
        """Start to fetch the assigned partitions."""
        self._tasks.start(self._pump(), "classic fetches")

    async def close(self) -> None:
        """Stop fetching."""
        await self._tasks.stop()

    def hold(self) -> Mapping[RegistrySlot, int]:
        """Empty all streams; return the consumed offsets if they are committed automatically."""
        consumed = self._changes({one: one.hold() for one in set(self._streams.values())})
        if self._slots:
            self._consumer.assign([])
        self._streams, self._slots = {}, {}
        self._paused.clear()
        self._first.clear()
        self._stored = {}
        self._begun.clear()
        return consumed if self._commits else {}

    async def begin(self, shares: Mapping[RegistrySlot, Share]) -> None:
        """Fetch these partitions from their committed offsets, or as the offset reset says."""
        consumer = self._consumer
        self._slots = {slot.where: slot for slot in shares}
        self._streams = {
            slot.where: self._stream_of(slot, share.thread) for slot, share in shares.items()
        }
        consumer.assign(list(self._slots))
        for slot, share in shares.items():
            if share.offset is not None:
                if not self._is_dual:
                    self._stored[slot] = share.offset
                consumer.seek(slot.where, share.offset)
            elif self._reset_time is not None:
                consumer.seek_to_time(self._reset_time, slot.where)
        if shares:
            self._begun.set()

    def consumed(self) -> dict[RegistrySlot, int]:
        """Return the consumed offsets that are not known to be committed."""
        return self._changes({one: one.consumed() for one in set(self._streams.values())})

    def stored(self, offsets: Mapping[RegistrySlot, int]) -> None:
        """These offsets are committed."""
        mine = {slot: at for slot, at in offsets.items() if self._slots.get(slot.where) == slot}
        self._stored.update(mine)

    def has_room(self) -> None:
        """A stream has opened a batch: fetch its partitions again if it needs more."""
        waiting = [
            where for where in self._paused if self._streams[where].batch_count < self._chunks_max
        ]
        if waiting:
            self._paused.difference_update(waiting)
            self._consumer.resume(*waiting)

    def _changes(
        self, consumed: Mapping[StreamQueue, Mapping[TopicPartition, int]]
    ) -> dict[RegistrySlot, int]:
        found: dict[RegistrySlot, int] = {}
        for where, slot in self._slots.items():
            offset = consumed[self._streams[where]].get(where, self._first.get(where))
            if offset is None:
                # The start after the reset: the next owner has to start there, too.
                offset = self._consumer.position(where)
            if offset is not None and offset != self._stored.get(slot):
                found[slot] = offset
        return found

    async def _pump(self) -> None:
        while True:
            await self._begun.wait()
            try:
                batches = await self._consumer.poll_batches(POLL_WAIT_MS)
            except NoOffset as error:
                for stream in set(self._streams.values()):
                    stream.fail(error)
                self._begun.clear()
                continue
            except ClientError as error:
                logger.warning("fetching continues after: %s", error)
                await self._clock.sleep(FAILURE_WAIT_MS)
                continue
            for batch in batches:
                where = TopicPartition(batch.topic, batch.partition)
                if where in self._streams:
                    self._first.setdefault(where, batch.base_offset)
                    self._streams[where].put(batch)
            self._pause_full()

    def _pause_full(self) -> None:
        full = [
            where
            for where, stream in self._streams.items()
            if where not in self._paused and stream.batch_count >= self._chunks_max
        ]
        if full:
            self._paused.update(full)
            self._consumer.pause(*full)

    def _crashed(self, error: BaseException) -> None:
        logger.error("the fetches of a classic consumer have failed", exc_info=error)
        for stream in set(self._streams.values()):
            if isinstance(error, Exception):
                stream.fail(error)
