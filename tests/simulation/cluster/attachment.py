"""One connection between a client of the store and one of its servers.

Both directions keep their order. What is on the way when the connection breaks may still arrive,
unless another connection has taken over the session. Requests are served one after the other; a
write's answer comes once the server itself knows of the write, so that a session always sees what
it has done.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.coordinator.store.store import GroupFailed
from tests.simulation.cluster.ensemble import STORE_HOST, attempt

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.store import Operation, Watch
    from ottla.coordinator.store.tree import Tree
    from tests.simulation.cluster.ensemble import Ensemble, Server, StoreSession

# Every third write or so that was on the way when a connection broke has got through.
ARRIVES_LATE = 0.3
# Longer than any link delays a message by itself, mostly.
HELD_UP_S = 0.1


class Ask(NamedTuple):
    """One request: a read with its watch, a group of writes, or neither (sync).

    ``answer`` is called at the client with the result or the exception."""

    answer: Callable[[object], object]
    read: Callable[[Tree], object] | None = None
    path: str = ""
    watch: Watch | None = None
    watches_children: bool = False
    writes: tuple[Operation, ...] = ()
    is_group: bool = False
    closes: bool = False


class Connection:
    """Made by a client when a server has accepted it. What is ``on_`` is called there."""

    def __init__(
        self,
        ensemble: Ensemble,
        server: Server,
        session: StoreSession,
        run_in_client: Callable[[Callable[[], object]], object],
        on_broken: Callable[[Connection], object],
        on_expired: Callable[[], object],
    ) -> None:
        self.is_broken = False
        self.session = session
        # The last transaction that the client may have seen the effect of.
        self.seen_zxid = 0
        self._ensemble = ensemble
        self._server = server
        self._run_in_client = run_in_client
        self._on_broken = on_broken
        self._on_expired = on_expired
        self._asks: deque[Ask] = deque()
        self._is_busy = False
        # When the last message of each direction arrives.
        self._there_s = self._back_s = 0.0
        server.watches[self] = ({}, {})

    @property
    def is_held_up(self) -> bool:
        """Whether messages of either direction wait for a retransmission after a cut."""
        late_s = self._ensemble.loop.time() + HELD_UP_S
        return self._there_s > late_s or self._back_s > late_s

    # ---- at the client ----

    def ping(self, answer: Callable[[], object]) -> None:
        """Have the session kept alive; ``answer`` is called at the client."""

        def arrive() -> None:
            self._ensemble.touch(self.session)
            self.to_client(answer)

        self._to_server(arrive)

    def ask(self, ask: Ask) -> None:
        """Send a request."""

        def arrive() -> None:
            self._ensemble.touch(self.session)
            self._asks.append(ask)
            if not self._is_busy:
                self._serve()

        self._to_server(arrive)

    def leave(self) -> None:
        """The client closes the connection, or its process has died."""
        self.is_broken = True
        self._server.watches.pop(self, None)

    def _to_server(self, arrive: Callable[[], object]) -> None:
        route, owner = self._ensemble.route, self.session.owner
        soon_s = self._ensemble.loop.time() + route.delay_s(owner, STORE_HOST)
        self._there_s = max(self._there_s, soon_s)

        def look() -> None:
            if not self._is_current():
                return
            if self.is_broken and not self._ensemble.random.chance(ARRIVES_LATE):
                return
            if route.is_blocked(owner, STORE_HOST):
                self._there_s = self._ensemble.loop.time() + route.retransmission_s()
                self._at(self._there_s, look)
            else:
                arrive()

        self._at(self._there_s, look)

    def _is_current(self) -> bool:
        """Whether the ensemble still listens to this connection."""
        ensemble = self._ensemble
        return (
            ensemble.has_quorum
            and self.session.attachment is self
            and ensemble.sessions.get(self.session.session_id) is self.session
        )

    # ---- at the server ----

    def to_client(self, deliver: Callable[[], object]) -> None:
        """Deliver behind all that was sent to this client before."""
        route, owner = self._ensemble.route, self.session.owner
        soon_s = self._ensemble.loop.time() + route.delay_s(STORE_HOST, owner)
        self._back_s = max(self._back_s, soon_s)
        zxid = self._server.tree.last_zxid

        def deliver_here() -> None:
            if not self.is_broken:
                self.seen_zxid = zxid
                deliver()

        def arrive() -> None:
            if self.is_broken:
                return
            if route.is_blocked(STORE_HOST, owner):
                self._back_s = self._ensemble.loop.time() + route.retransmission_s()
                self._at(self._back_s, arrive)
            else:
                self._run_in_client(deliver_here)

        self._at(self._back_s, arrive)

    def break_off(self) -> None:
        """Close the connection from the server's side; the client notices a little later."""
        if self.session.attachment is self:
            self.session.attachment = None
        self._server.watches.pop(self, None)
        self.to_client(lambda: self._on_broken(self))

    def tell_of_expiry(self) -> None:
        """Say that the session is over, before the connection is closed."""
        self.to_client(self._on_expired)
        self.break_off()

    def _serve(self) -> None:
        ask = self._asks.popleft()
        self._is_busy = True
        if ask.read is not None:
            self._answer(ask, self._read(ask))
        elif ask.writes or ask.closes:
            ensemble = self._ensemble
            delay_s = ensemble.profile.commit_ms * (0.5 + ensemble.random.random()) / 1_000.0
            self._at(ensemble.loop.time() + delay_s, lambda: self._write(ask))
        else:
            self._ensemble.when_seen(
                self._server, self._ensemble.tree.last_zxid, lambda: self._answer(ask, None)
            )

    def _read(self, ask: Ask) -> object:
        assert ask.read is not None
        try:
            found = ask.read(self._server.tree)
        except Exception as error:
            return error
        watches = self._server.watches.get(self)
        if ask.watch is not None and watches is not None:
            watches[ask.watches_children].setdefault(ask.path, {})[ask.watch] = None
        return found

    def _write(self, ask: Ask) -> None:
        """Done or not done, and answered or not: the client learns what the seed lets it."""
        ensemble, profile = self._ensemble, self._ensemble.profile
        if not self._is_current():
            return
        if ask.closes:
            ensemble.close_session(self.session.session_id)
            self.to_client(lambda: ask.answer(None))
            return
        if ensemble.random.chance(profile.loses_request):
            self.break_off()
            return
        results = attempt(ensemble, ask.writes, self.session.session_id)
        if ensemble.random.chance(profile.loses_answer):
            self.break_off()
            return
        zxid = ensemble.tree.last_zxid
        ensemble.when_seen(self._server, zxid, lambda: self._answer(ask, results))

    def _answer(self, ask: Ask, result: Any) -> None:
        if isinstance(result, GroupFailed) and not ask.is_group:
            result = result.error
        self.to_client(lambda: ask.answer(result))
        self._is_busy = False
        if self._asks:
            self._serve()

    def _at(self, when_s: float, callback: Callable[[], object]) -> None:
        self._ensemble.loop.call_at(when_s, callback, context=self._ensemble.outside)
