"""Fetch sessions of one broker (KIP-227): who asks again and again says only what has changed.

    id   epoch  the request means
    any  -1     everything that is asked for is in it; a session of that id ends
    any   0     the same, and a new session is wanted
    set  > 0    what is in it differs from before; the answer leaves out what has no news

Each request of a session has the epoch after the last one's, so a request that was lost or came
twice is found out, and the client begins again. Ids are drawn at random and belong to whoever began
the session, so that a stranger's, or one that was evicted, is not continued (hazard N-11).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A partition as the client names it: topic name or id, and index.
Key = TypeVar("Key", bound=Hashable)
Wanted = TypeVar("Wanted")

NO_SESSION = 0
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
_EPOCH_MAX = (1 << 31) - 1
# Kafka's: a session that is not used for so long may go, and one that is younger may stay.
EVICTION_MS = 120_000.0


class SentOffsets(NamedTuple):
    """What an answer says of a partition, beside records."""

    high_watermark: int
    log_start_offset: int


# After an error, and before the first answer, everything is news.
_UNTOLD = SentOffsets(-1, -1)


class SessionAsk(NamedTuple):
    """What a request says about its session, and who says it."""

    session_id: int
    session_epoch: int
    owner: Hashable
    is_follower: bool
    uses_topic_ids: bool

    @property
    def continues(self) -> bool:
        """Whether the request is one of a session that exists."""
        return self.session_epoch not in (INITIAL_EPOCH, FINAL_EPOCH)

    @property
    def wants_session(self) -> bool:
        return self.session_epoch == INITIAL_EPOCH


class FetchSession(Generic[Key, Wanted]):
    """What one client has asked for and was told; owned by the sessions of its broker."""

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
        # The next request must have this one.
        self.epoch = INITIAL_EPOCH + 1
        self.created_ms = self.last_used_ms = now_ms
        # What the wanted ones were made from, as whoever makes them knows it again.
        self.version: object = None
        # What the leader remembers of its last answer while the request stays the same.
        self.memory: Any = None
        self._wanted: dict[Key, Wanted] = {}
        self._told: dict[Key, SentOffsets] = {}

    def __len__(self) -> int:
        return len(self._wanted)

    @property
    def rank(self) -> tuple[bool, int]:
        """Who of two has more to lose: followers, then those with many partitions."""
        return self.ask.is_follower, len(self)

    def wanted(self) -> Iterator[Wanted]:
        """Everything that the client wants now, what had records longest ago first."""
        return iter(self._wanted.values())

    def items(self) -> Iterator[tuple[Key, Wanted]]:
        """The same with the names that the client uses."""
        return iter(self._wanted.items())

    def merge(self, changed: Iterable[tuple[Key, Wanted]], forgotten: Iterable[Key]) -> None:
        """Take in what a request says: partitions that are new or have other offsets."""
        for key in forgotten:
            self._wanted.pop(key, None)
            self._told.pop(key, None)
            self.memory = None
        for key, wanted in changed:
            self._wanted[key] = wanted
            self.memory = None

    def tell(self, key: Key, offsets: SentOffsets, *, has_content: bool, has_failed: bool) -> bool:
        """Whether the answer must speak of the partition; it is taken for told then.

        ``has_content``: records, or something else that is not in the offsets."""
        if key not in self._wanted:
            return False
        news = has_content or has_failed or self._told.get(key, _UNTOLD) != offsets
        if has_content:
            # To the end, so that the limits of an answer hit another one the next time.
            self._wanted[key] = self._wanted.pop(key)
        # The end of an error is news as well.
        self._told[key] = _UNTOLD if has_failed else offsets
        return news


class FetchSessions(Generic[Key, Wanted]):
    """Owned by a broker; ``slots`` sessions at most."""

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
        """The session that a request continues, None for a full request. An error says that the
        client must begin again."""
        session = self._sessions.get(ask.session_id)
        if session is not None and session.ask.owner != ask.owner:
            session = None
        if not ask.continues:
            if session is not None:
                del self._sessions[ask.session_id]
            return ErrorCode.NONE, None
        if session is None:
            return ErrorCode.FETCH_SESSION_ID_NOT_FOUND, None
        if session.ask.uses_topic_ids != ask.uses_topic_ids:
            return ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, None
        if session.epoch != ask.session_epoch:
            return ErrorCode.INVALID_FETCH_SESSION_EPOCH, None
        session.epoch = 1 if session.epoch == _EPOCH_MAX else session.epoch + 1
        session.last_used_ms = now_ms
        return ErrorCode.NONE, session

    def begin(
        self, session_id: int, ask: SessionAsk, size: int, now_ms: float
    ) -> FetchSession[Key, Wanted] | None:
        """A new session for that many partitions, None if others have more right to the slots."""
        if size == 0 or session_id in self._sessions or session_id == NO_SESSION:
            return None
        if len(self._sessions) >= self._slots and not self._evict(ask, size, now_ms):
            return None
        session: FetchSession[Key, Wanted] = FetchSession(session_id, ask, now_ms)
        self._sessions[session_id] = session
        return session

    def end(self, session: FetchSession[Key, Wanted]) -> None:
        """It has nothing left to ask for."""
        self._sessions.pop(session.session_id, None)

    def _evict(self, ask: SessionAsk, size: int, now_ms: float) -> bool:
        """Free a slot: of one that is idle, or old and less worth, or a consumer's for a follower
        (which would otherwise ask for everything each time, all day long)."""
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
        del self._sessions[victim.session_id]
        return True
