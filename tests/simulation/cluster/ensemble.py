"""The metadata store's side of the simulated world: a ZooKeeper ensemble as its clients know it.

One tree is the truth; three servers follow it, each as late as the seed wants (hazard C-24). A
session is on one server at a time, its requests are answered in order, and whatever breaks its
connection leaves the outcome of what was on the way unknown. Sessions end here, by this side's
clock. Without a quorum nothing is answered and no session ends; a new quorum gives each its whole
timeout again, as a newly elected leader of ZooKeeper does.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple, Protocol

from ottla.coordinator.store.store import GroupFailed, WatchEventKind
from ottla.coordinator.store.tree import CloseSession, OpenSession, StoreTransaction, Tree

if TYPE_CHECKING:
    import asyncio
    import contextvars
    from collections.abc import Callable

    from ottla.coordinator.store.store import Watch, WatchEvent
    from ottla.coordinator.store.tree import Step, StepResult
    from tests.simulation.world.random import SimRandom

# Its place in the network: what cuts, slows or heals links takes it for a host.
STORE_HOST = "store"
SERVERS = 3
WALL_ORIGIN_MS = 1_750_000_000_000


class Route(Protocol):
    """The network as the ensemble needs it."""

    def delay_s(self, source: str, target: str) -> float: ...

    def is_blocked(self, source: str, target: str) -> bool: ...

    def retransmission_s(self) -> float: ...


class StoreProfile(NamedTuple):
    """How this seed's ensemble behaves. Probabilities are for each write."""

    commit_ms: float = 1.0
    lag_probability: float = 0.0
    lag_ms: float = 50.0
    loses_request: float = 0.0
    loses_answer: float = 0.0
    # How often a client learns of the end of its session at once, not when it reconnects.
    tells_of_expiry: float = 0.5


class Attachment(Protocol):
    """The client's end of a connection, as a server sees it."""

    is_broken: bool

    def to_client(self, deliver: Callable[[], object]) -> None:
        """Deliver behind all that was sent to this client before."""

    def break_off(self) -> None:
        """Close the connection from this side."""

    def tell_of_expiry(self) -> None:
        """The same, because the session is over."""


class StoreSession:
    """One session as the ensemble knows it."""

    def __init__(self, session_id: int, owner: str, timeout_ms: int, now_s: float) -> None:
        self.session_id = session_id
        self.owner = owner
        self.timeout_s = timeout_ms / 1_000.0
        self.heard_s = now_s
        self.attachment: Attachment | None = None


class Server:
    """One server: the tree as far as it has been replicated, and the watches of its connections."""

    def __init__(self) -> None:
        self.tree = Tree()
        self.applies_s = 0.0
        self.coming: deque[tuple[StoreTransaction, float]] = deque()
        self.watches: dict[Attachment, tuple[Watches, Watches]] = {}
        self.waiters: deque[tuple[int, Callable[[], object]]] = deque()

    def fire(self, event: WatchEvent) -> None:
        """Send the event to every connection that watches for it, once."""
        for attachment, (nodes, children) in list(self.watches.items()):
            taken: dict[Watch, None] = {}
            if event.kind is not WatchEventKind.CHILDREN:
                taken |= nodes.pop(event.path, {})
            if event.kind in (WatchEventKind.CHILDREN, WatchEventKind.DELETED):
                taken |= children.pop(event.path, {})
            for watch in taken:
                attachment.to_client(_firing(watch, event))


# Path -> who watches, in the order in which they began.
Watches = dict[str, dict["Watch", None]]


class Ensemble:
    """Owned by the world; clients reach it through ``store.py`` only."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        outside: contextvars.Context,
        route: Route,
        random: SimRandom,
        profile: StoreProfile | None = None,
    ) -> None:
        self.loop = loop
        self.route = route
        self.random = random
        self.profile = profile or StoreProfile()
        self.tree = Tree()
        self.servers = [Server() for _ in range(SERVERS)]
        self.sessions: dict[int, StoreSession] = {}
        self.has_quorum = True
        self.outside = outside
        # Called with every committed transaction, and with each session that expired.
        self.on_commit: Callable[[StoreTransaction], object] = lambda _: None
        self.report: Callable[[str], object] = lambda _: None

    # ---- what the world does to it ----

    def expire(self, owner: str) -> None:
        """End the sessions of a host, as if its timeout had passed."""
        for session in [one for one in self.sessions.values() if one.owner == owner]:
            self._end(session)

    def disconnect(self, owner: str) -> None:
        """Break the connections of a host; its sessions stay."""
        for session in list(self.sessions.values()):
            if session.owner == owner and session.attachment is not None:
                session.attachment.break_off()

    def lose_quorum(self) -> None:
        """Stop answering all sessions."""
        self.has_quorum = False
        for session in list(self.sessions.values()):
            if session.attachment is not None:
                session.attachment.break_off()

    def regain_quorum(self) -> None:
        """Answer again; every session has its whole timeout."""
        self.has_quorum = True
        for session in list(self.sessions.values()):
            session.heard_s = self.loop.time()
            self._watch_over(session)

    # ---- sessions ----

    def open_session(self, owner: str, timeout_ms: int) -> StoreSession:
        """A new one, whose id is the transaction that opened it."""
        self.commit((OpenSession(timeout_ms),), 0)
        session = StoreSession(self.tree.last_zxid, owner, timeout_ms, self.loop.time())
        self.sessions[session.session_id] = session
        self._watch_over(session)
        return session

    def touch(self, session: StoreSession) -> None:
        """A message of its owner has arrived."""
        session.heard_s = self.loop.time()

    def close_session(self, session_id: int) -> None:
        """Its owner has closed it, or it ran out."""
        if self.sessions.pop(session_id, None) is not None:
            self.commit((CloseSession(session_id),), 0)

    def _watch_over(self, session: StoreSession) -> None:
        def look() -> None:
            if not self.has_quorum or self.sessions.get(session.session_id) is not session:
                return
            left_s = session.heard_s + session.timeout_s - self.loop.time()
            if left_s <= 1e-6:
                self._end(session)
            else:
                self.loop.call_later(left_s, look, context=self.outside)

        self.loop.call_later(session.timeout_s, look, context=self.outside)

    def _end(self, session: StoreSession) -> None:
        self.report(f"store: session {session.session_id} of {session.owner} has expired")
        attachment = session.attachment
        self.close_session(session.session_id)
        if attachment is None:
            return
        if self.random.chance(self.profile.tells_of_expiry):
            attachment.tell_of_expiry()
        else:
            attachment.break_off()

    # ---- transactions ----

    def commit(self, steps: tuple[Step, ...], session_id: int) -> list[StepResult]:
        """Apply all steps or none, and replicate them to the servers. Raises GroupFailed."""
        wall_ms = WALL_ORIGIN_MS + int(self.loop.time() * 1_000)
        transaction = StoreTransaction(self.tree.last_zxid + 1, wall_ms, session_id, steps)
        results = self.tree.apply(transaction).results
        self.on_commit(transaction)
        for server in self.servers:
            server.applies_s = max(server.applies_s, self.loop.time() + self._lag_s())
            server.coming.append((transaction, server.applies_s))
            self.loop.call_at(server.applies_s, self._follow, server, context=self.outside)
        return results

    def when_seen(self, server: Server, zxid: int, then: Callable[[], object]) -> None:
        """Call back once that server knows the transaction; at once if it does."""
        if server.tree.last_zxid >= zxid:
            then()
        else:
            server.waiters.append((zxid, then))

    def _lag_s(self) -> float:
        profile = self.profile
        delay_ms = profile.commit_ms * self.random.random()
        if self.random.random() < profile.lag_probability:
            delay_ms += self.random.exponential(profile.lag_ms)
        return delay_ms / 1_000.0

    def _follow(self, server: Server) -> None:
        now_s = self.loop.time()
        while server.coming and server.coming[0][1] <= now_s:
            transaction, _ = server.coming.popleft()
            for event in server.tree.apply(transaction).events:
                server.fire(event)
        waiters = server.waiters
        ready = []
        for _ in range(len(waiters)):
            zxid, then = waiters.popleft()
            if zxid <= server.tree.last_zxid:
                ready.append(then)
            else:
                waiters.append((zxid, then))
        for then in ready:
            then()


def attempt(
    ensemble: Ensemble, steps: tuple[Step, ...], session_id: int
) -> list[StepResult] | GroupFailed:
    """The results, or why none was done."""
    try:
        return ensemble.commit(steps, session_id)
    except GroupFailed as failed:
        return failed


def _firing(watch: Watch, event: WatchEvent) -> Callable[[], object]:
    return lambda: watch(event)
