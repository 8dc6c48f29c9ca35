"""The simulated ensemble's client: what a broker takes for its store.

Lives in the process that made it: while that is stopped no pings are sent, and events that arrive
meanwhile are handled afterwards, in order. A session is SUSPENDED as soon as its connection is
gone, and LOST when the ensemble says so or, by this process's own clock, a timeout after the last
proof (hazard C-06).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.store.store import (
    ANY_VERSION,
    SESSION_TIMEOUT_MS,
    ConnectionLoss,
    Create,
    Created,
    Delete,
    Operation,
    Replace,
    SessionExpired,
    SessionState,
    Stat,
    Watch,
    Znode,
)
from ottla.coordinator.store.tree import in_group
from tests.simulation.cluster.attachment import Ask, Connection
from tests.simulation.cluster.ensemble import STORE_HOST
from tests.simulation.world.process import SimProcess
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    import contextvars
    from collections.abc import Callable, Sequence

    from ottla.coordinator.store.store import OperationResult
    from ottla.protocol.ports import Clock, Ports
    from tests.simulation.cluster.ensemble import Ensemble, StoreSession

PINGS_PER_TIMEOUT = 3
RETRY_MS = (20.0, 300.0)
CONNECT_ATTEMPT_MS = 1_000.0
CONNECT_TIMEOUT_MS = 10_000.0


class Surroundings(NamedTuple):
    """Where the client runs. ``check`` raises when its process is no more."""

    host: str
    context: contextvars.Context
    clock: Clock
    random: SimRandom
    check: Callable[[], object]

    @staticmethod
    def of(host: str, ports: Ports) -> Surroundings:
        """Of a simulated process."""
        process = ports.process
        assert isinstance(process, SimProcess)
        random = ports.random
        assert isinstance(random, SimRandom)
        return Surroundings(
            host, process.domain.context(), ports.clock, random.child("store"), process.check
        )


class SimStore:
    """One for each process. ``Store`` of the product."""

    def __init__(self, ensemble: Ensemble, around: Surroundings) -> None:
        self._ensemble = ensemble
        self._around = around

    def __str__(self) -> str:
        """The name used in messages to clients; a memory address would differ in each run."""
        return "the simulated store"

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> SimSession:
        """Open a session. Raises ConnectionLoss."""
        self._around.check()
        clock = self._around.clock
        deadline_ms = clock.now_ms() + CONNECT_TIMEOUT_MS
        session = SimSession(self._ensemble, self._around, timeout_ms)
        while clock.now_ms() < deadline_ms:
            await session.attach()
            if session.state is SessionState.CONNECTED:
                return session
            if session.state is SessionState.LOST:
                # It ended before its first answer arrived: a client goes on with a new one.
                session = SimSession(self._ensemble, self._around, timeout_ms)
            await clock.sleep(self._around.random.between(*RETRY_MS))
        raise ConnectionLoss("the ensemble does not answer")


class SimSession:
    """See ``store.Session`` for the meaning of each call."""

    def __init__(self, ensemble: Ensemble, around: Surroundings, timeout_ms: int) -> None:
        self.timeout_ms = timeout_ms
        self.state = SessionState.SUSPENDED
        self.last_answer_ms = around.clock.now_ms()
        self._heard_ms = self.last_answer_ms
        self._ensemble = ensemble
        self._around = around
        self._listeners: list[Callable[[SessionState], object]] = []
        self._session: StoreSession | None = None
        self._connection: Connection | None = None
        self._pending: dict[asyncio.Future[Any], None] = {}
        self._seen_zxid = 0

    @property
    def session_id(self) -> int:
        assert self._session is not None
        return self._session.session_id

    def on_state(self, callback: Callable[[SessionState], object]) -> None:
        """Call back at every later change of the state."""
        self._listeners.append(callback)

    # ---- operations ----

    async def get(self, path: str, watch: Watch | None = None) -> Znode:
        """Data and stat."""
        found: Znode = await self._ask(read=lambda tree: tree.get(path), path=path, watch=watch)
        return found

    async def exists(self, path: str, watch: Watch | None = None) -> Stat | None:
        """The stat, if there is one."""
        found: Stat | None = await self._ask(
            read=lambda tree: tree.exists(path), path=path, watch=watch
        )
        return found

    async def children(self, path: str, watch: Watch | None = None) -> list[str]:
        """Sorted names."""
        found: list[str] = await self._ask(
            read=lambda tree: tree.children(path), path=path, watch=watch, watches_children=True
        )
        return found

    async def create(
        self, path: str, data: bytes = b"", *, ephemeral: bool = False, sequential: bool = False
    ) -> Created:
        """Make a znode."""
        results = await self._ask(writes=(Create(path, data, ephemeral, sequential),))
        created: Created = results[0]
        return created

    async def set(self, path: str, data: bytes, version: int = ANY_VERSION) -> Stat:
        """Replace the data."""
        stat: Stat = (await self._ask(writes=(Replace(path, data, version),)))[0]
        return stat

    async def delete(self, path: str, version: int = ANY_VERSION) -> None:
        """Remove a childless znode."""
        await self._ask(writes=(Delete(path, version),))

    async def multi(self, operations: Sequence[Operation]) -> list[OperationResult]:
        """All or none."""
        if not operations:
            return []
        return in_group(await self._ask(writes=tuple(operations), is_group=True))

    async def sync(self) -> None:
        """Wait until the server has caught up."""
        await self._ask()

    async def close(self) -> None:
        """End the session; without a connection it is left to run out."""
        self._around.check()
        try:
            if self.state is SessionState.CONNECTED:
                await self._ask(closes=True)
        finally:
            self._lose()

    async def _ask(self, **what: Any) -> Any:
        self._around.check()
        if self.state is SessionState.LOST:
            raise SessionExpired("the session is over")
        connection = self._connection
        if self.state is SessionState.SUSPENDED or connection is None:
            raise ConnectionLoss("no connection")
        waiter: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._pending[waiter] = None
        asked_ms = self._around.clock.now_ms()

        def answer(result: object) -> None:
            self._on_proof(asked_ms)
            self._pending.pop(waiter, None)
            if not waiter.done():
                if isinstance(result, Exception):
                    waiter.set_exception(result)
                else:
                    waiter.set_result(result)

        connection.ask(Ask(answer, **what))
        try:
            return await waiter
        finally:
            self._pending.pop(waiter, None)

    # ---- the connection ----

    async def attach(self) -> None:
        """Try once to connect: to a new session, or to the existing one."""
        attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        ensemble, around = self._ensemble, self._around
        server = around.random.choice(ensemble.servers)
        asked_ms = around.clock.now_ms()

        def arrive() -> None:
            if self._is_cut() or not ensemble.has_quorum:
                return
            if server.tree.last_zxid < self._seen_zxid:
                # A server that is behind what this client has seen refuses it.
                self._later(lambda: _settle(attached))
                return
            session = self._session
            if session is None:
                session = ensemble.open_session(around.host, self.timeout_ms)
            elif ensemble.sessions.get(session.session_id) is not session:
                self._later(self._lose)
                self._later(lambda: _settle(attached))
                return
            connection = Connection(
                ensemble,
                server,
                session,
                self._run_here,
                self._on_connection_broken,
                self._lose,
            )
            if session.attachment is not None:
                session.attachment.break_off()
            session.attachment = connection
            ensemble.touch(session)
            # A client that opens a session has seen the transaction that opened it.
            ensemble.when_seen(
                server,
                session.session_id,
                lambda: connection.to_client(attach_here(connection)),
            )

        def attach_here(connection: Connection) -> Callable[[], object]:
            def attach() -> None:
                self._on_attached(connection, asked_ms)
                _settle(attached)

            return attach

        delay_s = ensemble.route.delay_s(around.host, STORE_HOST)
        ensemble.loop.call_later(delay_s, arrive, context=ensemble.outside)
        timer = around.clock.call_at(asked_ms + CONNECT_ATTEMPT_MS, lambda: _settle(attached))
        try:
            await attached
        finally:
            timer.cancel()

    def _on_attached(self, connection: Connection, asked_ms: float) -> None:
        if self.state is not SessionState.SUSPENDED or connection.is_broken:
            return
        first = self._session is None
        self._session = connection.session
        self._connection = connection
        self._on_proof(asked_ms)
        self._enter(SessionState.CONNECTED, quietly=first)
        self._ping_later(connection)

    def _later(self, callback: Callable[[], object]) -> None:
        """A refusal on its way back."""
        ensemble, around = self._ensemble, self._around

        def arrive() -> None:
            if not self._is_cut():
                self._run_here(callback)

        delay_s = ensemble.route.delay_s(STORE_HOST, around.host)
        ensemble.loop.call_later(delay_s, arrive, context=ensemble.outside)

    def _is_cut(self) -> bool:
        route, host = self._ensemble.route, self._around.host
        return route.is_blocked(host, STORE_HOST) or route.is_blocked(STORE_HOST, host)

    def _run_here(self, callback: Callable[[], object]) -> None:
        """On the loop, as code of this process: held while it is stopped, never once it is dead."""
        self._ensemble.loop.call_soon(callback, context=self._around.context)

    def _on_proof(self, asked_ms: float) -> None:
        """Something that was asked then has been answered: the session lived at least then."""
        self.last_answer_ms = max(self.last_answer_ms, asked_ms)
        self._heard_ms = self._around.clock.now_ms()

    def _ping_later(self, connection: Connection) -> None:
        clock = self._around.clock
        interval_ms = self.timeout_ms / PINGS_PER_TIMEOUT

        def tick() -> None:
            if self._connection is not connection or self.state is not SessionState.CONNECTED:
                return
            now_ms = clock.now_ms()
            if now_ms - self._heard_ms > self.timeout_ms * 2 / 3:
                self._on_connection_broken(connection)
                return
            connection.ping(lambda: self._on_proof(now_ms))
            clock.call_at(now_ms + interval_ms, tick)

        clock.call_at(clock.now_ms() + interval_ms, tick)

    def _on_connection_broken(self, connection: Connection) -> None:
        connection.leave()
        self._seen_zxid = max(self._seen_zxid, connection.seen_zxid)
        if self._connection is not connection or self.state is not SessionState.CONNECTED:
            return
        self._connection = None
        self._enter(SessionState.SUSPENDED)
        self._fail_pending(ConnectionLoss("the connection broke"))
        self._come_back()
        self._give_up_in_time()

    def _come_back(self) -> None:
        async def reattach() -> None:
            while self.state is SessionState.SUSPENDED:
                await self._around.clock.sleep(self._around.random.between(*RETRY_MS))
                if self.state is SessionState.SUSPENDED:
                    await self.attach()

        asyncio.get_running_loop().create_task(reattach())

    def _give_up_in_time(self) -> None:
        """A session without an answer for its whole timeout is over, even if the ensemble is
        silent."""
        clock = self._around.clock

        def look() -> None:
            if self.state is SessionState.SUSPENDED:
                if clock.now_ms() >= self.last_answer_ms + self.timeout_ms:
                    self._lose()
                else:
                    clock.call_at(self.last_answer_ms + self.timeout_ms, look)

        clock.call_at(self.last_answer_ms + self.timeout_ms, look)

    def _lose(self) -> None:
        if self.state is SessionState.LOST:
            return
        if self._connection is not None:
            self._connection.leave()
            self._connection = None
        self._enter(SessionState.LOST)
        self._fail_pending(SessionExpired("the session is over"))

    def _enter(self, state: SessionState, *, quietly: bool = False) -> None:
        self.state = state
        if not quietly:
            for listener in self._listeners:
                listener(state)

    def _fail_pending(self, error: Exception) -> None:
        pending, self._pending = self._pending, {}
        for waiter in pending:
            if not waiter.done():
                waiter.set_exception(error)
                # The caller may have stopped waiting.
                waiter.exception()


def _settle(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)
