"""The fetching side of a fetch session (KIP-227): everything once, then what changed. Pure.

Consumers and followers use it; the leader's side is in ``broker/replica/fetch_sessions.py``.

after                                   the next request
nothing, or an error of the session     asks for everything, and for a new session
a session was given                     has its id, the next epoch, and what differs
the broker gives none (id 0)            asks for everything, every time
a lost answer                           asks for everything, and replaces the session: the broker
                                        may have processed the lost request
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, TypeVar

from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.protocol.ids import TopicPartition, Uuid

# What a request says of one partition; equal values say the same.
Wanted = TypeVar("Wanted")

NO_SESSION = 0
# A complete request that asks for a new session.
FIRST_EPOCH = 0
# A request outside of sessions, which ends the session of that id.
FINAL_EPOCH = -1
EPOCH_MAX = (1 << 31) - 1


def next_epoch(epoch: int) -> int:
    """The epoch of the following request; 0 and -1 have meanings of their own."""
    return 1 if epoch == EPOCH_MAX else epoch + 1


class SessionDelta(NamedTuple):
    """The session's part of the next request. ``forgotten`` partitions leave the session."""

    session_id: int
    session_epoch: int
    changed: list[TopicPartition]
    forgotten: list[tuple[TopicPartition, Uuid]]


class FetcherSession(Generic[Wanted]):
    """Owned by one fetcher, for one connection to a broker. ``id_of`` returns the topic id that a
    request names for a partition."""

    __slots__ = ("_epoch", "_id_of", "_session_id", "_told")

    def __init__(self, id_of: Callable[[Wanted], Uuid]) -> None:
        self._id_of = id_of
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._told: Mapping[TopicPartition, Wanted] = {}

    @property
    def is_incremental(self) -> bool:
        """Whether the next request leaves out what has not changed."""
        return self._epoch != FIRST_EPOCH

    def next(self, asked: Mapping[TopicPartition, Wanted]) -> SessionDelta:
        """Return the request that makes the broker answer for exactly these partitions."""
        told, self._told = self._told, asked
        if self._epoch == FIRST_EPOCH:
            return SessionDelta(self._session_id, FIRST_EPOCH, list(asked), [])
        id_of = self._id_of
        changed = [where for where, one in asked.items() if told.get(where) != one]
        forgotten = [
            (where, id_of(one))
            for where, one in told.items()
            if where not in asked or id_of(asked[where]) != id_of(one)
        ]
        return SessionDelta(self._session_id, self._epoch, changed, forgotten)

    def end(self) -> SessionDelta | None:
        """End the session; return the fields of a request outside of it, None if there is none."""
        ended, self._session_id, self._epoch = self._session_id, NO_SESSION, FIRST_EPOCH
        return None if ended == NO_SESSION else SessionDelta(ended, FINAL_EPOCH, [], [])

    def answered(self, code: ErrorCode, session_id: int) -> None:
        """Take the code and session id of the response."""
        if code is not ErrorCode.NONE or session_id == NO_SESSION:
            self._session_id, self._epoch = NO_SESSION, FIRST_EPOCH
        elif self.is_incremental and session_id == self._session_id:
            self._epoch = next_epoch(self._epoch)
        else:
            self._session_id, self._epoch = session_id, 1
        assert self.is_incremental == (self._session_id != NO_SESSION)

    def lost(self) -> None:
        """Record that no response will come: the broker may have processed the request."""
        self._epoch = FIRST_EPOCH
