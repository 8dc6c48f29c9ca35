"""TLS handshakes of connections that were accepted and belong to no processor yet.

A handshake costs up to a millisecond of computing. It is computed in worker threads, few at a time,
so that neither the event loop nor what else the threads do waits for a storm of them. Their number
and their time are limited; while others wait, a peer that does not go on has less time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Protocol

from ottla.broker.network.strangers import Strangers
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.clock import TimeLimit
from ottla.wire.tls.failures import TlsError
from ottla.wire.tls.handshake import NoTls, secured

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.network.channel import Supervisor
    from ottla.broker.network.connection_parts import ListenerParts
    from ottla.protocol.ports import Clock, Offload, Result, Socket, Timer
    from ottla.wire.tls.session import TlsSession
    from ottla.wire.tls.tls_socket import TlsSocket

logger = logging.getLogger("ottla.network")

MECHANISM = "SSL"
LIMIT_MS = 10_000.0
PRESSED_LIMIT_MS = 2_000.0
PRESSED_LOOK_MS = 250.0
RUNNING_MAX = 256
# Of the four worker threads, which also flush files.
COMPUTED_AT_ONCE_MAX = 2
# A peer that is refused gets the alert before the end: unread bytes would turn the end into a
# reset, which destroys it.
ALERT_LINGER_MS = 100.0
DISCARDED_BYTES_MAX = 64 * 1024


class Outcome(Protocol):
    """What a processor does with the end of a handshake."""

    def __call__(self, socket: TlsSocket | None, principal: str) -> None: ...


class TlsPeer(NamedTuple):
    """The other end of a handshake, for the audit log."""

    principal: str
    client_host: str
    listener: str


class _Accepted(NamedTuple):
    socket: Socket
    entrance: ListenerParts
    on_end: Outcome
    # When it has to have ended, also if it has to wait for its turn.
    deadline_ms: float


class Handshakes:
    """Shared by all processors. ``on_end`` is called once for each socket, with None if it is
    closed instead."""

    def __init__(self, clock: Clock, tasks: Supervisor, offload: Offload) -> None:
        self.succeeded_count = 0
        self.failed_count = 0
        self.strangers = Strangers()
        # Hears of each peer that has shown a certificate, and of each that was refused: who, how,
        # and why.
        self.on_login: Callable[[TlsPeer, str, str | None], object] = lambda *_: None
        self._clock = clock
        self._tasks = tasks
        self._offload = offload
        self._running: dict[asyncio.Task[None], float] = {}
        # By address, so that one address with many connections does not hold up the others.
        self._waiting: dict[str, deque[_Accepted]] = {}
        self._computing = asyncio.Semaphore(COMPUTED_AT_ONCE_MAX)
        self._timer: Timer | None = None
        self._is_closed = False

    @property
    def running_count(self) -> int:
        return len(self._running)

    @property
    def waiting_count(self) -> int:
        return sum(map(len, self._waiting.values()))

    def begin(self, socket: Socket, entrance: ListenerParts, on_end: Outcome) -> None:
        """Shake hands now, or when others have ended."""
        accepted = _Accepted(socket, entrance, on_end, self._clock.now_ms() + LIMIT_MS)
        if len(self._running) < RUNNING_MAX:
            self._start(accepted)
            return
        self._waiting.setdefault(socket.peer.host, deque()).append(accepted)
        self._press()

    def close(self) -> None:
        """End all of them."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        waiting, self._waiting = self._waiting, {}
        for queue in waiting.values():
            for accepted in queue:
                accepted.socket.close()
                accepted.on_end(None, "")
        for task in list(self._running):
            task.cancel()

    def _start(self, accepted: _Accepted) -> None:
        coroutine = self._run(accepted)
        task = self._tasks.spawn(f"handshake with {accepted.socket.peer}", coroutine)
        self._running[task] = self._clock.now_ms()

        def end(_task: asyncio.Task[None]) -> None:
            # A task that is cancelled before its first step never runs its body.
            coroutine.close()
            del self._running[task]
            if task.cancelled():
                accepted.socket.close()
                accepted.on_end(None, "")
            self._advance()

        task.add_done_callback(end)

    def _advance(self) -> None:
        while self._waiting and len(self._running) < RUNNING_MAX and not self._is_closed:
            host = next(iter(self._waiting))
            queue = self._waiting.pop(host)
            accepted = queue.popleft()
            if queue:
                self._waiting[host] = queue  # behind the other addresses
            self._start(accepted)

    def _press(self) -> None:
        if self._timer is None and not self._is_closed:
            now_ms = self._clock.now_ms()
            self._timer = self._clock.call_at(now_ms + PRESSED_LOOK_MS, self._look)

    def _look(self) -> None:
        """While others wait: end what takes long, and what has waited too long."""
        self._timer = None
        if not self._waiting:
            return
        self._drop_late()
        before_ms = self._clock.now_ms() - PRESSED_LIMIT_MS
        for task, begun_ms in list(self._running.items()):
            if begun_ms < before_ms:
                self.failed_count += 1
                task.cancel()
        self._press()

    def _drop_late(self) -> None:
        now_ms = self._clock.now_ms()
        for host, queue in list(self._waiting.items()):
            while queue and queue[0].deadline_ms <= now_ms:
                late = queue.popleft()
                self.failed_count += 1
                late.socket.close()
                late.on_end(None, "")
            if not queue:
                del self._waiting[host]

    async def _run(self, accepted: _Accepted) -> None:
        socket, entrance, on_end, deadline_ms = accepted
        tls = entrance.spec.tls
        assert tls is not None
        try:
            async with TimeLimit(self._clock, max(0.0, deadline_ms - self._clock.now_ms())):
                secure = await secured(socket, tls.session(), None, self._step)
            principal = tls.principal_of(secure.session)
        except Exception as error:
            self.failed_count += 1
            await self._end(accepted, error)
            on_end(None, "")
            return
        self.succeeded_count += 1
        if secure.session.peer_certificate is not None:
            peer = TlsPeer(principal, socket.peer.host, entrance.spec.name)
            self.on_login(peer, MECHANISM, None)
        on_end(secure, principal)

    async def _step(self, session: TlsSession) -> bool:
        async with self._computing:
            return await self._offload.run(session.shake)

    async def _end(self, accepted: _Accepted, error: Exception) -> None:
        socket, entrance = accepted.socket, accepted.entrance
        name, host = entrance.spec.name, socket.peer.host
        try:
            if isinstance(error, NoTls):
                self.strangers.tell(name, host, str(error))
            elif isinstance(error, TlsError):
                if error.is_final:
                    self.strangers.tell(name, host, error.reason)
                    self.on_login(TlsPeer("User:ANONYMOUS", host, name), MECHANISM, error.reason)
                await self._clock.sleep(ALERT_LINGER_MS)
                _discard(socket)
            elif not isinstance(error, OSError):
                logger.error("a handshake with %s failed", socket.peer, exc_info=error)
        finally:
            socket.close()


class Inline:
    """An offload that computes at once, for a network without one."""

    async def run(self, function: Callable[..., Result], *arguments: object) -> Result:
        return function(*arguments)


def _discard(socket: Socket) -> None:
    rest = memoryview(bytearray(16 * 1024))
    try:
        for _ in range(DISCARDED_BYTES_MAX // len(rest)):
            if socket.recv_into(rest) < len(rest):
                return
    except OSError:
        return
