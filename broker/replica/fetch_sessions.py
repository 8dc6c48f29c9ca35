"""Fetch sessions of one broker (KIP-227): later requests of a session contain only changes.

    id   epoch  the request means
    any  -1     the request is complete; a session of that id ends
    any   0     the request is complete, and a new session is requested
    set  > 0    the request has changes only; the response leaves out unchanged partitions

Each request of a session has the next epoch, so lost and repeated requests are detected, and the
client starts a new session. Ids are random and bound to the client that began the session, so that
another client's or an evicted session is not continued (hazard N-11).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_session import FINAL_EPOCH, FIRST_EPOCH, NO_SESSION, next_epoch
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A partition as the client names it: topic name or id, and index.
Key = TypeVar("Key", bound=Hashable)
Wanted = TypeVar("Wanted")

# As in Kafka: a session unused for longer may be evicted, a younger one is protected.
EVICTION_MS = 120_000.0


class SentOffsets(NamedTuple):
    """The offsets of a partition in a response."""

    high_watermark: int
    log_start_offset: int


# After an error, and before the first response, everything counts as changed.
_UNTOLD = SentOffsets(-1, -1)


class SessionAsk(NamedTuple):
    """The session fields of a request, and the client that sent it."""

    session_id: int
    session_epoch: int
    owner: Hashable
    is_follower: bool
    uses_topic_ids: bool

    @property
    def continues(self) -> bool:
        """Whether the request continues a session."""
        return self.session_epoch not in (FIRST_EPOCH, FINAL_EPOCH)

    @property
    def wants_session(self) -> bool:
        return self.session_epoch == FIRST_EPOCH


class SessionMemory(Protocol):
    """The leader's memory of a follower's session: the partitions that it must check."""

    # In the order in which they are served.
    restless: dict[Any, None]

    def join(self, key: Any) -> None:
        """The request adds or updates a partition."""

    def leave(self, key: Any) -> None:
        """The request removes a partition."""

    def close(self) -> None:
        """The session has ended."""


class FetchSession(Generic[Key, Wanted]):
    """One client's requested partitions and the offsets sent to it; owned by FetchSessions."""

    __slots__ = (
        "_told",
        "_wanted",
        "ask",
        "created_ms",
        "epoch",
        "last_used_ms",
        "memory",
        "session_id",
        "version",
    )

    def __init__(self, session_id: int, ask: SessionAsk, now_ms: float) -> None:
        assert session_id != NO_SESSION
        self.session_id = session_id
        self.ask = ask
        # The epoch of the next request.
        self.epoch = FIRST_EPOCH + 1
        self.created_ms = self.last_used_ms = now_ms
        # Identifies the metadata that the wanted partitions were resolved with, for the caller.
        self.version: object = None
        # Set by the leader for a follower that continues the session.
        self.memory: SessionMemory | None = None
        self._wanted: dict[Key, Wanted] = {}
        self._told: dict[Key, SentOffsets] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def rank(self) -> tuple[bool, int]:
        """Sort key for eviction: followers rank higher, then sessions with more partitions."""
        return self.ask.is_follower, len(self)

    def wanted(self) -> Iterator[Wanted]:
        """All requested partitions; those whose last records are the oldest come first."""
        return iter(self._wanted.values())

    def unsettled(self) -> list[Wanted]:
        """Like ``wanted``, without the partitions that certainly have no changes."""
        if self.memory is None:
            return list(self._wanted.values())
        restless = self.memory.restless
        assert restless.keys() <= self._wanted.keys(), "it would be answered, and is not asked for"
        return [self._wanted[key] for key in restless]

    def get(self, key: Key) -> Wanted | None:
        """What is requested of a partition; None if the session does not contain it."""
        return self._wanted.get(key)

    def go_on(self, now_ms: float) -> None:
        """A request continues the session."""
        self.epoch = next_epoch(self.epoch)
        assert self.epoch > FIRST_EPOCH, "a request with epoch 0 begins a session"
        self.last_used_ms = now_ms

    def close(self) -> None:
        """The session has ended."""
        if self.memory is not None:
            self.memory.close()
            self.memory = None
        assert self.memory is None, "its partitions would rest in an ended session"

    def items(self) -> Iterator[tuple[Key, Wanted]]:
        """The same with their keys."""
        return iter(self._wanted.items())

    def merge(self, changed: Iterable[tuple[Key, Wanted]], forgotten: Iterable[Key]) -> None:
        """Apply a request: new or changed partitions, and forgotten ones."""
        memory = self.memory
        for key in forgotten:
            self._wanted.pop(key, None)
            self._told.pop(key, None)
            if memory is not None:
                memory.leave(key)
        for key, wanted in changed:
            self._wanted[key] = wanted
            if memory is not None:
                memory.join(key)

    def tell(self, key: Key, offsets: SentOffsets, *, has_content: bool, has_failed: bool) -> bool:
        """Whether the response must include the partition; its offsets then count as sent.

        ``has_content``: the response has records or other data besides the offsets."""
        if key not in self._wanted:
            return False
        news = has_content or has_failed or self._told.get(key, _UNTOLD) != offsets
        if has_content:
            # Moved to the end, so that the response limits affect another partition next time.
            self._wanted[key] = self._wanted.pop(key)
            if self.memory is not None and key in self.memory.restless:
                del self.memory.restless[key]
                self.memory.restless[key] = None
        # The end of an error counts as a change, too.
        self._told[key] = _UNTOLD if has_failed else offsets
        return news


class FetchSessions(Generic[Key, Wanted]):
    """The fetch sessions of a broker, at most ``slots``."""

    def __init__(self, slots: int, eviction_ms: float = EVICTION_MS) -> None:
        self._slots = slots
        self._eviction_ms = eviction_ms
        self._sessions: dict[int, FetchSession[Key, Wanted]] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def __contains__(self, session_id: int) -> bool:
        return session_id in self._sessions

    def enter(
        self, ask: SessionAsk, now_ms: float
    ) -> tuple[ErrorCode, FetchSession[Key, Wanted] | None]:
        """The session that a request continues; None for a full request.

        On an error the client must start a new session."""
        session = self._sessions.get(ask.session_id)
        if session is not None and session.ask.owner != ask.owner:
            session = None
        if not ask.continues:
            if session is not None:
                self._sessions.pop(ask.session_id).close()
            return ErrorCode.NONE, None
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None
        if session.ask.uses_topic_ids != ask.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None
        if session.epoch != ask.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, None
        session.go_on(now_ms)
        return ErrorCode.NONE, session

    def find(self, session_id: int) -> FetchSession[Key, Wanted] | None:
        """The session of that id, for a caller that checks owner and epoch itself."""
        return self._sessions.get(session_id)

    def begin(
        self, session_id: int, ask: SessionAsk, size: int, now_ms: float
    ) -> FetchSession[Key, Wanted] | None:
        """A new session for that many partitions; None if no slot can be freed for it."""
        if size == 0 or session_id in self._sessions or session_id == NO_SESSION:
            return None
        if len(self._sessions) >= self._slots and not self._evict(ask, size, now_ms):
            return None
        session: FetchSession[Key, Wanted] = FetchSession(session_id, ask, now_ms)
        self._sessions[session_id] = session
        assert len(self._sessions) <= self._slots
        return session

    def end(self, session: FetchSession[Key, Wanted]) -> None:
        """Remove a session without partitions."""
        assert not len(session)
        self._sessions.pop(session.session_id, None)

    def _evict(self, ask: SessionAsk, size: int, now_ms: float) -> bool:
        """Free a slot: an idle session, an old one of lower rank, or a consumer's for a follower.

        Without a session, a follower would send full requests all the time."""
        if not self._sessions:
            return False
        victim = min(self._sessions.values(), key=lambda one: one.last_used_ms)
        if now_ms - victim.last_used_ms <= self._eviction_ms:
            candidates = [
                one
                for one in self._sessions.values()
                if now_ms - one.created_ms > self._eviction_ms
                or (ask.is_follower and not one.ask.is_follower)
            ]
            if not candidates:
                return False
            victim = min(candidates, key=lambda one: (one.rank, one.session_id))
            if victim.rank >= (ask.is_follower, size):
                return False
        self._sessions.pop(victim.session_id).close()
        return True
