"""Reads input as bytes, split at a delimiter, without blocking the event loop."""

from __future__ import annotations

import asyncio
import os
import select
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

READ_BYTES = 256 * 1024
NEWLINE = b"\n"


async def read_pieces(descriptor: int) -> AsyncIterator[bytes]:
    """The descriptor's bytes as they arrive, until its end.

    The loop watches a pipe or terminal. A file is always ready and cannot be watched, so it is read
    directly; so is any input where the loop can only watch sockets."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except (OSError, NotImplementedError, ValueError):
        while piece := os.read(descriptor, READ_BYTES):
            yield piece
            await asyncio.sleep(0)
        return
    try:
        while True:
            await ready.wait()
            ready.clear()
            # The loop may report readiness twice: a second read would block it.
            if hasattr(select, "poll") and not _is_ready(descriptor):
                continue
            piece = os.read(descriptor, READ_BYTES)
            if not piece:
                return
            yield piece
    finally:
        loop.remove_reader(descriptor)


def _is_ready(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(0))


async def read_lines(descriptor: int, delimiter: bytes = NEWLINE) -> AsyncIterator[list[bytes]]:
    """Whole lines as they arrive, without their delimiter; every other byte is part of the line.

    The end of the input ends the last line, unless it is empty."""
    parts: list[bytes] = []
    # A delimiter of several bytes may be split between two pieces.
    overlap = len(delimiter) - 1
    async for piece in read_pieces(descriptor):
        if overlap and parts:
            piece = _end_of(parts, overlap) + piece
        head, found, rest = piece.partition(delimiter)
        parts.append(head)
        if not found:
            continue
        lines = rest.split(delimiter)
        lines.insert(0, b"".join(parts))
        last = lines.pop()
        parts = [last] if last else []
        yield lines
    tail = b"".join(parts)
    if tail:
        yield [tail]


def _end_of(parts: list[bytes], count: int) -> bytes:
    """Remove and return the last bytes, so that earlier ones are not searched with each piece."""
    end = parts.pop()
    while len(end) < count and parts:
        end = parts.pop() + end
    if len(end) > count:
        parts.append(end[:-count])
    return end[-count:]


async def read_whole(descriptor: int) -> bytes:
    """All bytes until the end."""
    return b"".join([piece async for piece in read_pieces(descriptor)])
