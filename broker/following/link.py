"""A fetcher's way to its leader: one connection, one session, one request on it at a time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from ottla.broker.following.session import FollowerFetchSession
from ottla.broker.following.wire import FETCH, build_request, version_for
from ottla.protocol.errors import ErrorCode, error_code

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from ottla.broker.following.fetcher_state import FetchChanges, Pauses
    from ottla.broker.following.session import Asked, Delta
    from ottla.broker.following.wire import FetchSettings, FollowerIdentity
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
    from ottla.protocol.ports import Clock, Timer
    from ottla.wire.api import RequestApi

logger = logging.getLogger("ottla.replication")

# A request that only waits for news is given up for a partition that was added meanwhile.
HURRY_MS = 10.0
# Not more often, or a long row of elections would keep it from ever getting an answer.
HURRY_AGAIN_MS = 100.0
# A leader that has just started, or died, is missed this often before it is worth a warning.
QUIET_FAILURES = 3


class FetchConnection(Protocol):
    """What a fetcher needs of a connection to another broker."""

    @property
    def closed(self) -> bool: ...

    def version_of(self, api: RequestApi[FetchRequest, FetchResponse], /) -> int: ...

    def send(
        self,
        api: RequestApi[FetchRequest, FetchResponse],
        request: FetchRequest,
        /,
        *,
        timeout_ms: float | None = None,
        version: int | None = None,
    ) -> asyncio.Future[FetchResponse]: ...

    def close(self, reason: str = "") -> None: ...


class PeerConnections(Protocol):
    """The way to other brokers (read peers.py)."""

    async def connect(self, node_id: int, *, purpose: str) -> FetchConnection:
        """A new connection. Raises KafkaError, ClientError, OSError."""


class LinkTerms(Protocol):
    """What all links of a broker share; ``sender`` is asked for each request."""

    @property
    def peers(self) -> PeerConnections: ...

    @property
    def sender(self) -> Callable[[], FollowerIdentity]: ...

    @property
    def clock(self) -> Clock: ...

    @property
    def manner(self) -> FetchSettings: ...

    @property
    def pauses(self) -> Pauses: ...

    @property
    def timeout_ms(self) -> float: ...


class FetcherLink:
    """Owned by one fetcher."""

    def __init__(self, leader: int, name: str, terms: LinkTerms) -> None:
        self.request_count = 0
        self._leader = leader
        self._name = name
        self._terms = terms
        self._clock = terms.clock
        self._connection: FetchConnection | None = None
        self._session = FollowerFetchSession()
        self._delta: Delta | None = None
        self._failure_count = 0
        self._is_asking = False
        # The leader had nothing to send at its last answer, and waits before the next one.
        self._is_idle = True
        # Answers in a row that said nothing of any partition.
        self._idle_count = 0
        self._version = 0
        self._is_interrupted = False
        self._hurried_ms = 0.0
        self._timer: Timer | None = None

    @property
    def is_incremental(self) -> bool:
        """Whether requests say only what has changed."""
        return self._session.is_incremental

    def asked_for(self, partition: TopicPartition) -> Asked | None:
        """What the leader was asked about a partition, in the last request or before it."""
        return self._session.asked_for(partition)

    def begin(self, asked: Sequence[Asked]) -> bool:
        """The next request asks for exactly these, in a new session; whether there are any."""
        self._delta = self._session.first_request(asked) if asked else None
        return self._delta is not None

    def go_on(self, changes: FetchChanges) -> bool:
        """The next request says what has changed; whether it asks for anything."""
        self._delta = self._session.next_request(changes.asked, changes.gone)
        if self._session.asks_for_any:
            return True
        # The leader ends a session that asks for nothing.
        self._delta = None
        self._session.lost()
        return False

    async def ask(self, wait_ms: float | None) -> FetchResponse | None:
        """The leader's answer to what ``begin`` or ``go_on`` has made; None when the session has to
        be begun again.

        ``wait_ms``: when other partitions may be asked for, too. Raises OSError, KafkaError,
        ClientError; then comes ``failed``."""
        assert not self._is_asking, "the leader counts the requests of a session"
        self._is_interrupted = False
        connection = self._connection
        if connection is None or connection.closed:
            connection = await self._terms.peers.connect(self._leader, purpose="fetcher")
            self._connection = connection
        delta, self._delta = self._delta, None
        assert delta is not None, "the request is made first"
        version = version_for(connection.version_of(FETCH), delta.asked)
        if delta.continues:
            # All of a session name their topics in the same way.
            version = min(version, self._version)
        self._version = version
        request = build_request(delta, self._terms.sender(), self._terms.manner, version)
        if delta.says_nothing and self._idle_count:
            request.max_wait_ms = self._terms.manner.wait_ms(self._idle_count)
        if wait_ms is not None:
            request.max_wait_ms = min(request.max_wait_ms, max(1, int(wait_ms)))
        self.request_count += 1
        self._is_asking = True
        try:
            response = await connection.send(
                FETCH, request, version=version, timeout_ms=self._terms.timeout_ms
            )
        finally:
            self._is_asking = False
        return await self._answered(response)

    async def _answered(self, response: FetchResponse) -> FetchResponse | None:
        assert not self._is_asking, "one request of a session at a time"
        error = error_code(response.error_code)
        self._session.answered(error, response.session_id)
        if error is not ErrorCode.NONE:
            # A session that the leader has forgotten is begun again at once.
            logger.debug("%s: %s", self._name, error.text)
            if self._failure_count:
                await self._clock.sleep(self._terms.pauses.after(self._failure_count - 1))
            self._failure_count += 1
            return None
        if self._failure_count > QUIET_FAILURES:
            logger.info("%s: it answers again", self._name)
        self._failure_count = 0
        self._is_idle = not any(
            part.records for topic in response.responses for part in topic.partitions
        )
        self._idle_count = 0 if response.responses else self._idle_count + 1
        return response

    async def failed(self, error: Exception, begun_ms: float) -> None:
        """There was no answer to what was begun then: give the connection up, and pause.

        The pause is from one attempt's start to the next: who has waited in vain for a connection
        has paused already, and the cut may be healed."""
        assert not self._is_asking
        self._session.lost()
        if self._connection is not None:
            self._connection.close("a fetch has failed")
            self._connection = None
        if self._is_interrupted:
            return
        self._failure_count += 1
        if self._failure_count == QUIET_FAILURES:
            logger.warning("%s: %s", self._name, error)
        pause_ms = self._terms.pauses.after(self._failure_count - 1)
        await self._clock.sleep(max(0.0, begun_ms + pause_ms - self._clock.now_ms()))

    def hurry(self) -> None:
        """There is something to ask for that the request under way does not ask for.

        The leader may keep that one for long. The first fetch of a new epoch cannot wait for it,
        since nothing is committed before. Not so while records flow: the next request is near."""
        if not self._is_asking or not self._is_idle or self._timer is not None:
            return
        asked = self.request_count
        due_ms = max(self._clock.now_ms() + HURRY_MS, self._hurried_ms + HURRY_AGAIN_MS)
        self._timer = self._clock.call_at(due_ms, lambda: self._interrupt(asked))

    def _interrupt(self, asked: int) -> None:
        self._timer = None
        if self._is_asking and self.request_count == asked and self._connection is not None:
            self._is_interrupted = True
            self._hurried_ms = self._clock.now_ms()
            self._connection.close("another partition is to be fetched")

    def close(self) -> None:
        """Nothing is asked any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.close("nothing is fetched any more")
            self._connection = None
