"""A way to a server on which answers are changed to what no server should give."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import TYPE_CHECKING

from tests.zookeeper.relay import Relay

if TYPE_CHECKING:
    from collections.abc import Callable

GROUP = 14
_LENGTH = struct.Struct("!i")
# Number and kind of a request; number, transaction and error of an answer.
_ASKED = struct.Struct("!ii")
ANSWERED = struct.Struct("!iqi")


class StrangeRelay(Relay):
    """Relays everything, but changes the answers to requests of one kind by ``change``."""

    def __init__(self, port: int, kind: int, change: Callable[[bytes], bytes]) -> None:
        super().__init__(port)
        self._kind = kind
        self._change = change
        self._asked: set[int] = set()
        self.is_strange = True
        self.changed = 0

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._asked.clear()
        await super()._serve(reader, writer)

    async def _pipe(
        self, source: asyncio.StreamReader, target: asyncio.StreamWriter, is_answer: bool
    ) -> None:
        # The first frame of each direction opens the session and has no header.
        is_first = True
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                frame = await source.readexactly(_LENGTH.unpack(await source.readexactly(4))[0])
                if not is_first:
                    frame = self._answer(frame) if is_answer else self._request(frame)
                is_first = False
                target.write(_LENGTH.pack(len(frame)) + frame)
                await target.drain()
        target.transport.abort()

    def _request(self, frame: bytes) -> bytes:
        number, kind = _ASKED.unpack_from(frame)
        if kind == self._kind:
            self._asked.add(number)
        return frame

    def _answer(self, frame: bytes) -> bytes:
        number = ANSWERED.unpack_from(frame)[0]
        if number not in self._asked or not self.is_strange:
            return frame
        self.changed += 1
        return self._change(frame)
