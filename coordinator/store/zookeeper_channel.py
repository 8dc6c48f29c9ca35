"""One session's requests to the ensemble, and how long the session counts as alive.

The servers count a session's silence from the last request that reached them. This side counts from
the moment when the last answered request was made, which is earlier; so it knows of the end of a
session before the servers act on it, even if no event arrives (C-06), and also in the first step
after the process was suspended (P-02). The requests that keep the session alive come from the event
loop: a blocked loop loses its session (P-01).
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING

from ottla.coordinator.store.store import (
    AnswerUnreadable,
    ConnectionLoss,
    SessionExpired,
    SessionState,
    StoreError,
)
from ottla.coordinator.store.zookeeper_requests import REQUEST_BYTES_MAX, Exists, size_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.store import WatchEvent
    from ottla.coordinator.store.zookeeper_requests import Answered, ConnectionLink, Request
    from ottla.protocol.ports import Clock, Timer

logger = logging.getLogger("ottla.store")

# Enough to fill the servers' own batches (C-16), and far fewer wake-ups than the pipe to the
# connection's thread can hold: a full pipe would block the event loop.
IN_FLIGHT_MAX = 100
# Six heartbeats within one timeout: one lost packet is no reason to doubt a session.
BEATS_PER_TIMEOUT = 6
# A connection that has not answered a request for half a timeout is closed while there is still
# time to reach another server.
PATIENCE = 0.5


class _Call:
    """A request that waits to be sent or answered. A heartbeat has no future."""

    __slots__ = ("connection", "future", "on_success", "request", "sent_ms")

    def __init__(
        self,
        request: Request,
        future: asyncio.Future[object] | None,
        on_success: Callable[[], object] | None,
    ) -> None:
        self.request = request
        self.future = future
        self.on_success = on_success
        self.sent_ms = 0.0
        self.connection = 0


class Channel:
    """Owned by one session. It starts in doubt; once it is lost, it stays so."""

    def __init__(
        self, link: ConnectionLink, clock: Clock, timeout_ms: int, store_name: str = "ZooKeeper"
    ) -> None:
        self.session_id = 0
        # The requested timeout, until the servers have decided.
        self.timeout_ms = timeout_ms
        self.last_answer_ms = 0.0
        self.on_watch: Callable[[WatchEvent], object] = lambda _event: None
        self._link = link
        self._clock = clock
        # The reason, for the log.
        self._store_name = store_name
        self._state = SessionState.SUSPENDED
        self._listeners: list[Callable[[SessionState], object]] = []
        self._waiting: deque[_Call] = deque()
        self._in_flight: deque[_Call] = deque()
        self._connection = 0
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._timer: Timer | None = None

    async def open(self, limit_ms: float) -> None:
        """Return when the session exists. Raises ConnectionLoss without a reason to show."""
        timer = self._clock.call_at(
            self._clock.now_ms() + limit_ms, lambda: self._lose("no server has answered")
        )
        self._link.start(self)
        self._arm()
        try:
            await self._opened
        except BaseException:
            self._lose("its callers have gone")
            raise
        finally:
            timer.cancel()

    @property
    def state(self) -> SessionState:
        """The state, checked against the clock at every call: an expired lease is never used."""
        if self._has_run_out():
            self._lose(f"no answer for {self.timeout_ms} ms")
        return self._state

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        """Call back at every later change of the state."""
        self._listeners.append(callback)

    def call(
        self, request: Request, on_success: Callable[[], object] | None = None
    ) -> asyncio.Future[object]:
        """Send a request. ``on_success`` runs in the step in which the answer arrives.

        Raises SessionExpired, ConnectionLoss: a call does not wait for a new connection. Raises
        StoreError for a request that every server would refuse."""
        size_bytes = size_of(request)
        if size_bytes > REQUEST_BYTES_MAX:
            raise StoreError(f"a request of {size_bytes} bytes is too large for {self._store_name}")
        state = self.state
        if state is SessionState.LOST:
            raise SessionExpired(f"session {self.session_id:#x} is over")
        if state is SessionState.SUSPENDED:
            raise ConnectionLoss(f"session {self.session_id:#x} has no connection")
        future: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Call(request, future, on_success))
        self._send_waiting()
        return future

    def abandon(self, reason: str) -> None:
        """End the session without waiting for the servers."""
        self._lose(reason)

    async def close(self) -> None:
        """End the session. Returns when the servers know, or cannot be reached."""
        if self._state is SessionState.LOST:
            return
        self._end(SessionState.LOST)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._link.stop().add_done_callback(lambda _stopped: _release(waiter))
        timer = self._clock.call_at(
            self._clock.now_ms() + self.timeout_ms, lambda: _release(waiter)
        )
        try:
            await waiter
        finally:
            timer.cancel()

    # Callbacks of the link.

    def on_connected(
        self, connection: int, session_id: int, timeout_ms: int, since_ms: float
    ) -> None:
        if self._state is SessionState.LOST:
            return
        if self.session_id not in (0, session_id):
            self._lose("the servers have opened another one")
            return
        if self._state is SessionState.CONNECTED:
            # The end of the previous connection was not reported, or will be reported later.
            self._suspend("there is a new connection")
        self.session_id, self.timeout_ms = session_id, timeout_ms
        self.last_answer_ms = max(self.last_answer_ms, since_ms)
        self._connection = connection
        self._state = SessionState.CONNECTED
        logger.info(
            "connected to %s, session %#x of %d ms", self._store_name, session_id, timeout_ms
        )
        if not self._opened.done():
            self._opened.set_result(None)
        else:
            self._tell()
        self._arm()

    def on_dropped(self) -> None:
        if self._state is SessionState.CONNECTED:
            self._suspend("the connection is gone")

    def on_ended(self, reason: str) -> None:
        self._lose(reason)

    def on_event(self, event: WatchEvent) -> None:
        if self._state is SessionState.CONNECTED:
            self.on_watch(event)

    # Asking.

    def _send_waiting(self) -> None:
        while self._waiting and len(self._in_flight) < IN_FLIGHT_MAX:
            call = self._waiting.popleft()
            # A call that was cancelled before it was sent is not sent.
            if call.future is None or not call.future.done():
                self._submit(call)

    def _submit(self, call: _Call) -> None:
        call.sent_ms = self._clock.now_ms()
        call.connection = self._connection
        self._in_flight.append(call)
        self._link.submit(call.request, lambda answered: self._on_answer(call, answered))

    def _on_answer(self, call: _Call, answered: Answered) -> None:
        if self._state is not SessionState.CONNECTED or call.connection != self._connection:
            return
        if isinstance(answered.error, AnswerUnreadable):
            # Requests of other callers get no answer; this caller gets one that names the cause.
            _fail(call, answered.error)
            self._give_up_connection(str(answered.error))
            return
        if isinstance(answered.error, ConnectionLoss):
            self._give_up_connection("the connection is gone")
            return
        if self._in_flight[0] is not call:
            self._give_up_connection("the servers answered requests out of order")
            return
        self._in_flight.popleft()
        self.last_answer_ms = max(self.last_answer_ms, call.sent_ms)
        if answered.error is None and call.on_success is not None:
            call.on_success()
        if call.future is not None and not call.future.done():
            if answered.error is not None:
                call.future.set_exception(answered.error)
            else:
                call.future.set_result(answered.result)
        self._send_waiting()

    # Keeping.

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        next_ms = self._clock.now_ms() + self.timeout_ms / BEATS_PER_TIMEOUT
        if self._opened.done():
            next_ms = min(next_ms, self.last_answer_ms + self.timeout_ms)
        self._timer = self._clock.call_at(next_ms, self._beat)

    def _beat(self) -> None:
        # Process arrived messages before checking timeouts: this step may be the first one in a
        # while.
        self._link.deliver()
        if self.state is SessionState.LOST:
            return
        self._link.pulse()
        if self._state is SessionState.CONNECTED:
            now_ms = self._clock.now_ms()
            oldest_ms = self._in_flight[0].sent_ms if self._in_flight else now_ms
            if now_ms - oldest_ms >= self.timeout_ms * PATIENCE:
                self._give_up_connection(f"no answer for {now_ms - oldest_ms:.0f} ms")
            else:
                self._submit(_Call(Exists("/"), None, None))
        self._arm()

    def _has_run_out(self) -> bool:
        return (
            self._state is not SessionState.LOST
            and self._opened.done()
            and self._clock.now_ms() >= self.last_answer_ms + self.timeout_ms
        )

    def _give_up_connection(self, reason: str) -> None:
        connection = self._connection
        self._suspend(reason)
        self._link.drop(connection)

    def _suspend(self, reason: str) -> None:
        logger.warning(
            "session %#x with %s is in doubt: %s", self.session_id, self._store_name, reason
        )
        self._end(SessionState.SUSPENDED)

    def _lose(self, reason: str) -> None:
        if self._state is SessionState.LOST:
            return
        if self.session_id:
            # A session that never began is reported to the caller of ``open``.
            logger.warning(
                "session %#x with %s is lost: %s", self.session_id, self._store_name, reason
            )
        self._end(SessionState.LOST)
        if not self._opened.done():
            self._opened.set_exception(ConnectionLoss(reason))
        # If the link continued, it would renew its own session, or replace it by itself.
        self._link.stop()

    def _end(self, state: SessionState) -> None:
        """Leave CONNECTED or SUSPENDED; the outcome of all unanswered requests is unknown."""
        self._state = state
        if state is SessionState.LOST and self._timer is not None:
            self._timer.cancel()
        calls = [*self._in_flight, *self._waiting]
        self._in_flight.clear()
        self._waiting.clear()
        for call in calls:
            _fail(call, ConnectionLoss(f"{type(call.request).__name__}: the answer was lost"))
        self._tell()

    def _tell(self) -> None:
        for listener in self._listeners:
            listener(self._state)


def _fail(call: _Call, error: StoreError) -> None:
    if call.future is not None and not call.future.done():
        call.future.set_exception(error)


def _release(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
