"""Reads one range of one partition, in a worker of Spark.

A range ends when the position has passed it, whatever markers, aborted records and gaps precede its
end. Only what retention or truncation has removed from it is a loss.
"""

from __future__ import annotations

import logging
import os
from functools import cache
from typing import TYPE_CHECKING

from ottla.client.consumer import Consumer
from ottla.client.fetching.batches import columns_before
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.process.environment import real_environment
from ottla.client.process.errors import LogTruncated, NoOffset
from ottla.client.process.loop_thread import shared_loop
from ottla.client.ranges import has_passed
from ottla.client.spark.errors import ReadTimedOut, RecordsLost, name_of
from ottla.client.spark.metadata import id_of
from ottla.client.spark.reaching import reached
from ottla.client.spark.rows import to_rows
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Iterator

    import pyarrow as pa

    from ottla.client.fetching.batches import FetchedBatch
    from ottla.client.ranges import OffsetRange
    from ottla.client.spark.options import Options
    from ottla.client.spark.rows import Part

logger = logging.getLogger(__name__)

# Two fetches show whether the rest is a gap; later waits may be longer.
FIRST_WAIT_MS = 25.0
WAIT_MS = 1_000.0
# For this long a log that ends too early may have a new leader that is catching up.
DOUBT_MS = 10_000.0
# Limits of one Arrow batch, unless a single producer batch is larger.
ROWS_PER_BATCH = 65_536
BYTES_PER_BATCH = 16 * 1024 * 1024
# Idle consumers kept for the worker's next tasks.
IDLE_MAX = 4


def read_rows(one: OffsetRange, options: Options, topic_id: str = "") -> Iterator[pa.RecordBatch]:
    """The rows of a range, of the topic with that id if one is given. Raises RecordsLost,
    ReadTimedOut, ClientError."""
    loop = shared_loop()
    shelf = _shelf(os.getpid())
    consumer = loop.run(shelf.take(options))
    batches = RangeReading(consumer, one, options, topic_id).batches()
    is_done = False
    try:
        while (batch := loop.run(_next(batches))) is not None:
            yield batch
        is_done = True
    finally:
        loop.run(batches.aclose())
        loop.run(shelf.put(options, consumer) if is_done else consumer.close())


async def _next(batches: AsyncGenerator[pa.RecordBatch, None]) -> pa.RecordBatch | None:
    return await anext(batches, None)


class Shelf:
    """Idle consumers of this process: connecting costs more than many a micro-batch."""

    def __init__(self) -> None:
        self._idle: list[tuple[Options, Consumer]] = []

    async def take(self, options: Options) -> Consumer:
        """An idle consumer with these options, or a new one."""
        for index, (known, consumer) in enumerate(self._idle):
            if known.servers == options.servers and known.config == options.config:
                del self._idle[index]
                return consumer

        async def begin() -> Consumer:
            consumer = Consumer(options.servers, options.config)
            await consumer.start()
            return consumer

        return await reached(begin, options.reach)

    async def put(self, options: Options, consumer: Consumer) -> None:
        """Return a consumer, which is closed if it has failed."""
        consumer.assign([])
        try:
            # Errors past the end of the range must not reach the next task.
            await consumer.poll_batches(0)
        except ClientError:
            await consumer.close()
            return
        self._idle.append((options, consumer))
        if len(self._idle) > IDLE_MAX:
            _, oldest = self._idle.pop(0)
            await oldest.close()


@cache
def _shelf(process_id: int) -> Shelf:
    # Workers are forked, and connections do not survive a fork.
    return Shelf()


class RangeReading:
    """One reading of one range."""

    def __init__(
        self, consumer: Consumer, one: OffsetRange, options: Options, topic_id: str = ""
    ) -> None:
        self._consumer = consumer
        self._where, self._start, self._stop = one
        self._topic_id = topic_id
        self._options = options
        self._clock = real_environment().clock
        self._doubted_ms: float | None = None
        self._is_over = False

    async def batches(self) -> AsyncGenerator[pa.RecordBatch, None]:
        """The rows of the range, in order."""
        consumer, where = self._consumer, self._where
        consumer.assign([where])
        consumer.seek(where, self._start)
        heard_ms, wait_ms = self._clock.now_ms(), FIRST_WAIT_MS
        while not (self._is_over or has_passed(consumer, where, self._stop)):
            before = self._position
            try:
                found = await consumer.poll_batches(wait_ms)
            except NoOffset as error:
                await self._go_on_behind_loss(error)
                continue
            if found or self._position > before:
                if await self._is_gone():
                    return
                for batch in self._joined(found):
                    yield batch
                # Measured after the yield: Spark may have taken its time with these rows.
                heard_ms, wait_ms, self._doubted_ms = self._clock.now_ms(), FIRST_WAIT_MS, None
                continue
            waited_ms = self._clock.now_ms() - heard_ms
            if wait_ms < WAIT_MS and waited_ms <= self._options.poll_timeout_ms:
                wait_ms = min(2 * wait_ms, WAIT_MS)
                continue
            await self._check_end()
            if waited_ms > self._options.poll_timeout_ms and not self._is_over:
                raise ReadTimedOut(where, self._position, self._options.poll_timeout_ms)

    @property
    def _position(self) -> int:
        position = self._consumer.position(self._where)
        return self._start if position is None else position

    def _joined(self, batches: list[FetchedBatch]) -> Iterator[pa.RecordBatch]:
        parts: list[Part] = []
        rows = size_bytes = 0
        for batch in batches:
            if batch.base_offset >= self._stop:
                break
            columns = batch.columns()
            if batch.next_offset > self._stop:
                columns = columns_before(columns, self._stop)
            if not columns.count:
                continue
            parts.append((columns, int(batch.header.timestamp_type)))
            rows += columns.count
            size_bytes += len(columns.keys.data) + len(columns.values.data)
            if rows >= ROWS_PER_BATCH or size_bytes >= BYTES_PER_BATCH:
                yield self._rows(parts)
                parts, rows, size_bytes = [], 0, 0
        if parts:
            yield self._rows(parts)

    def _rows(self, parts: list[Part]) -> pa.RecordBatch:
        return to_rows(self._where, parts, include_headers=self._options.has_headers)

    async def _go_on_behind_loss(self, error: NoOffset) -> None:
        """Handle a position that the log does not hold."""
        where, offset = self._where, self._position
        if await self._is_gone():
            self._is_over = True
            return
        if isinstance(error, LogTruncated):
            self._lose(
                f"{name_of(where)} has a new leader whose log is another one from offset "
                f"{error.end} on, and {offset} was reached"
            )
        first, last = await self._limits()
        if first <= offset <= last:
            # The log holds it now: a leader that had truncated has caught up.
            await self._clock.sleep(self._options.retry_ms)
        elif first > offset:
            self._lose(f"{name_of(where)} begins at offset {first}, and {offset} was to be read")
            if first >= self._stop:
                self._is_over = True
                return
            offset = first
        else:
            self._lose(f"{name_of(where)} ends at offset {last}, and {offset} was to be read")
            self._is_over = True
            return
        self._consumer.seek(where, offset)

    async def _is_gone(self) -> bool:
        """Whether the topic was recreated, with other records at these offsets."""
        if self._is_of_other():
            # The consumer's metadata may be older than the range.
            await self._consumer._cluster.describe([self._where.topic])
        is_gone = self._is_of_other()
        if is_gone:
            self._lose(f"topic {self._where.topic!r} was deleted and created again")
        self._topic_id = self._topic_id or self._known_id
        return is_gone

    @property
    def _known_id(self) -> str:
        return id_of(self._consumer._cluster.metadata.topics.get(self._where.topic))

    def _is_of_other(self) -> bool:
        return bool(self._topic_id) and self._known_id not in ("", self._topic_id)

    async def _check_end(self) -> None:
        """Check whether the range can still be completed when nothing arrives."""
        where = self._where
        try:
            _, last = await self._limits()
            loss = f"{name_of(where)} ends at offset {last}, and {self._stop} was its end before"
        except ClientError as error:
            if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                # The broker cannot be reached, which may be temporary.
                return
            last, loss = -1, f"{name_of(where)} does not exist any more"
        now_ms = self._clock.now_ms()
        if last >= self._stop:
            self._doubted_ms = None
        elif self._doubted_ms is None:
            self._doubted_ms = now_ms
        elif now_ms - self._doubted_ms > DOUBT_MS:
            self._lose(loss)
            self._is_over = True

    async def _limits(self) -> tuple[int, int]:
        consumer, where = self._consumer, self._where
        first = (await consumer.offsets_at({where: EARLIEST_TIMESTAMP}))[where].offset
        last = (await consumer.offsets_at({where: LATEST_TIMESTAMP}))[where].offset
        return first, last

    def _lose(self, loss: str) -> None:
        if self._options.fails_on_loss:
            raise RecordsLost(loss)
        logger.warning("%s: continuing without the missing records", loss)
