"""A fetcher's link to its leader: one connection, one session, one request at a time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any, Protocol

from ottla.broker.following.session import FollowerFetchSession
from ottla.broker.following.wire import (
    FETCH,
    PlainAnswer,
    build_request,
    decoded_answer,
    encoded_request,
    version_for,
)
from ottla.protocol.errors import ErrorCode, error_code

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from ottla.broker.following.fetcher_state import FetchChanges, Pauses
    from ottla.broker.following.session import Asked, Delta
    from ottla.broker.following.wire import FetchSettings, FollowerIdentity, LeaderResponse
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.messages.fetch import FetchRequest, FetchResponse
    from ottla.protocol.ports import Clock, Timer
    from ottla.wire.api import RequestApi

logger = logging.getLogger("ottla.replication")

# A request that only waits for records is cancelled when a partition is added meanwhile.
HURRY_MS = 10.0
# Minimum time between cancellations: a series of elections must not prevent every answer.
HURRY_AGAIN_MS = 100.0
# Failures before a warning: a leader that has just started or died is often unreachable.
QUIET_FAILURES = 3


class FetchConnection(Protocol):
    """The parts of a connection to another broker that a fetcher uses."""

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

    def ask(
        self,
        api: RequestApi[Any, Any],
        version: int,
        request: object,
        timeout_ms: float,
        read: Callable[[int, memoryview], object],
        /,
    ) -> asyncio.Future[LeaderResponse]: ...

    def close(self, reason: str = "") -> None: ...


class PeerConnections(Protocol):
    """Opens connections to other brokers (see peers.py)."""

    async def connect(self, node_id: int, *, purpose: str) -> FetchConnection:
        """Return a new connection. Raises KafkaError, ClientError, OSError."""


class LinkTerms(Protocol):
    """Parts that all links of a broker share; ``sender`` is called for each request."""

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
        # The leader's last answer was empty, so it waits before the next one.
        self._is_idle = True
        # Consecutive answers without any partition.
        self._idle_count = 0
        self._version = 0
        self._is_interrupted = False
        self._hurried_ms = 0.0
        self._timer: Timer | None = None

    @property
    def is_incremental(self) -> bool:
        """Whether requests contain only changes."""
        return self._session.is_incremental

    def asked_for(self, partition: TopicPartition) -> Asked | None:
        """Return the partition's entry in the last request, or in an earlier one of the session."""
        return self._session.asked_for(partition)

    def begin(self, asked: Sequence[Asked]) -> bool:
        """Prepare a request for exactly these partitions, in a new session; return whether there
        are any."""
        self._delta = self._session.first_request(asked) if asked else None
        return self._delta is not None

    def go_on(self, changes: FetchChanges) -> bool:
        """Prepare a request with the changes; return whether it asks for any partition."""
        self._delta = self._session.next_request(changes.asked, changes.gone)
        if self._session.asks_for_any:
            return True
        # The leader closes a session that contains no partitions.
        self._delta = None
        self._session.lost()
        return False

    async def ask(self, wait_ms: float | None) -> LeaderResponse | None:
        """Send the request of ``begin`` or ``go_on`` and return the answer; None if the session
        must be started again.

        ``wait_ms``: when a paused partition becomes due. Raises OSError, KafkaError, ClientError;
        the caller then calls ``failed``."""
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
            # All requests of a session name topics in the same way.
            version = min(version, self._version)
        self._version = version
        future = self._send(connection, delta, version, self._wait_ms(delta, wait_ms))
        self.request_count += 1
        self._is_asking = True
        try:
            response = await future
        finally:
            self._is_asking = False
        return await self._answered(response)

    def _wait_ms(self, delta: Delta, wait_ms: float | None) -> int:
        """How long the leader may hold the request."""
        manner = self._terms.manner
        longest_ms = manner.wait_max_ms
        if delta.says_nothing and self._idle_count:
            longest_ms = manner.wait_ms(self._idle_count)
        assert longest_ms >= manner.wait_max_ms, "an idle follower asks less often, never more"
        return longest_ms if wait_ms is None else min(longest_ms, max(1, int(wait_ms)))

    def _send(
        self, connection: FetchConnection, delta: Delta, version: int, wait_ms: int
    ) -> asyncio.Future[FetchResponse] | asyncio.Future[LeaderResponse]:
        terms = self._terms
        sender, manner, timeout_ms = terms.sender(), terms.manner, terms.timeout_ms
        body = encoded_request(delta, sender, manner, wait_ms, version)
        if body is not None:
            return connection.ask(FETCH, version, body, timeout_ms, decoded_answer)
        request = build_request(delta, sender, manner, version)
        request.max_wait_ms = wait_ms
        return connection.send(FETCH, request, version=version, timeout_ms=timeout_ms)

    async def _answered(self, response: LeaderResponse) -> LeaderResponse | None:
        assert not self._is_asking, "one request of a session at a time"
        if isinstance(response, PlainAnswer):
            error = ErrorCode.NONE
            is_empty = not response.parts
            is_idle = not any(part[4] for part in response.parts)
        else:
            error = error_code(response.error_code)
            is_empty = not response.responses
            is_idle = not any(
                part.records for topic in response.responses for part in topic.partitions
            )
        self._session.answered(error, response.session_id)
        if error is not ErrorCode.NONE:
            # If the leader has dropped the session, start a new one at once.
            logger.debug("%s: %s", self._name, error.text)
            if self._failure_count:
                await self._clock.sleep(self._terms.pauses.after(self._failure_count - 1))
            self._failure_count += 1
            return None
        if self._failure_count > QUIET_FAILURES:
            logger.info("%s: it answers again", self._name)
        self._failure_count = 0
        self._is_idle = is_idle
        self._idle_count = self._idle_count + 1 if is_empty else 0
        return response

    async def failed(self, error: Exception, begun_ms: float) -> None:
        """No answer came to the request that began then: close the connection, and pause.

        The pause counts from the start of the failed attempt: an attempt that waited long for a
        connection has paused already, and the network may be back."""
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
        """A partition is due that the request in flight does not contain.

        The leader may hold that request for long. The first fetch of a new epoch must not wait for
        it, because no record can be committed before. While records flow, the next request comes
        soon anyway."""
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
        """Close the link; no more requests follow."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._connection is not None:
            self._connection.close("nothing is fetched any more")
            self._connection = None
