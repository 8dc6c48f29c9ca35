"""Commands in pipelines: slow writers, readers that leave, and Ctrl-C."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from asyncio.subprocess import PIPE
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.lines import read_lines
from tests.client.cli.command import ottla
from tests.support.terminals import HEARS_HANGUPS

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.support.toy_broker import ToyCluster


async def start(*arguments: str) -> asyncio.subprocess.Process:
    """A command with pipes on all three sides, which SIGHUP reaches."""
    command = (*HEARS_HANGUPS, sys.executable, "-m", "ottla", *arguments)
    return await asyncio.create_subprocess_exec(*command, stdin=PIPE, stdout=PIPE, stderr=PIPE)


async def test_a_line_is_sent_before_the_next_one_is_there(toy: ToyCluster) -> None:
    """``tail -f | ottla produce`` must not wait for a full buffer."""
    topic = toy.add_topic("t")
    process = await start("produce", "t", "-b", toy.bootstrap)
    assert process.stdin is not None
    for number in range(2):
        process.stdin.write(b"%d\n" % number)
        while len(topic.partitions[0].values()) <= number:
            await asyncio.sleep(0.005)
    process.stdin.close()

    assert await process.wait() == 0
    assert topic.partitions[0].values() == [b"0", b"1"]


async def test_a_reader_that_has_seen_enough_ends_the_command(toy: ToyCluster) -> None:
    """``ottla consume | head -1`` is no error."""
    toy.add_topic("t")
    await ottla("produce", "t", "-b", toy.bootstrap, stdin=b"line\n" * 10_000)
    process = await start("consume", "t", "-b", toy.bootstrap, "--from-beginning")
    assert process.stdout is not None
    assert process.stderr is not None
    assert await process.stdout.readline() == b"line\n"
    transport = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    transport.close()
    await ottla("produce", "t", "-b", toy.bootstrap, stdin=b"line\n" * 10_000)

    assert await process.stderr.read() == b""
    assert await process.wait() == 0


@pytest.mark.parametrize(
    "arguments", [["--help"], ["topics", "--help"], ["completion", "bash"], ["__complete", ""]]
)
async def test_a_pipe_without_a_reader_ends_every_command_quietly(arguments: list[str]) -> None:
    """Commands that only print a text end quietly, too: ``ottla --help | head -1``."""
    reading, writing = os.pipe()
    os.close(reading)
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "ottla", *arguments, stdout=writing, stderr=PIPE
    )
    os.close(writing)
    _, errors = await process.communicate()

    assert errors == b""
    assert process.returncode == 0


async def test_an_interrupt_ends_the_command_without_a_traceback(toy: ToyCluster) -> None:
    """Ctrl-C is how a person stops a consumer that waits."""
    toy.add_topic("t")
    await ottla("produce", "t", "-b", toy.bootstrap, stdin=b"line\n")
    process = await start("consume", "t", "-b", toy.bootstrap, "--from-beginning")
    assert process.stdout is not None
    await process.stdout.readline()
    process.send_signal(signal.SIGINT)

    output, errors = await process.communicate()

    assert (process.returncode, output, errors) == (130, b"", b"")


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"\n", [b""]),
        (b"a\n\nb", [b"a", b"", b"b"]),
        (b"\r\n\x0c\n\x85\xe2\x80\xa8", [b"\r", b"\x0c", b"\x85\xe2\x80\xa8"]),
        (b"x" * 600_000 + b"\nshort", [b"x" * 600_000, b"short"]),
    ],
)
@pytest.mark.parametrize("piece_bytes", [1, 7, 1_000_000])
async def test_only_newlines_end_a_line(
    data: bytes, expected: list[bytes], piece_bytes: int
) -> None:
    """Other line separators are data, in whichever pieces the bytes arrive."""
    source, target = os.pipe()
    piece_bytes = max(piece_bytes, len(data) // 50)

    async def write() -> None:
        os.set_blocking(target, False)
        position = 0
        while position < len(data):
            with contextlib.suppress(BlockingIOError):
                position += os.write(target, data[position : position + piece_bytes])
            await asyncio.sleep(0)
        os.close(target)

    writing = asyncio.ensure_future(write())
    lines = [line async for group in read_lines(source) for line in group]
    await writing
    os.close(source)

    assert lines == expected


async def test_a_file_is_read_to_its_end(tmp_path: Path) -> None:
    """A loop cannot wait for a file, and need not."""
    path = tmp_path / "lines"
    path.write_bytes(b"line\n" * 100_000)
    with path.open("rb") as file:
        lines = [line async for group in read_lines(file.fileno()) for line in group]

    assert lines == [b"line"] * 100_000
