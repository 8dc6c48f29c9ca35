"""Connects one fetch request with its session: requested partitions and response.

The rules are in ``replica/fetch_sessions.py``; this applies them to the protocol's messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ottla.broker.partitions.partition_read import PartitionFetch
from ottla.broker.replica.fetch_sessions import (
    FetchSession,
    FetchSessions,
    SentOffsets,
)
from ottla.broker.replica.fetch_sessions import SessionAsk as SessionAsk
from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.fetch_session import NO_SESSION
from ottla.protocol.ids import Uuid

if TYPE_CHECKING:
    from ottla.broker.partitions.partition_read import PartitionRead
    from ottla.protocol.messages.fetch import FetchRequest
    from ottla.protocol.ports import Random

# A consumer of fewer partitions gets no session: its full requests cost less than the session's
# bookkeeping, and requests for one partition have a faster path.
CONSUMER_SESSION_MIN = 16
_SESSION_IDS = (1 << 31) - 1

PartitionKey = tuple[str | Uuid, int]
Session = FetchSession[PartitionKey, PartitionFetch]
Sessions = FetchSessions[PartitionKey, PartitionFetch]
Resolve = Callable[[str | Uuid], tuple[str, Uuid, ErrorCode]]
"""Name or id of a topic to its name, its id if that was asked for, and why it may not be read."""


@dataclass(slots=True)
class SessionPart:
    """One request with its partitions, from this request or earlier ones of the session.

    A follower's partitions at rest in the session are omitted: they have no changes."""

    sessions: Sessions
    random: Random
    ask: SessionAsk
    now_ms: float
    wanted: list[PartitionFetch]
    session: Session | None = None
    error: ErrorCode = ErrorCode.NONE

    @property
    def session_id(self) -> int:
        """The id of the session that the request continues, 0 if it continues none."""
        return NO_SESSION if self.session is None else self.session.session_id

    def answered(self, reads: list[PartitionRead]) -> tuple[int, list[PartitionRead]]:
        """The session id of the response, and the partitions with changes."""
        if self.session is not None:
            return self.session.session_id, news_of(self.session, reads)
        begun = self._begin()
        if begun is None:
            return NO_SESSION, reads
        # The first response of a session is complete.
        news_of(begun, reads)
        return begun.session_id, reads

    def _begin(self) -> Session | None:
        """Start a session if the client requests one and benefits from it, and a slot is free."""
        ask, wanted = self.ask, self.wanted
        gains = ask.is_follower or len(wanted) >= CONSUMER_SESSION_MIN
        if not ask.wants_session or not gains:
            return None
        session_id = 1 + self.random.below(_SESSION_IDS)
        session = self.sessions.begin(session_id, ask, len(wanted), self.now_ms)
        if session is not None:
            session.merge(((self.key(one), one) for one in wanted), ())
        return session

    def key(self, wanted: PartitionFetch) -> PartitionKey:
        """The partition as the client names it."""
        named = wanted.topic_id if self.ask.uses_topic_ids else wanted.topic
        return named, wanted.partition


def news_of(session: Session, reads: list[PartitionRead]) -> list[PartitionRead]:
    """Return the session's partitions with changes, and record them as sent."""
    by_id = session.ask.uses_topic_ids
    return [
        read
        for read in reads
        if session.tell(
            (read.wanted.topic_id if by_id else read.wanted.topic, read.wanted.partition),
            SentOffsets(read.high_watermark, read.log_start_offset),
            has_content=read.has_content or _has_missed_log_start(read),
            # Of an answer that tells where the logs part a follower takes nothing else.
            has_failed=read.error_code != ErrorCode.NONE or read.diverging is not None,
        )
    ]


def _has_missed_log_start(read: PartitionRead) -> bool:
    """Whether the follower still reports a lower log start than it was sent: its log may have been
    busy when the value arrived, so the leader sends it again."""
    return 0 <= read.wanted.log_start_offset < read.log_start_offset


def enter_session(
    sessions: Sessions, random: Random, ask: SessionAsk, now_ms: float
) -> SessionPart:
    """Find the request's session, if it has one. ``take_in`` is called next."""
    error, session = sessions.enter(ask, now_ms)
    return SessionPart(sessions, random, ask, now_ms, [], session, error)


def take_in(part: SessionPart, request: FetchRequest, resolve: Resolve, version: object) -> None:
    """Fill in all partitions that the request asks for.

    Results of ``resolve`` are cached in a session until ``version`` changes."""
    by_id = part.ask.uses_topic_ids
    for topic in request.topics:
        name, topic_id, error = resolve(topic.topic_id if by_id else topic.topic)
        part.wanted += [
            PartitionFetch(
                name,
                asked.partition,
                asked.fetch_offset,
                asked.partition_max_bytes,
                # Every negative epoch means none.
                max(-1, asked.current_leader_epoch),
                max(-1, asked.last_fetched_epoch),
                error,
                asked.log_start_offset,
                topic_id,
            )
            for asked in topic.partitions
        ]
    session = part.session
    if session is None:
        if len(part.wanted) > 1:
            # A partition named twice is answered once, by its last entry.
            part.wanted = list({part.key(one): one for one in part.wanted}.values())
        return
    forgotten = [
        (topic.topic_id if by_id else topic.topic, index)
        for topic in request.forgotten_topics_data
        for index in topic.partitions
    ]
    session.merge(((part.key(one), one) for one in part.wanted), forgotten)
    if session.version is not version:
        session.version = version
        session.merge(_resolved_again(session, resolve), ())
    part.wanted = session.unsettled()
    if not len(session):
        part.sessions.end(session)
        part.session = None


def _resolved_again(
    session: Session, resolve: Resolve
) -> list[tuple[PartitionKey, PartitionFetch]]:
    known: dict[str | Uuid, tuple[str, Uuid, ErrorCode]] = {}
    again = []
    for key, wanted in session.items():
        if key[0] not in known:
            known[key[0]] = resolve(key[0])
        name, topic_id, error = known[key[0]]
        if (name, error) != (wanted.topic, wanted.error_code):
            changed = wanted._replace(topic=name, topic_id=topic_id, error_code=error)
            again.append((key, changed))
    return again
