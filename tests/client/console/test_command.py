"""``ottla console`` as a process: it serves, ends by a signal, and with the one that started it."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

import ottla
from ottla.__main__ import main
from ottla.client.cli.run import CommandError
from ottla.client.cli.web.server import listen

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

READY = b"ottla: console at "
LIMIT_S = 60.0


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "ottla",
        "console",
        *arguments,
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def _address_of(process: asyncio.subprocess.Process) -> str:
    assert process.stdout is not None
    line = await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
    assert line.startswith(READY), line
    return line.removeprefix(READY).decode().strip()


@pytest.fixture
async def running() -> AsyncIterator[tuple[asyncio.subprocess.Process, str]]:
    """A console of a cluster that is started later: nothing answers there yet."""
    process = await _start("-b", "127.0.0.1:1", "--port", "0", "--attached")
    yield process, await _address_of(process)
    if process.returncode is None:
        process.kill()
    await process.communicate()


async def test_a_console_starts_before_its_cluster(
    running: tuple[asyncio.subprocess.Process, str],
) -> None:
    """A service manager starts both at once; the pages say what is missing."""
    process, address = running
    async with httpx.AsyncClient(base_url=address) as browser:
        page = await browser.get("/cluster")
    process.send_signal(signal.SIGTERM)
    _output, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)

    assert page.status_code == 502
    assert "cannot reach a broker at 127.0.0.1:1" in page.text
    assert "server" not in page.headers
    assert process.returncode in (-signal.SIGTERM, 128 + signal.SIGTERM)
    assert errors == b"", errors.decode()


async def test_an_attached_console_ends_with_its_parent(
    running: tuple[asyncio.subprocess.Process, str],
) -> None:
    """A broker that is killed cannot end its console; the pipe between them ends in any case."""
    process, _address = running
    assert process.stdin is not None
    process.stdin.close()
    _output, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)

    assert (process.returncode, errors) == (0, b"")


async def test_a_live_tail_shows_new_records_and_ends_with_the_visitor(
    brokers: ottla.Cluster,
) -> None:
    """Each open tail holds a consumer: it has to go when the browser does."""
    brokers.create_topic("live", partitions=2)
    process = await _start("-b", brokers.bootstrap_servers, "--port", "0")
    address = await _address_of(process)
    events: list[str] = []
    async with (
        httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as browser,
        ottla.Producer(brokers.bootstrap_servers) as producer,
        browser.stream("GET", "/topics/live/tail?filter=value.n<2") as answer,
    ):
        assert answer.headers["content-type"].startswith("text/event-stream")
        async for line in answer.aiter_lines():
            if line == "event: ready":
                for number in range(3):
                    await (await producer.send("live", b'{"n": %d}' % number, partition=0))
            if line.startswith("data: ") and "offset" in line:
                events.append(json.loads(line.removeprefix("data: "))["value"]["text"])
            if len(events) == 2:
                break
    async with (
        httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as browser,
        browser.stream("GET", "/topics/live/tail") as answer,
    ):
        assert answer.status_code == 200
        # A tail is open: the signal ends it, and the console with it.
        process.send_signal(signal.SIGTERM)
        _output, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)

    assert [json.loads(text) for text in events] == [{"n": 0}, {"n": 1}]
    assert errors == b"", errors.decode()


async def test_a_port_in_use_is_a_sentence() -> None:
    """The usual mistake: 8080 is taken by another program."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        process = await _start("--port", str(port))
        _output, errors = await asyncio.wait_for(process.communicate(), LIMIT_S)

    assert process.returncode == 1
    assert errors.decode().count("\n") == 1
    said = f"cannot listen on 127.0.0.1:{port}: address already in use; --port takes another port\n"
    assert errors.decode() == f"ottla: {said}"


def test_an_unusable_host_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another port would not help."""

    def unknown(*_arguments: object, **_options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    with monkeypatch.context() as patch:
        patch.setattr(socket, "getaddrinfo", unknown)
        with pytest.raises(CommandError, match=r"not known; --host takes another address$"):
            listen("nowhere", 0)
    with pytest.raises(CommandError, match=r"; --host takes another address$"):
        listen("192.0.2.1", 0)


def test_a_console_without_its_packages_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are an extra: most users of the command do not need them."""
    for name in list(sys.modules):
        if name.startswith("ottla.client.cli.web.server"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "uvicorn", None)

    status = main(["console", "--port", "0"])

    assert status == 1
    assert "the console needs uvicorn" in capsys.readouterr().err
