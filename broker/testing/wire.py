"""Calls between two processes that trust each other, over one socket, in both directions.

Messages are pickled and arrive in order; notes are handled at once, calls run
concurrently. A closed socket ends all calls with ConnectionError.
"""

from __future__ import annotations

import asyncio
import pickle
from itertools import count
from struct import Struct
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.store import GroupFailed

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable, Coroutine

    from ottla.broker.engine.tasks import Tasks

_LENGTH = Struct(">I")
CALL, NOTE, DONE, FAILED = range(4)


class CallChannel:
    """One end. ``serve`` answers calls of the other end, ``take`` receives its notes."""

    def __init__(
        self,
        tasks: Tasks,
        serve: Callable[..., Coroutine[Any, Any, object]],
        take: Callable[..., object],
        on_closed: Callable[[], object],
    ) -> None:
        self._tasks = tasks
        self._serve = serve
        self._take = take
        self._on_closed = on_closed
        self._numbers = count()
        self._calls: dict[int, asyncio.Future[Any]] = {}
        self._writer: asyncio.StreamWriter | None = None
        self._is_closed = False

    async def open(self, connected: socket.socket) -> None:
        """Begin; the object owns the socket from now on."""
        reader, self._writer = await asyncio.open_connection(sock=connected)
        self._tasks.spawn("wire", self._read(reader))

    async def call(self, name: str, *arguments: object) -> Any:
        """Call the other end. Raises what the call raises, and ConnectionError."""
        if self._is_closed:
            raise ConnectionError("the other process is gone")
        number = next(self._numbers)
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls[number] = answer
        self._send(CALL, number, name, arguments)
        try:
            return await answer
        finally:
            self._calls.pop(number, None)

    def note(self, name: str, *arguments: object) -> None:
        """Send a note, without an answer."""
        if not self._is_closed:
            self._send(NOTE, 0, name, arguments)

    def close(self) -> None:
        """May be called again."""
        if self._writer is not None:
            self._writer.close()

    def _send(self, kind: int, number: int, name: str, content: object) -> None:
        assert self._writer is not None, "open comes first"
        data = pickle.dumps((kind, number, name, content))
        self._writer.write(_LENGTH.pack(len(data)) + data)

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                (length,) = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))
                self._on_message(*pickle.loads(await reader.readexactly(length)))
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            self._is_closed = True
            self.close()
            for answer in self._calls.values():
                if not answer.done():
                    answer.set_exception(ConnectionError("the other process is gone"))
            self._on_closed()

    def _on_message(self, kind: int, number: int, name: str, content: Any) -> None:
        if kind == NOTE:
            self._take(name, *content)
        elif kind == CALL:
            self._tasks.spawn(f"call of {name}", self._answer(number, name, content))
        else:
            answer = self._calls.get(number)
            if answer is not None and not answer.done():
                if kind == DONE:
                    answer.set_result(content)
                else:
                    made, arguments = content
                    answer.set_exception(made(*arguments))

    async def _answer(self, number: int, name: str, arguments: tuple[Any, ...]) -> None:
        try:
            result = await self._serve(name, *arguments)
        except Exception as error:
            failure = (type(error), error.args)
            if isinstance(error, GroupFailed):
                failure = (GroupFailed, (error.index, error.error, len(error.errors)))
            if not self._is_closed:
                self._send(FAILED, number, name, failure)
            return
        if not self._is_closed:
            self._send(DONE, number, name, result)
