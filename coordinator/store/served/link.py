"""A session's connection to the process that serves the store: see ``ConnectionLink``."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.served import messages
from ottla.coordinator.store.served.messages import BadMessage, Open, Opened, SessionOver
from ottla.coordinator.store.served.stream import MessageStream
from ottla.coordinator.store.store import ConnectionLoss, WatchEvent
from ottla.coordinator.store.zookeeper_requests import Answered
from ottla.protocol.ports import SocketOptions

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.embedded import Spawn
    from ottla.coordinator.store.zookeeper_requests import LinkEvents, Request
    from ottla.protocol.ports import Address, Clock, Net

RETRY_MS = 100.0
# An attempt takes at most a third of the timeout, which leaves time for two more.
ATTEMPTS_PER_TIMEOUT = 3
CLOSE_LIMIT_MS = 2_000.0


class ServedLink:
    """Owned by one session. ``owner`` is the broker that has the session."""

    def __init__(
        self, net: Net, clock: Clock, spawn: Spawn, address: Address, wanted: Open
    ) -> None:
        self._net = net
        self._clock = clock
        self._spawn = spawn
        self._address = address
        self._wanted = wanted
        self._loop = asyncio.get_running_loop()
        self._events: LinkEvents | None = None
        self._stream: MessageStream | None = None
        self._connection = 0
        self._is_open = False
        self._is_connecting = False
        self._asked_ms = 0.0
        self._unanswered: deque[tuple[Request, Callable[[Answered], None]]] = deque()
        self._stopped: asyncio.Future[None] | None = None

    def start(self, events: LinkEvents) -> None:
        self._events = events
        self._connect_soon()

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        if self._stream is None or not self._is_open:
            loss = Answered(None, ConnectionLoss("there is no connection"))
            self._loop.call_soon(on_answer, loss)
            return
        self._unanswered.append((request, on_answer))
        self._stream.send(messages.encode_request(request))

    def pulse(self) -> None:
        """Does nothing: everything happens on the event loop."""

    def deliver(self) -> None:
        if self._stream is not None:
            self._stream.read()

    def drop(self, connection: int) -> None:
        if connection == self._connection and self._stream is not None:
            self._stream.close()
            self._on_end("it was given up")

    def stop(self) -> asyncio.Future[None]:
        if self._stopped is None:
            self._stopped = self._loop.create_future()
            if self._stream is not None and self._is_open:
                self._stream.send(messages.encode_close())
                self._clock.call_at(self._clock.now_ms() + CLOSE_LIMIT_MS, self._finish)
            else:
                self._finish()
        return self._stopped

    def _finish(self) -> None:
        if self._stream is not None:
            self._stream.close()
            self._stream = None
        self._is_open = False
        if self._stopped is not None and not self._stopped.done():
            self._stopped.set_result(None)

    # ---- connecting ----

    def _connect_soon(self) -> None:
        if not self._is_connecting:
            self._is_connecting = True
            self._spawn("store connection", self._connect())

    async def _connect(self) -> None:
        while self._stream is None and not self._is_stopped():
            limit_s = self._wanted.timeout_ms / 1_000 / ATTEMPTS_PER_TIMEOUT
            try:
                async with asyncio.timeout(limit_s):
                    socket = await self._net.connect(self._address, SocketOptions())
            except OSError:
                # TimeoutError is an OSError, too.
                await self._clock.sleep(RETRY_MS)
                continue
            if self._is_stopped():
                socket.close()
                break
            self._asked_ms = self._clock.now_ms()
            self._connection += 1
            stream = MessageStream(socket, self._on_message, self._on_end)
            self._stream = stream
            stream.send(messages.encode_open(self._wanted))
            # A server that accepts but stays silent must not keep the session from another attempt.
            self._clock.call_at(
                self._asked_ms + self._wanted.timeout_ms / ATTEMPTS_PER_TIMEOUT,
                lambda stream=stream: self._give_up_unopened(stream),  # type: ignore[misc]
            )
        self._is_connecting = False

    def _is_stopped(self) -> bool:
        return self._stopped is not None

    def _give_up_unopened(self, stream: MessageStream) -> None:
        if self._stream is stream and not self._is_open:
            stream.close()
            self._on_end("the store does not answer")

    # ---- what is told ----

    def _on_message(self, message: list[Any]) -> None:
        asked = self._unanswered[0][0] if self._unanswered else None
        told = messages.decode_told(message, asked)
        assert self._events is not None
        match told:
            case Opened(session_id, timeout_ms):
                if self._is_open:
                    raise BadMessage("a second session")
                self._is_open = True
                self._wanted = self._wanted._replace(session_id=session_id, timeout_ms=timeout_ms)
                if self._stopped is None:
                    self._events.on_connected(
                        self._connection, session_id, timeout_ms, self._asked_ms
                    )
            case SessionOver(reason):
                self._finish()
                self._events.on_ended(reason)
            case WatchEvent():
                self._events.on_event(told)
            case Answered():
                self._unanswered.popleft()[1](told)

    def _on_end(self, _reason: str) -> None:
        was_open, self._is_open, self._stream = self._is_open, False, None
        if self._stopped is not None:
            self._finish()
            return
        assert self._events is not None
        if was_open:
            self._events.on_dropped()
        unanswered = list(self._unanswered)
        self._unanswered.clear()
        for _, on_answer in unanswered:
            on_answer(Answered(None, ConnectionLoss("the connection is gone")))
        self._connect_later()

    def _connect_later(self) -> None:
        self._clock.call_at(
            self._clock.now_ms() + RETRY_MS,
            lambda: self._connect_soon() if self._stopped is None else None,
        )
