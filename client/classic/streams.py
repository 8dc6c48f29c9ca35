"""Streams: blocking iterators over the messages of the partitions that a consumer owns.

The event loop puts fetched batches into a stream, and removes them when partitions are released.
The application's thread decodes the batches and returns one message at a time. A message counts as
consumed when the iterator has returned it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING, Generic, Self, TypeVar

from ottla.protocol.ids import TopicPartition
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.client.fetching.batches import FetchedBatch
    from ottla.client.records.consumer_record import ConsumerRecord

Key = TypeVar("Key")
Message = TypeVar("Message")

# How often a stream checks again whether the session is alive, while that is in doubt.
DOUBT_S = 0.1


class ConsumerTimedOut(TimeoutError):
    """No message arrived within ``consumer.timeout.ms``; the stream may be read on."""


class MessageAndMetadata(NamedTuple, Generic[Key, Message]):
    """A message, and where it stands.

    Attributes:
        topic: The topic's name.
        partition: The partition's number.
        offset: The message's offset in the partition.
        key: The key, decoded; None if it has none.
        message: The message, decoded; None for a tombstone.
        timestamp: The message's time, in milliseconds since 1970.
    """

    topic: str
    partition: int
    offset: int
    key: Key | None
    message: Message | None
    timestamp: int


class StreamDecoders(NamedTuple):
    """The decoders of keys and messages; None returns bytes."""

    key: Callable[[bytes], object] | None = None
    message: Callable[[bytes], object] | None = None


class StreamQueue:
    """The batches of one stream. The event loop calls ``put``, ``hold`` and ``end``."""

    def __init__(self, is_alive: Callable[[], bool], on_room: Callable[[], object]) -> None:
        """``on_room`` is called in the application's thread after a batch was used up."""
        self._is_alive = is_alive
        self._on_room = on_room
        self._changed = threading.Condition()
        self._batches: deque[FetchedBatch] = deque()
        self._records: deque[ConsumerRecord[bytes, bytes]] = deque()
        # The batch that the records come from.
        self._open: FetchedBatch | None = None
        self._turn = 0
        self._consumed: dict[TopicPartition, int] = {}
        self._failure: Exception | None = None
        self._is_over = False

    @property
    def batch_count(self) -> int:
        """Number of batches that no thread has opened."""
        return len(self._batches)

    def put(self, batch: FetchedBatch) -> None:
        """Add a batch of one of the stream's partitions."""
        with self._changed:
            self._batches.append(batch)
            self._changed.notify()

    def consumed(self) -> dict[TopicPartition, int]:
        """Return the offset after the last returned message, by partition."""
        with self._changed:
            return dict(self._consumed)

    def hold(self) -> dict[TopicPartition, int]:
        """Drop all waiting batches; return what was consumed since the last call."""
        with self._changed:
            self._turn += 1
            self._batches.clear()
            self._records.clear()
            self._open = None
            consumed, self._consumed = self._consumed, {}
            return consumed

    def fail(self, error: Exception) -> None:
        """Raise this error in the application's thread, after the messages before it."""
        with self._changed:
            self._failure = error
            self._changed.notify_all()

    def end(self) -> None:
        """End the iterator."""
        with self._changed:
            self._is_over = True
            self._changed.notify_all()

    def take(self, limit_s: float | None) -> ConsumerRecord[bytes, bytes] | None:
        """Return the next message; None at the end. Raises ConsumerTimedOut, or the error of
        ``fail``."""
        deadline_s = None if limit_s is None else time.monotonic() + limit_s
        while True:
            with self._changed:
                if (record := self._next()) is not None:
                    return record
                batch, turn = self._opened()
                if batch is None:
                    if self._is_over:
                        return None
                    if self._failure is not None:
                        raise self._failure
                    self._wait(deadline_s)
                    continue
            # Decoded without the lock, because the event loop may wait for it.
            records = batch.records()
            with self._changed:
                if turn == self._turn:
                    self._records.extend(records)
            self._on_room()

    def _next(self) -> ConsumerRecord[bytes, bytes] | None:
        """Return the next message of the open batch, while the session is alive."""
        if not self._records or not self._is_alive():
            return None
        record = self._records.popleft()
        offset = record.offset + 1
        if not self._records and self._open is not None:
            # The offsets after the last record are empty.
            offset, self._open = self._open.next_offset, None
        self._consumed[TopicPartition(record.topic, record.partition)] = offset
        return record

    def _opened(self) -> tuple[FetchedBatch | None, int]:
        """Return the next batch if the open one is used up."""
        if self._records or not self._batches:
            return None, self._turn
        self._open = self._batches.popleft()
        return self._open, self._turn

    def _wait(self, deadline_s: float | None) -> None:
        left_s = None if deadline_s is None else deadline_s - time.monotonic()
        if left_s is not None and left_s <= 0:
            raise ConsumerTimedOut("no message arrived within consumer.timeout.ms")
        if self._records:
            # The session may be over; the event loop will report that.
            left_s = DOUBT_S if left_s is None else min(left_s, DOUBT_S)
        self._changed.wait(left_s)


class KafkaStream(Generic[Key, Message]):
    """A blocking iterator over messages, for one thread.

    It ends after ``shutdown``, and raises ConsumerTimedOut after ``consumer.timeout.ms``."""

    def __init__(
        self, queue: StreamQueue, timeout_ms: int, decoders: StreamDecoders, client_id: str
    ) -> None:
        self._queue = queue
        self._limit_s = None if timeout_ms < 0 else timeout_ms / 1000
        self._decoders = decoders
        self.client_id = client_id

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> MessageAndMetadata[Key, Message]:
        record = self._queue.take(self._limit_s)
        if record is None:
            raise StopIteration
        return self._decoded(record)

    def _decoded(self, record: ConsumerRecord[bytes, bytes]) -> MessageAndMetadata[Key, Message]:
        read_key, read_message = self._decoders
        key: object = record.key
        if record.key is not None and read_key is not None:
            key = read_key(record.key)
        message: object = record.value
        if record.value is not None and read_message is not None:
            message = read_message(record.value)
        return MessageAndMetadata(
            record.topic,
            record.partition,
            record.offset,
            key,  # type: ignore[arg-type]
            message,  # type: ignore[arg-type]
            record.timestamp,
        )

    def iterator(self) -> Iterator[MessageAndMetadata[Key, Message]]:
        """The stream itself, as the documents' ``iterator()``."""
        return self
