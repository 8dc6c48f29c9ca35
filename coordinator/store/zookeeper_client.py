"""The real link to a ZooKeeper ensemble: kazoo, in a thread of its own.

Its thread does one thing to this process: it puts what it heard on a queue and wakes the event
loop (P-07). What kazoo would do by itself is switched off here: it sends no pings (a loop that
hangs must lose its session, P-01), lets nothing queue up while there is no connection, and opens
no second session when the first one has expired.
"""

from __future__ import annotations

import asyncio
import logging
import select
import socket
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionDropped, ConnectionLoss
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState

from ottla.coordinator.store.store import StoreError, WatchEvent
from ottla.coordinator.store.zookeeper_requests import Answered
from ottla.coordinator.store.zookeeper_wire import EVENT_KINDS, Wire, error_of, result_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.zookeeper_requests import LinkEvents, Request
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.store.kazoo")

# kazoo waits up to a minute between two attempts, far longer than a session lives.
_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.4, "max_delay": 0.5}
_FAREWELL_SECONDS = 5.0
# Windows has none.
_poll = getattr(select, "poll", None)


class LinkOptions(NamedTuple):
    """``hosts`` without a chroot; ``root`` is the chroot, "" for none."""

    hosts: str
    root: str
    timeout_ms: int
    digest: str | None
    has_acl: bool


class ZooKeeperLink:
    """See ``Link``. Everything here but ``_post`` runs on the event loop."""

    def __init__(self, options: LinkOptions, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        self._events: LinkEvents | None = None
        self._wire = Wire(self._on_watch, options.root, options.has_acl)
        self._kazoo = _Kazoo(options, clock, self._post)
        self._stopped: asyncio.Future[None] | None = None

    def start(self, events: LinkEvents) -> None:
        """Begin to connect, and go on trying until stopped."""
        self._events = events
        self._kazoo.begin(events)

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        """Ask. What cannot be sent is answered as well, a little later."""
        answer = _Answer(self._post, request, on_answer)
        try:
            encoded = self._wire.request(request)
        except StoreError as error:
            self._post(on_answer, Answered(None, error))
            return
        self._kazoo.submit(encoded, answer)

    def pulse(self) -> None:
        """The event loop lives."""
        self._kazoo.pulse()

    def deliver(self) -> None:
        """Tell what has arrived."""
        # First of all: what arrives from now on wakes the loop again.
        self._is_woken = False
        while self._inbox:
            function, arguments = self._inbox.popleft()
            try:
                function(*arguments)
            except Exception as error:
                # One bad listener must not take the other news away.
                self._loop.call_exception_handler(
                    {"message": "a listener of the metadata store failed", "exception": error}
                )

    def drop(self, connection: int) -> None:
        """Cut the connection if it is still this one."""
        self._kazoo.drop(connection)

    def stop(self) -> asyncio.Future[None]:
        """End the session, in a thread: kazoo waits there for its own one."""
        if self._stopped is None:
            self._stopped = self._loop.create_future()
            stopping = threading.Thread(
                target=self._stop, args=(self._stopped,), name="zookeeper stop", daemon=True
            )
            stopping.start()
        return self._stopped

    def _stop(self, stopped: asyncio.Future[None]) -> None:
        try:
            self._kazoo.end()
        except Exception as error:
            logger.warning("the connection did not end: %r", error)
        self._post(_resolve, stopped)

    def _on_watch(self, event: Any) -> None:
        # In kazoo's thread. Kinds without a meaning here tell of states, which are told apart.
        kind = EVENT_KINDS.get(event.type)
        if kind is not None and self._events is not None:
            self._post(self._events.on_event, WatchEvent(kind, event.path))

    def _post(self, function: Callable[..., object], *arguments: Any) -> None:
        """From any thread, in order."""
        self._inbox.append((function, arguments))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self.deliver)
            except RuntimeError:
                logger.debug("nobody is left to be told: the event loop is closed")


def _resolve(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


class _Answer:
    """What kazoo calls when a request is answered, in its own thread."""

    __slots__ = ("_on_answer", "_post", "_request")

    def __init__(
        self,
        post: Callable[..., None],
        request: Request,
        on_answer: Callable[[Answered], None],
    ) -> None:
        self._post = post
        self._request = request
        self._on_answer = on_answer

    def set(self, value: Any = None) -> None:
        self._post(self._read, value)

    def set_exception(self, error: Exception) -> None:
        self._post(self._on_answer, Answered(None, error_of(self._request, error)))

    def _read(self, value: Any) -> None:
        try:
            answered = Answered(result_of(self._request, value), None)
        except StoreError as error:
            answered = Answered(None, error)
        self._on_answer(answered)


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without its workers: they would mix up the order of events and answers."""

    def __init__(self, connect_limit_seconds: float) -> None:
        super().__init__()
        self._connect_limit_seconds = connect_limit_seconds

    def start(self) -> None:
        """Nothing to start."""

    def stop(self) -> None:
        """Nothing to stop."""

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, readers: list[Any], writers: list[Any], errors: list[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        # kazoo makes and closes an epoll descriptor for each look, several for each request:
        # a third of what a request costs.
        if _poll is None:
            found: tuple[list[Any], list[Any], list[Any]] = super().select(
                readers, writers, errors, timeout
            )
            return found
        poll = _poll()
        for one in readers:
            poll.register(one, select.POLLIN)
        for one in writers:
            poll.register(one, select.POLLOUT)
        ready = {place for place, _ in poll.poll(None if timeout is None else timeout * 1000)}
        return (
            [one for one in readers if one.fileno() in ready],
            [one for one in writers if one.fileno() in ready],
            [],
        )


class _Kazoo(KazooClient):  # type: ignore[misc]
    """One session of kazoo's, and never a second one."""

    def __init__(self, options: LinkOptions, clock: Clock, post: Callable[..., None]) -> None:
        # Requests and changes of the state exclude each other: nothing is queued on a connection
        # that is going, which would be sent on the next one, after its failure was told.
        self._gate = threading.RLock()
        self._clock = clock
        self._post = post
        self._events: LinkEvents | None = None
        self._pulse_ms = clock.now_ms()
        self._timeout_ms = options.timeout_ms
        self._is_ending = False
        self.connection_count = 0
        count = options.hosts.count(",") + 1
        super().__init__(
            hosts=options.hosts,
            timeout=options.timeout_ms / 1000,
            handler=_Handler(options.timeout_ms / 1000 / (2 * count)),
            connection_retry=dict(_RETRY),
            auth_data=[("digest", options.digest)] if options.digest else None,
            logger=logger,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger)

    def begin(self, events: LinkEvents) -> None:
        self._events = events
        self.start_async()

    def submit(self, request: Any, answer: _Answer) -> None:
        with self._gate:
            if self._live.is_set():
                self._call(request, answer)
            else:
                answer.set_exception(ConnectionLoss())

    def pulse(self) -> None:
        self._pulse_ms = self._clock.now_ms()

    def drop(self, connection: int) -> None:
        with self._gate:
            if connection == self.connection_count:
                self._connection.cut()

    def end(self) -> None:
        """Blocks until the session is closed, or its thread has seen that it shall not be."""
        with self._gate:
            self._is_ending = True
            is_over = self._stopped.is_set()
        # A frozen server does not answer the farewell; kazoo would wait for it without end.
        patience = threading.Timer(
            min(_FAREWELL_SECONDS, self._timeout_ms / 2000), self._connection.cut
        )
        patience.daemon = True
        patience.start()
        try:
            if is_over:
                self._safe_close()
            else:
                self.stop()
        finally:
            patience.cancel()
        self.close()

    def connected(self, session_id: int, timeout_ms: int, since_ms: float) -> None:
        with self._gate:
            self.connection_count += 1
            if self._events is not None:
                self._post(
                    self._events.on_connected,
                    self.connection_count,
                    session_id,
                    timeout_ms,
                    since_ms,
                )

    def now_ms(self) -> float:
        return self._clock.now_ms()

    def is_loop_alive(self) -> bool:
        return self._clock.now_ms() - self._pulse_ms < self._timeout_ms

    def _session_callback(self, state: Any) -> None:
        with self._gate:
            super()._session_callback(state)
            if self._is_ending or self._events is None:
                return
            if state == KeeperState.CONNECTING:
                self._post(self._events.on_dropped)
            elif state in (KeeperState.EXPIRED_SESSION, KeeperState.AUTH_FAILED):
                # Without this kazoo would open the next session by itself.
                self._stopped.set()
                self._post(self._events.on_ended, f"the servers say {state}")
            elif state == KeeperState.CLOSED:
                self._post(self._events.on_ended, "the connection's thread has ended")


class _Connection(ConnectionHandler):  # type: ignore[misc]
    """kazoo's connection, kept by the event loop's requests alone."""

    _last_host: tuple[str, int] | None = None

    def cut(self) -> None:
        """From another thread: the reader sees the end of the stream."""
        connected = self._socket
        if connected is not None:
            try:
                connected.shutdown(socket.SHUT_RDWR)
            except OSError as error:
                logger.debug("the connection was gone already: %s", error)

    def _send_ping(self, connect_timeout: float) -> None:
        """Never: see the head of this file."""

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        # The server that has just failed comes last.
        found: list[tuple[str, str, int]] = super()._expand_client_hosts()
        return sorted(found, key=lambda place: (place[1], place[2]) == self._last_host)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        client = self.client
        if not client.is_loop_alive():
            # Taking the session up again would keep it for a process that does nothing (P-01).
            raise ConnectionDropped("the event loop hangs")
        self._last_host = (hostip, port)
        since_ms = client.now_ms()
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        # kazoo reads for two thirds of what the servers have granted.
        client.connected(client.client_id[0], round(read_timeout * 1.5), since_ms)
        return read_timeout, connect_timeout
