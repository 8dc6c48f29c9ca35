"""The request channel: handler slots that call the API layer, and the bounded queue before them.

While a handler is free a request is handed straight through, in the call that received it. A
handler is taken only by an ordered part that suspends here (not by one that waits for another
broker); when all are, requests wait in the queue, and connections that find it full are not read
from until there is room (never dropped).
"""

from __future__ import annotations

import logging
from collections import deque
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.engine.context import Paused

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Coroutine

    from ottla.broker.engine.context import Dispatch
    from ottla.broker.network.request import Request, RequestOwner

    class Supervisor(Protocol):
        """What runs suspended ordered parts: ``broker/engine/tasks.py``."""

        def spawn(self, name: str, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]: ...


logger = logging.getLogger("ottla.network")


class Handler:
    """One slot. ``serving`` names the connection whose ordered part holds it, or is empty."""

    __slots__ = ("name", "request_count", "serving")

    def __init__(self, name: str) -> None:
        self.name = name
        self.request_count = 0
        self.serving = ""


class RequestChannel:
    """Shared by all processors; a priority listener has one of its own."""

    __slots__ = (
        "_parked",
        "_queue",
        "_tasks",
        "dispatch",
        "free",
        "handlers",
        "on_queued",
        "queue_max",
    )

    def __init__(
        self, handlers: list[Handler], queue_max: int, dispatch: Dispatch, tasks: Supervisor
    ) -> None:
        assert handlers
        assert queue_max > 0
        self.handlers = handlers
        self.free = list(reversed(handlers))
        self.queue_max = queue_max
        self.dispatch = dispatch
        # Told of each request that has to wait for a handler, while a trace is under way.
        self.on_queued: Callable[[memoryview], object] | None = None
        self._tasks = tasks
        self._queue: deque[tuple[Request, memoryview]] = deque()
        self._parked: deque[RequestOwner] = deque()

    @property
    def is_full(self) -> bool:
        """Whether a request would find neither a handler nor a place in the queue."""
        return not self.free and len(self._queue) >= self.queue_max

    @property
    def queued_count(self) -> int:
        return len(self._queue)

    @property
    def parked_count(self) -> int:
        """Connections that are not read from because the queue is full."""
        return len(self._parked)

    def park(self, connection: RequestOwner) -> None:
        """Tell the connection by ``on_channel_room`` when it may try again."""
        self._parked.append(connection)

    def submit(self, request: Request, frame: memoryview) -> bool:
        """Handle or queue a request; the channel is not full.

        True: the ordered part is over. False: it is not, the connection's ``open_lane`` is called
        when it is, and the frame's bytes must stay until then."""
        if not self.free:
            assert len(self._queue) < self.queue_max
            self._queue.append((request, frame))
            if self.on_queued is not None:
                self.on_queued(frame)
            return False
        handler = self.free[-1]
        handler.request_count += 1
        connection = request.owner
        try:
            coroutine = self.dispatch(connection, frame, request)
        except Exception as error:
            self._on_failure(handler, request, error)
            return True
        if coroutine is None:
            return True
        if isinstance(coroutine, Paused):
            self._pause(handler, request, coroutine.coroutine)
            return False
        self.free.pop()
        handler.serving = connection.connection_id
        guarded = self._guard(handler, request, coroutine)
        task = self._tasks.spawn(handler.name, guarded)
        task.add_done_callback(partial(self._on_done, handler, connection, coroutine))
        return False

    def _pause(
        self, handler: Handler, request: Request, coroutine: Coroutine[Any, Any, None]
    ) -> None:
        """Run an ordered part that the connection has to wait for, and no handler."""
        connection = request.owner

        def end(_task: asyncio.Task[None]) -> None:
            coroutine.close()
            connection.open_lane()

        guarded = self._guard(handler, request, coroutine)
        name = f"paused request of {connection.connection_id}"
        self._tasks.spawn(name, guarded).add_done_callback(end)

    async def _guard(
        self, handler: Handler, request: Request, coroutine: Coroutine[Any, Any, None]
    ) -> None:
        try:
            await coroutine
        except Exception as error:
            self._on_failure(handler, request, error)

    def _on_failure(self, handler: Handler, request: Request, error: Exception) -> None:
        # The answer may be half-way out, and what the request has done is unknown: the client
        # learns exactly that from a closed connection. Other clients must not be affected.
        connection = request.owner
        logger.error(
            "%s failed on connection %s", handler.name, connection.connection_id, exc_info=error
        )
        if request.parts is None:
            request.close(f"{handler.name} failed")
        else:
            connection.end(f"{handler.name} failed")

    def _on_done(
        self,
        handler: Handler,
        connection: RequestOwner,
        coroutine: Coroutine[Any, Any, None],
        _task: asyncio.Task[None],
    ) -> None:
        # A task that is cancelled before its first step never runs its body, so this cannot be a
        # ``finally`` of it: the slot would be lost and the coroutine never awaited.
        coroutine.close()
        handler.serving = ""
        self.free.append(handler)
        connection.open_lane()
        self._advance()

    def _advance(self) -> None:
        """Hand out what waits: queued requests to handlers, then room to parked connections."""
        while self.free and self._queue:
            request, frame = self._queue.popleft()
            connection = request.owner
            if connection.closed or self.submit(request, frame):
                connection.open_lane()
        # With a handler free, the requests of those woken may all end at once, and nothing would
        # call this again for the rest.
        room = len(self._parked) if self.free else self.queue_max - len(self._queue)
        for _ in range(min(room, len(self._parked))):
            self._parked.popleft().on_channel_room()
