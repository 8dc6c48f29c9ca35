"""Commands that run until stopped: how they end on a signal or on a closed output pipe."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from typing import TYPE_CHECKING

import pytest

from tests.client.cli.command import ottla
from tests.client.cli.test_pipes import start

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster


@pytest.mark.parametrize("form", [[], ["-f", "%v\\n"]])
async def test_a_reader_that_leaves_is_missed_when_nothing_more_comes(
    toy: ToyCluster, form: list[str]
) -> None:
    """``ottla consume | head -1`` of a topic that fits into the pipe waited for ever."""
    toy.add_topic("t")
    await ottla("produce", "t", "-b", toy.bootstrap, stdin=b"line\n" * 3)
    process = await start("consume", "t", "-b", toy.bootstrap, "--from-beginning", *form)
    assert process.stdout is not None
    assert process.stderr is not None
    await process.stdout.readline()
    transport = process._transport.get_pipe_transport(1)  # type: ignore[attr-defined]
    transport.close()

    assert await process.stderr.read() == b""
    assert await process.wait() == 0


async def test_a_measurement_that_is_terminated_takes_its_topic_with_it(broker: str) -> None:
    """``timeout 10 ottla perf ...`` left one topic each time."""
    process = await start("perf", "produce", "-r", "10", "-b", broker)
    while b"ottla-perf-" not in (await ottla("topics", "list", "-b", broker)).output:
        await asyncio.sleep(0.05)
    process.send_signal(signal.SIGTERM)
    _, errors = await process.communicate()

    assert (process.returncode, errors) == (143, b"")
    assert b"ottla-perf-" not in (await ottla("topics", "list", "-b", broker)).output


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
async def test_a_member_that_is_terminated_commits_and_leaves(
    broker: str, number: signal.Signals, status: int
) -> None:
    """``docker stop`` or a closed terminal ends it so. The other members used to wait for its
    session timeout."""
    name = f"termed-{number.name}"
    await ottla("topics", "create", name, "-p", "1", "-b", broker)
    await ottla("produce", name, "-b", broker, stdin=b"a\nb\n")
    reading = ("consume", name, "-g", name, "-b", broker, "-o", "beginning")
    process = await start(*reading)
    assert process.stdout is not None
    assert [await process.stdout.readline() for _ in range(2)] == [b"a\n", b"b\n"]
    process.send_signal(number)
    output, errors = await process.communicate()

    assert (process.returncode, output, errors) == (status, b"", b"")
    again = await ottla(*reading, "-e")
    assert (again.status, again.output) == (0, b"")


async def test_a_person_is_told_that_the_command_waits(toy: ToyCluster) -> None:
    """An empty topic looks like a command that hangs; the line stays off pipes and files."""
    toy.add_topic("t")
    screen, terminal = os.openpty()
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla", "consume", "t", "-b", toy.bootstrap),
        stdout=asyncio.subprocess.DEVNULL,
        stderr=terminal,
    )
    os.close(terminal)

    told = await asyncio.to_thread(os.read, screen, 200)
    process.send_signal(signal.SIGINT)
    await process.wait()
    os.close(screen)

    assert told == b"ottla: waiting for new records; Ctrl-C ends\r\n"
