"""Decodes large values in a process of its own, so that the pages of others are served meanwhile.

A thread would not do: the libraries that decode hold Python's lock from the first byte to the last.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from typing import IO, TYPE_CHECKING

from ottla.client.cli.run import CommandError
from ottla.client.cli.web.decoding_worker import ANSWER, REQUEST, head_of
from ottla.wire.clock import TimeLimit

if TYPE_CHECKING:
    from ottla.client.cli.records.schemas import WrittenSchema
    from ottla.protocol.ports import Clock

LIMIT_MS = 3_000.0
# The child finds modules where its parent does, installed or not.
_PROGRAM = (
    "import sys; sys.path[:] = sys.argv[1:]; "
    "from ottla.client.cli.web.decoding_worker import main; main()"
)


class DecodingProcess:
    """One child, started for the first value that needs it. Values take turns.

    Args:
        clock: Ends a child that takes longer than the limit.
        limit_ms: The time that a value may take.
    """

    def __init__(self, clock: Clock, limit_ms: float = LIMIT_MS) -> None:
        self._clock = clock
        self._limit_ms = limit_ms
        self._child: subprocess.Popen[bytes] | None = None
        self._turn = asyncio.Lock()

    @property
    def process_id(self) -> int | None:
        """The child's; None before the first value."""
        return None if self._child is None else self._child.pid

    def close(self) -> None:
        """End the child."""
        child, self._child = self._child, None
        if child is None:
            return
        child.kill()
        child.wait()
        for pipe in (child.stdin, child.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                # What the child has not read is lost with it.
                continue

    async def to_json(self, schema: WrittenSchema, content: bytes) -> bytes:
        """The data as JSON. Raises CommandError for data that cannot be decoded, or not within the
        limit."""
        async with self._turn:
            child = self._child or await self._begin()
            working = asyncio.ensure_future(
                asyncio.to_thread(_exchange, child, head_of(schema), content)
            )
            try:
                async with TimeLimit(self._clock, self._limit_ms):
                    is_json, text = await asyncio.shield(working)
            except TimeoutError:
                raise CommandError(
                    f"its {len(content)} bytes take longer than {self._limit_ms:.0f} ms to decode"
                ) from None
            except (OSError, EOFError):
                raise CommandError("the process that decodes has ended") from None
            finally:
                if not working.done() or working.exception() is not None:
                    await self._end(working)
        if not is_json:
            raise CommandError(text.decode("utf-8", "replace"))
        return text

    async def _begin(self) -> subprocess.Popen[bytes]:
        """Start the child. A cancelled call waits for it: it would stay without an owner."""
        starting = asyncio.ensure_future(asyncio.to_thread(_start))
        try:
            return await asyncio.shield(starting)
        finally:
            await asyncio.wait([starting])
            if starting.exception() is None:
                self._child = starting.result()

    async def _end(self, working: asyncio.Future[tuple[bool, bytes]]) -> None:
        """End the child, and the thread that waits for it."""
        if self._child is not None:
            self._child.kill()
        await asyncio.wait([working])
        self.close()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", _PROGRAM, *sys.path],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        # An interrupt at the terminal is for the console, which ends the child.
        start_new_session=True,
    )


def _exchange(child: subprocess.Popen[bytes], head: bytes, content: bytes) -> tuple[bool, bytes]:
    """In a thread that only waits for the child. Raises OSError and EOFError if it ends."""
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(REQUEST.pack(len(head), len(content)) + head + content)
    child.stdin.flush()
    is_json, length = ANSWER.unpack(_read(child.stdout, ANSWER.size))
    return is_json, _read(child.stdout, length)


def _read(source: IO[bytes], length: int) -> bytes:
    data = source.read(length)
    if len(data) < length:
        raise EOFError
    return data
