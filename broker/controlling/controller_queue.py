"""What one controllership still has to do, in order: marked paths, events and commands.

Watches only mark paths. A marked path is read when its turn comes, so many marks cause one read.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from ottla.coordinator.controller.events import Event


class ControllerCommand(NamedTuple):
    """The event is built when the command's turn comes; its result is the caller's."""

    prepare: Callable[[], Awaitable[Event]]
    reply: asyncio.Future[Any]


class ControllerQueue:
    """Owned by one controllership."""

    def __init__(self) -> None:
        self._items: asyncio.Queue[str | Event | ControllerCommand] = asyncio.Queue()
        self._marks: set[str] = set()
        # In the order of the calls: on resignation all are answered in that order.
        self._replies: dict[asyncio.Future[Any], None] = {}
        self._is_closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        self._items.put_nowait(event)

    def mark(self, path: str) -> None:
        """Add a path to be read again, once, even if it is marked several times."""
        if path not in self._marks:
            self._marks.add(path)
            self._items.put_nowait(path)

    def ask(self, prepare: Callable[[], Awaitable[Event]]) -> asyncio.Future[Any]:
        """Add a command; a closed queue refuses it with NOT_CONTROLLER."""
        reply: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        if self._is_closed:
            reply.set_exception(KafkaError(ErrorCode.NOT_CONTROLLER))
        else:
            self._replies[reply] = None
            self._items.put_nowait(ControllerCommand(prepare, reply))
        return reply

    async def next(self) -> str | Event | ControllerCommand:
        """Wait for the next item and remove it; the caller answers a command."""
        item = await self._items.get()
        if isinstance(item, str):
            self._marks.discard(item)
        elif isinstance(item, ControllerCommand):
            self._replies.pop(item.reply, None)
        return item

    def close(self) -> None:
        """Refuse the commands that wait, and all later ones."""
        self._is_closed = True
        for reply in self._replies:
            fail(reply, KafkaError(ErrorCode.NOT_CONTROLLER, "the controller has resigned"))
        self._replies.clear()


def fail(reply: asyncio.Future[Any], error: KafkaError) -> None:
    """Answer with that error, unless the caller has an answer already."""
    if not reply.done():
        reply.set_exception(error)
        # The caller may have stopped waiting, which needs no warning.
        reply.exception()
