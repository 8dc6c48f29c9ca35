"""The real link to a ZooKeeper ensemble: passes messages of kazoo's thread to the event loop."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.store import StoreError, WatchEvent
from ottla.coordinator.store.zookeeper_client import KazooSession, LinkOptions
from ottla.coordinator.store.zookeeper_requests import Answered
from ottla.coordinator.store.zookeeper_wire import (
    EVENT_KINDS,
    ZooKeeperRequests,
    error_of,
    result_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.zookeeper_client import Post
    from ottla.coordinator.store.zookeeper_requests import LinkEvents, Request
    from ottla.protocol.ports import Clock

logger = logging.getLogger("ottla.store")


class ZooKeeperLink:
    """See ``Link``. Everything here except ``_post`` runs on the event loop."""

    def __init__(self, options: LinkOptions, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._inbox: deque[tuple[Callable[..., object], tuple[Any, ...]]] = deque()
        self._is_woken = False
        self._events: LinkEvents | None = None
        self._wire = ZooKeeperRequests(
            self._on_watch, options.root, options.has_acl, others_read=options.others_read
        )
        self._kazoo = KazooSession(options, clock, self._post)
        self._stopped: asyncio.Future[None] | None = None

    def start(self, events: LinkEvents) -> None:
        """Start to connect, and retry until stopped."""
        self._events = events
        self._kazoo.begin(events)

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        """Send a request. A request that cannot be sent is answered as well, a little later."""
        answer = _Answer(self._post, request, on_answer)
        self._kazoo.submit(self._wire.request(request), answer)

    def pulse(self) -> None:
        """The event loop is running."""
        self._kazoo.pulse()

    def deliver(self) -> None:
        """Report the messages that have arrived."""
        # First: a message that arrives from now on wakes the loop again.
        self._is_woken = False
        while self._inbox:
            function, arguments = self._inbox.popleft()
            try:
                function(*arguments)
            except Exception as error:
                # A failing listener must not suppress the other messages.
                self._loop.call_exception_handler(
                    {"message": "a listener of the metadata store failed", "exception": error}
                )

    def drop(self, connection: int) -> None:
        """Cut the connection if it is still this one."""
        self._kazoo.drop(connection)

    def stop(self) -> asyncio.Future[None]:
        """End the session; the future is done when everything is freed."""
        if self._stopped is None:
            stopped = self._stopped = self._loop.create_future()
            self._kazoo.end(lambda: self._post(_resolve, stopped))
        return self._stopped

    def _on_watch(self, event: Any) -> None:
        # Called in kazoo's thread. Kinds without a meaning here are states, which are reported
        # separately.
        kind = EVENT_KINDS.get(event.type)
        if kind is not None and self._events is not None:
            self._post(self._events.on_event, WatchEvent(kind, event.path))

    def _post(self, function: Callable[..., object], *arguments: Any) -> None:
        """Called from any thread; keeps the order."""
        self._inbox.append((function, arguments))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self.deliver)
            except RuntimeError:
                logger.debug("a reply was dropped: the event loop is closed")


def _resolve(stopped: asyncio.Future[None]) -> None:
    if not stopped.done():
        stopped.set_result(None)


class _Answer:
    """kazoo calls it in its own thread when a request is answered."""

    __slots__ = ("_on_answer", "_post", "_request")

    def __init__(
        self,
        post: Post,
        request: Request,
        on_answer: Callable[[Answered], None],
    ) -> None:
        self._post = post
        self._request = request
        self._on_answer = on_answer

    def set(self, value: Any = None) -> None:
        self._post(self._read, value)

    def set_exception(self, error: Exception) -> None:
        self._post(self._on_answer, Answered(None, error_of(self._request, error)))

    def _read(self, value: Any) -> None:
        try:
            answered = Answered(result_of(self._request, value), None)
        except StoreError as error:
            answered = Answered(None, error)
        self._on_answer(answered)
