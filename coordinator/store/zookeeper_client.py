"""kazoo with its threads, sockets and sessions: the only place where a thread meets the broker.

That thread only puts its messages on a queue and wakes the event loop (P-07). kazoo's own behaviour
is disabled here: it sends no pings (a blocked loop must lose its session, P-01), queues no requests
without a connection, and opens no second session when the first one has expired.
"""

from __future__ import annotations

import logging
import select
import socket
import ssl
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kazoo.client import KazooClient
from kazoo.exceptions import (
    EXCEPTIONS,
    ConnectionDropped,
    ConnectionLoss,
    KazooException,
    ZookeeperError,
)
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.protocol.connection import ConnectionHandler
from kazoo.protocol.states import KeeperState

from ottla.coordinator.store.zookeeper_log import WithoutContent
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from ottla.coordinator.store.zookeeper_requests import LinkEvents
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.store.kazoo")
logger.addFilter(WithoutContent())

# kazoo waits up to a minute between two attempts, far longer than a session timeout.
_RETRY = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.4, "max_delay": 0.5}
_CLOSE_SECONDS = 5.0
# Windows has none.
_poll = getattr(select, "poll", None)

# Runs a function with these arguments on the event loop, from any thread, in order.
Post = Callable[..., None]


class LinkOptions(NamedTuple):
    """``hosts`` without a chroot; ``root`` is the chroot, "" for none."""

    hosts: str
    root: str
    timeout_ms: int
    digest: str | None
    has_acl: bool
    tls: ssl.SSLContext | None = None
    others_read: bool = False


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads without its workers, which would change the order of events and answers."""

    def __init__(self, connect_limit_seconds: float, tls: ssl.SSLContext | None) -> None:
        super().__init__()
        self._connect_limit_seconds = connect_limit_seconds
        self._tls = tls

    def start(self) -> None:
        """Does nothing: there are no workers."""

    def stop(self) -> None:
        """Does nothing: there are no workers."""

    def create_connection(
        self, address: tuple[str, int], hostname: str, timeout: float, **_settings: Any
    ) -> socket.socket:
        # A host that drops packets must leave time for the other hosts.
        timeout = min(timeout, self._connect_limit_seconds)
        connected: socket.socket = super().create_connection(address=address, timeout=timeout)
        if self._tls is None:
            return connected
        # Not kazoo's own TLS, which trusts the system's authorities in addition to the given ones.
        try:
            return self._tls.wrap_socket(connected, server_hostname=hostname)
        except BaseException:
            connected.close()
            raise

    def dispatch_callback(self, callback: Any) -> None:
        callback.func(*callback.args)

    def select(
        self, readers: list[Any], writers: list[Any], errors: list[Any], timeout: float | None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        # kazoo creates and closes an epoll descriptor for each check, several per request: a third
        # of a request's cost.
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
        # The socket does not show data that TLS has decrypted already.
        waiting = [one for one in readers if isinstance(one, ssl.SSLSocket) and one.pending()]
        limit_ms = None if timeout is None else timeout * 1000
        ready = {place for place, _ in poll.poll(0 if waiting else limit_ms)}
        ready.update(one.fileno() for one in waiting)
        return (
            [one for one in readers if one.fileno() in ready],
            [one for one in writers if one.fileno() in ready],
            [],
        )


class KazooSession(KazooClient):  # type: ignore[misc]
    """One session of kazoo, never a second one."""

    def __init__(self, options: LinkOptions, clock: Clock, post: Post) -> None:
        # Requests and state changes exclude each other: a request queued on a closing connection
        # would be sent on the next one, after its failure was reported.
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
            handler=_Handler(options.timeout_ms / 1000 / (2 * count), options.tls),
            connection_retry=dict(_RETRY),
            auth_data=[("digest", options.digest)] if options.digest else None,
            logger=logger,
        )
        self._connection = _Connection(self, self._conn_retry.copy(), logger=logger)

    def begin(self, events: LinkEvents) -> None:
        self._events = events
        self.start_async()

    def submit(self, request: Any, answer: Any) -> None:
        """``answer`` has kazoo's ``set`` and ``set_exception``, which kazoo's thread calls."""
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

    def end(self, on_ended: Callable[[], object]) -> None:
        """Close the session in a separate thread, because kazoo waits for its own thread there."""
        threading.Thread(
            target=self._end, args=(on_ended,), name="zookeeper stop", daemon=True
        ).start()

    def _end(self, on_ended: Callable[[], object]) -> None:
        try:
            self._stop_and_close()
        except Exception as error:
            logger.warning("the connection did not end: %r", error)
        on_ended()

    def _stop_and_close(self) -> None:
        with self._gate:
            self._is_ending = True
            is_over = self._stopped.is_set()
        # A frozen server does not answer the close request; kazoo would wait for it without limit.
        patience = threading.Timer(
            min(_CLOSE_SECONDS, self._timeout_ms / 2000), self._connection.cut
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
    """kazoo's connection, kept alive only by the event loop's requests."""

    _last_host: tuple[str, int] | None = None

    def cut(self) -> None:
        """Called from another thread: the reader sees the end of the stream."""
        connected = self._socket
        if connected is not None:
            try:
                # Not its own shutdown, which would remove TLS while the reader uses it.
                socket.socket.shutdown(connected, socket.SHUT_RDWR)
            except OSError as error:
                logger.debug("the connection was already closed: %s", error)

    def _send_ping(self, connect_timeout: float) -> None:
        """Never sends: see the head of this file."""

    def _read_socket(self, read_timeout: float) -> Any:
        try:
            return super()._read_socket(read_timeout)
        except (KazooException, OSError, self.handler.timeout_exception):
            raise
        except Exception as error:
            # An invalid length, number or order would end kazoo's thread with a traceback. The next
            # connection starts fresh.
            raise ConnectionDropped(f"an unreadable answer: {error!r}") from error

    def _read_response(self, header: Any, buffer: bytes, offset: int) -> Any:
        pending = self.client._pending
        if header.err and header.err not in EXCEPTIONS and pending and pending[0][2] == header.xid:
            # Newer servers have more reasons to refuse than kazoo has names for.
            error = ZookeeperError()
            error.code = header.err
            pending.popleft()[1].set_exception(error)
            return None
        return super()._read_response(header, buffer, offset)

    def _expand_client_hosts(self) -> list[tuple[str, str, int]]:
        # The server that has just failed comes last.
        found: list[tuple[str, str, int]] = super()._expand_client_hosts()
        return sorted(found, key=lambda place: (place[1], place[2]) == self._last_host)

    def _connect(self, host: str, hostip: str, port: int) -> tuple[float, float]:
        client = self.client
        if not client.is_loop_alive():
            # Resuming the session would keep it alive for a process that does not work (P-01).
            raise ConnectionDropped("the event loop hangs")
        self._last_host = (hostip, port)
        since_ms = client.now_ms()
        read_timeout, connect_timeout = super()._connect(host, hostip, port)
        # kazoo reads for two thirds of the timeout that the servers have granted.
        client.connected(client.client_id[0], round(read_timeout * 1.5), since_ms)
        return read_timeout, connect_timeout
