"""Delimiters of several bytes, wherever the pieces of the input end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import time
from itertools import product

import pytest

from ottla.client.cli.lines import read_lines

# As much as a pipe gives at once.
PIECE_BYTES = 64 * 1024
PIECES = 400
SECONDS_MAX = 2.0


async def lines_of(pieces: list[bytes], delimiter: bytes) -> list[bytes]:
    """The lines that are read from a sequence of pieces."""
    source, target = os.pipe()

    async def write() -> None:
        os.set_blocking(target, False)
        for piece in pieces:
            position = 0
            while position < len(piece):
                with contextlib.suppress(BlockingIOError):
                    position += os.write(target, piece[position:])
                # It is read before the next one is there.
                await asyncio.sleep(0)
                await asyncio.sleep(0)
        os.close(target)

    writing = asyncio.ensure_future(write())
    lines = [line async for group in read_lines(source, delimiter) for line in group]
    await writing
    os.close(source)
    return lines


@pytest.mark.parametrize("delimiter", [b"||", b"|a|", b"||a|"])
async def test_records_do_not_depend_on_how_the_input_comes(delimiter: bytes) -> None:
    """A delimiter may be in two pieces, or in four, and look like the end of another."""
    for letters in product(b"|a", repeat=5):
        data = bytes(letters)
        expected = data.split(delimiter)
        if not expected[-1]:
            expected.pop()
        for pieces in ([data], [data[:2], data[2:]], [data[at : at + 1] for at in range(5)]):
            assert await lines_of(pieces, delimiter) == expected, (data, pieces)


async def test_a_long_record_is_searched_once() -> None:
    """Each piece used to restart the search from the beginning: 7 seconds for 25 MiB."""
    begun = time.process_time()
    (line,) = await lines_of([b"x" * PIECE_BYTES] * PIECES, b"||")

    assert len(line) == PIECE_BYTES * PIECES
    assert time.process_time() - begun < SECONDS_MAX
