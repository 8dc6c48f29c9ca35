"""The real link to a ZooKeeper ensemble: what kazoo's thread hears, told on the event loop."""

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
    """See ``Link``. Everything here but ``_post`` runs on the event loop."""

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
        """Begin to connect, and go on trying until stopped."""
        self._events = events
        self._kazoo.begin(events)

    def submit(self, request: Request, on_answer: Callable[[Answered], None]) -> None:
        """Ask. What cannot be sent is answered as well, a little later."""
        answer = _Answer(self._post, request, on_answer)
        self._kazoo.submit(self._wire.request(request), answer)

    def pulse(self) -> None:
        """The event loop lives."""
        self._kazoo.pulse()

    def deliver(self) -> None:
        """Tell what has arrived."""
        # First of all: what arrives from now on wakes the loop again.
        self._is_woken = False
        while self._inbox:
            function, arguments = self._inbox.popleft()
            try:
                function(*arguments)
            except Exception as error:
                # One bad listener must not take the other news away.
                self._loop.call_exception_handler(
                    {"message": "a listener of the metadata store failed", "exception": error}
                )

    def drop(self, connection: int) -> None:
        """Cut the connection if it is still this one."""
        self._kazoo.drop(connection)

    def stop(self) -> asyncio.Future[None]:
        """End the session; the future is done when nothing is left of it."""
        if self._stopped is None:
            stopped = self._stopped = self._loop.create_future()
            self._kazoo.end(lambda: self._post(_resolve, stopped))
        return self._stopped

    def _on_watch(self, event: Any) -> None:
        # In kazoo's thread. Kinds without a meaning here tell of states, which are told apart.
        kind = EVENT_KINDS.get(event.type)
        if kind is not None and self._events is not None:
            self._post(self._events.on_event, WatchEvent(kind, event.path))

    def _post(self, function: Callable[..., object], *arguments: Any) -> None:
        """From any thread, in order."""
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
    """What kazoo calls when a request is answered, in its own thread."""

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
