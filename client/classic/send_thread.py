"""The queue of an asynchronous producer, and the thread that sends its events."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientClosed, ClientError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.client.classic.plug_ins import CallbackHandler, QueueItem

logger = logging.getLogger("ottla.classic")


class QueueFull(ClientError):
    """The queue of an asynchronous producer is full; see ``queue.size``."""

    retriable = True


class QueueLimits(NamedTuple):
    """``queue.time``, ``batch.size``, ``queue.size`` and ``queue.enqueueTimeout.ms``."""

    time_ms: int
    batch_size: int
    size: int
    enqueue_timeout_ms: int


class SendThread:
    """Collects events, and passes batches of them to ``send`` in its own thread."""

    def __init__(
        self,
        limits: QueueLimits,
        callbacks: CallbackHandler,
        send: Callable[[list[QueueItem]], None],
    ) -> None:
        self._limits = limits
        self._callbacks = callbacks
        self._send = send
        self._changed = threading.Condition()
        # Each event with its arrival time.
        self._queue: deque[tuple[float, QueueItem]] = deque()
        self._is_closing = False
        self._thread = threading.Thread(target=self._serve, name="ProducerSendThread", daemon=True)
        self._thread.start()

    def put(self, item: QueueItem) -> None:
        """Queue an event. Raises QueueFull, ClientClosed."""
        item = self._callbacks.before_enqueue(item)
        added = self._added(item)
        self._callbacks.after_enqueue(item, added)
        if not added:
            raise QueueFull(f"the queue holds {self._limits.size} events: see queue.size")

    def close(self) -> None:
        """Send the remaining events, and end the thread."""
        with self._changed:
            self._is_closing = True
            self._changed.notify_all()
        self._thread.join()

    def _added(self, item: QueueItem) -> bool:
        limit_ms = self._limits.enqueue_timeout_ms
        with self._changed:
            self._changed.wait_for(
                lambda: self._is_closing or len(self._queue) < self._limits.size,
                None if limit_ms < 0 else limit_ms / 1000,
            )
            if self._is_closing:
                raise ClientClosed("the producer is closed")
            if len(self._queue) >= self._limits.size:
                return False
            self._queue.append((time.monotonic(), item))
            self._changed.notify_all()
            return True

    def _serve(self) -> None:
        while True:
            items, is_over = self._next_batch()
            found = [one for item in items for one in self._dequeued(item)]
            if is_over:
                found += self._callbacks.last_batch_before_close()
            elif len(items) < self._limits.batch_size:
                found += self._dequeued(None)
            self._hand_over(found)
            if is_over:
                return

    def _next_batch(self) -> tuple[list[QueueItem], bool]:
        """Wait until a batch is full, its time is over, or the producer closes."""
        with self._changed:
            while not self._is_closing and len(self._queue) < self._limits.batch_size:
                left_s = None
                if self._queue:
                    left_s = self._queue[0][0] + self._limits.time_ms / 1000 - time.monotonic()
                    if left_s <= 0:
                        break
                self._changed.wait(left_s)
            count = min(len(self._queue), self._limits.batch_size)
            items = [self._queue.popleft()[1] for _ in range(count)]
            self._changed.notify_all()
            return items, self._is_closing and not self._queue

    def _dequeued(self, item: QueueItem | None) -> list[QueueItem]:
        return self._callbacks.after_dequeuing_existing_data(item)

    def _hand_over(self, items: list[QueueItem]) -> None:
        try:
            items = self._callbacks.before_sending_data(items)
            if items:
                self._send(items)
        except Exception:
            # The call of the application has returned long ago: only the log can report the
            # failure.
            logger.exception("a batch of %d events was not sent", len(items))
