"""A way to a server that can be cut, or lose answers; it runs in the test's own event loop."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Self

from tests.support.ports import HOST

if TYPE_CHECKING:
    from types import TracebackType


class Relay:
    """``async with Relay(port) as relay``; clients use ``relay.address``."""

    def __init__(self, port: int) -> None:
        self._target = port
        self._server: asyncio.Server | None = None
        self._pipes: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.is_refusing = False
        self.loses_answers = False
        self.accepted = 0

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, HOST, 0)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await asyncio.gather(*self._pipes, return_exceptions=True)

    @property
    def address(self) -> str:
        assert self._server is not None
        return f"{HOST}:{self._server.sockets[0].getsockname()[1]}"

    def cut(self) -> None:
        """End every connection at once; new ones are accepted unless ``is_refusing``."""
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.is_refusing:
            writer.transport.abort()
            return
        self.accepted += 1
        try:
            server_reader, server_writer = await asyncio.open_connection(HOST, self._target)
        except OSError:
            writer.transport.abort()
            return
        self._writers |= {writer, server_writer}
        for source, target, is_answer in (
            (reader, server_writer, False),
            (server_reader, writer, True),
        ):
            pipe = asyncio.ensure_future(self._pipe(source, target, is_answer))
            self._pipes.add(pipe)
            pipe.add_done_callback(self._pipes.discard)

    async def _pipe(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_answer: bool
    ) -> None:
        with contextlib.suppress(OSError):
            while chunk := await source.read(65_536):
                if not (is_answer and self.loses_answers):
                    target.write(chunk)
                    await target.drain()
        target.transport.abort()
