"""A consumer's side of a fetch session (KIP-227): everything once, then what changed. Pure.

after                                   the next request
nothing, an error, a lost answer        asks for everything, and for a new session
a session was given                     has its id, the next epoch, and what differs
the broker gives none (id 0)            asks for everything, every time
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.protocol.ids import TopicPartition, Uuid

NO_SESSION = 0
FIRST_EPOCH = 0
# A request outside of sessions, which ends the session of that id.
FINAL_EPOCH = -1
EPOCH_MAX = (1 << 31) - 1
SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


class RequestedPartition(NamedTuple):
    """A request's fields for one partition."""

    offset: int
    limit_bytes: int
    leader_epoch: int
    topic_id: Uuid


class SessionDelta(NamedTuple):
    """The session's part of the next request. ``forgotten`` partitions leave the session."""

    session_id: int
    session_epoch: int
    changed: list[TopicPartition]
    forgotten: list[tuple[TopicPartition, Uuid]]


class ConsumerFetchSession:
    """Owned by one fetcher, for one connection to a broker."""

    __slots__ = ("_epoch", "_session_id", "_told", "_uses_ids")

    def __init__(self) -> None:
        self._session_id = NO_SESSION
        self._epoch = FIRST_EPOCH
        self._told: Mapping[TopicPartition, RequestedPartition] = {}
        self._uses_ids = True

    @property
    def is_incremental(self) -> bool:
        """Whether the next request leaves out what has not changed."""
        return self._epoch != FIRST_EPOCH

    def next(self, asked: Mapping[TopicPartition, RequestedPartition]) -> SessionDelta:
        """Return the request that makes the broker answer for exactly these partitions."""
        uses_ids = all(one.topic_id != ZERO_UUID for one in asked.values())
        if uses_ids is not self._uses_ids:
            # One session must not mix names and ids (FETCH_SESSION_TOPIC_ID_ERROR).
            self._epoch, self._uses_ids = FIRST_EPOCH, uses_ids
        told, self._told = self._told, asked
        if not self.is_incremental:
            return SessionDelta(self._session_id, FIRST_EPOCH, list(asked), [])
        changed = [where for where, one in asked.items() if told.get(where) != one]
        forgotten = [
            (where, one.topic_id)
            for where, one in told.items()
            if where not in asked or asked[where].topic_id != one.topic_id
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
            self._epoch = 1 if self._epoch == EPOCH_MAX else self._epoch + 1
        else:
            self._session_id, self._epoch = session_id, 1

    def lost(self) -> None:
        """Record that no response will come: the broker may have processed the request."""
        self._epoch = FIRST_EPOCH
