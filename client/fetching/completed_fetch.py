"""The data of one fetch for one partition, until the application takes it.

Batch headers are read on arrival, records only when they are taken: checking, decompressing and
decoding happen in the application's turn, at its pace, a batch at a time.
"""

from __future__ import annotations

import sys
from collections import deque
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.fetching.batches import ConsumerRecord as ConsumerRecord
from ottla.client.fetching.batches import FetchedBatch, last_offset
from ottla.client.fetching.visibility import Aborted, visible_batches
from ottla.protocol.errors import KafkaError
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.batch import MAGIC, MAGIC_POSITION, iterate_whole_batches, parse_batch
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.client.fetching.fetch_request import WantedPartition
    from ottla.client.settings.config import ConsumerConfig
    from ottla.protocol.message_sets.stored import StoredMessages
    from ottla.protocol.records.batch import RecordBatch
    from ottla.protocol.records.columns import Columns


class Enough(NamedTuple):
    """A number of records and of bytes, whichever is reached first."""

    records: int
    size_bytes: int


EVERYTHING = Enough(sys.maxsize, sys.maxsize)


class CompletedFetch:
    """Taken from front to back, once. Owned by one fetcher.

    ``position`` is the offset after what was taken, and ``next_offset`` the one after the last
    whole batch, None if there is none; ``last_epoch`` is the leader epoch of that batch."""

    __slots__ = (
        "_batches",
        "_config",
        "_next_index",
        "_opened",
        "_records",
        "last_epoch",
        "next_offset",
        "partition",
        "position",
        "turn",
    )

    def __init__(
        self,
        want: WantedPartition,
        data: memoryview,
        aborted: list[Aborted] | None,
        config: ConsumerConfig,
    ) -> None:
        """Raises KafkaError if the data does not begin with a record batch or a message."""
        self.partition = want.partition
        self.turn = want.turn
        self.position = want.offset
        self._config = config
        self._batches: deque[tuple[RecordBatch, bool]] = deque()
        try:
            for batch, is_visible in visible_batches(_batches_of(data), aborted):
                # A broker sends whole batches, so the first may begin before the wanted offset.
                if batch.next_offset > want.offset:
                    self._batches.append((batch, is_visible))
        except KafkaError:
            # Keep the good batches before the damage; a later fetch meets the damage again.
            if not self._batches:
                raise
        self.next_offset = self._batches[-1][0].next_offset if self._batches else None
        self.last_epoch = self._batches[-1][0].leader_epoch if self._batches else -1
        # The batch whose records are being taken, its records, and the index of the next one.
        self._opened: RecordBatch | None = None
        self._records: list[ConsumerRecord] = []
        self._next_index = 0

    @property
    def is_done(self) -> bool:
        """Whether everything has been taken."""
        return self._opened is None and not self._batches

    def take_batch(self) -> FetchedBatch | None:
        """Take the rest of the current batch, or the next visible one; None at the end.

        The batch is not decoded: damage raises when the application opens it."""
        batch = self._opened if self._opened is not None else self._next_visible()
        if batch is None:
            return None
        found = FetchedBatch(self.partition, batch, self.position, self._config)
        self._leave(batch)
        return found

    def take(self, count: int) -> list[ConsumerRecord]:
        """Take the next records, at most that many; none only at the end.

        Raises RequestRefused with CORRUPT_MESSAGE, and then has not moved past the damage."""
        found: list[ConsumerRecord] = []
        while len(found) < count:
            try:
                if self._opened is None and not self._open_next():
                    break
            except RequestRefused:
                # Return the good records first; the next call raises.
                if found:
                    break
                raise
            self._take_opened(found, count - len(found))
        return found

    def take_columns(self, count: int, enough: Enough = EVERYTHING) -> list[Columns]:
        """Take the next records as columns, one for each batch; stop once there are ``enough``.

        Batches stay whole if that many records are wanted. Raises as ``take``."""
        found: list[Columns] = []
        stop, size_bytes = max(count - enough.records, 0), 0
        while count > stop and size_bytes < enough.size_bytes:
            batch = self._opened if self._opened is not None else self._next_visible()
            if batch is None or (found and batch.size_bytes >= enough.size_bytes):
                # A large batch would be copied only to join it to the smaller ones before it.
                break
            fetched = FetchedBatch(self.partition, batch, self.position, self._config)
            # The last use of this batch, so its buffer may be overwritten.
            is_last = batch.record_count <= count
            try:
                columns = fetched.last_columns() if is_last else fetched.columns()
            except RequestRefused:
                if found:
                    break
                raise
            if columns.count <= count:
                self._leave(batch)
            elif found:
                # Returned whole next time: cutting it would decode it twice.
                break
            else:
                columns = columns.slice(0, count)
                self.position = last_offset(columns) + 1
                self._opened = None
            count -= columns.count
            size_bytes += batch.size_bytes
            if columns.count:
                found.append(columns)
        return found

    def _take_opened(self, found: list[ConsumerRecord], count: int) -> None:
        assert self._opened is not None
        start, stop = self._next_index, self._next_index + count
        if stop >= len(self._records):
            found += self._records[start:] if start else self._records
            self._leave(self._opened)
        else:
            found += self._records[start:stop]
            self._next_index = stop
            self.position = self._records[stop - 1].offset + 1

    def _open_next(self) -> bool:
        """Decode the next visible batch; False at the end. Raises RequestRefused."""
        batch = self._next_visible()
        if batch is None:
            return False
        fetched = FetchedBatch(self.partition, batch, self.position, self._config)
        self._records = fetched.records()
        self._next_index = 0
        self._opened = batch
        return True

    def _next_visible(self) -> RecordBatch | None:
        """Return the first visible batch, without removing it; drop hidden ones before it."""
        while self._batches:
            batch, is_visible = self._batches[0]
            if is_visible:
                return batch
            self._leave(batch)
        return None

    def _leave(self, batch: RecordBatch) -> None:
        """Remove the first batch, which has been taken to its end."""
        assert self._batches[0][0] is batch
        self._batches.popleft()
        self.position = batch.next_offset
        self._opened = None
        self._records = []


def _batches_of(data: memoryview) -> Iterator[RecordBatch]:
    """The batches of an answer; messages of older formats are made batches first."""
    position = 0
    if not _is_message(data, 0):
        for batch in iterate_whole_batches(data):
            yield batch
            position += batch.size_bytes
            if _is_message(data, position):
                break
    if _is_message(data, position):
        rest = data[position:]
        read = partial(_piece, rest)
        for content in _stored_messages()(read, len(rest)):
            yield parse_batch(memoryview(bytearray(content)))


def _piece(data: memoryview, start: int, size_bytes: int) -> bytes:
    return bytes(data[start : start + size_bytes])


def _is_message(data: memoryview, position: int) -> bool:
    return len(data) - position > MAGIC_POSITION and data[position + MAGIC_POSITION] < MAGIC


def _stored_messages() -> type[StoredMessages]:
    """Loaded by consumers that meet such messages only."""
    from ottla.protocol.message_sets.stored import StoredMessages

    return StoredMessages
