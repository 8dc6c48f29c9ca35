"""``ottla start --console`` runs the console beside the broker."""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import TYPE_CHECKING

import httpx
import pytest

from ottla.broker.cli import console_process
from ottla.broker.cli.console_process import check_console, console_command
from ottla.coordinator.configs.broker_configs import ConfigError
from ottla.protocol.ports import Address

if TYPE_CHECKING:
    from pathlib import Path

LIMIT_S = 90.0
CONSOLE = b"ottla: console at "


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
async def test_a_console_starts_and_ends_with_its_broker(number: signal.Signals) -> None:
    """Also with a broker that is killed and can end no other process."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla", "start", "--memory", "--port", "0", "--console", "0"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    ready = await asyncio.wait_for(process.stdout.readline(), LIMIT_S)
    line = b""
    while not line.startswith(CONSOLE):
        line = await asyncio.wait_for(process.stderr.readline(), LIMIT_S)
        assert line
    address = line.removeprefix(CONSOLE).decode().strip()
    async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as browser:
        found = (await browser.get("/api/cluster")).json()

    process.send_signal(number)
    # The console holds standard error, too: its end is the end of both.
    rest, _errors = await asyncio.wait_for(process.communicate(), LIMIT_S)

    assert ready.startswith(b"ottla: ready at 127.0.0.1:")
    assert found["brokers"][0]["address"] in ready.decode()
    assert rest == b""
    async with httpx.AsyncClient(base_url=address) as browser:
        with pytest.raises(httpx.ConnectError):
            await browser.get("/cluster")


def test_the_console_of_a_secure_broker_asks_for_a_login(tmp_path: Path) -> None:
    """The file of the super user is there for the certificate of the authority."""
    settings = {"log.dirs": str(tmp_path)}

    secured = console_command(settings, Address("0.0.0.0", 9092), 8080)
    plain = console_command({}, Address("::1", 9092), 0)

    assert secured[:5] == ["console", "-b", "127.0.0.1:9092", "--port", "8080"]
    assert secured[-3:] == [
        "--command-config",
        str(tmp_path / "secure" / "client.properties"),
        "--login",
    ]
    assert plain == ["console", "-b", "[::1]:9092", "--port", "0", "--attached"]


def test_what_the_console_lacks_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker without the console that was asked for would be noticed late."""
    check_console({}, False)
    check_console({"listeners": "SASL_SSL://127.0.0.1:1"}, True)
    with pytest.raises(ConfigError, match="--command-config"):
        check_console({"listeners": "SASL_SSL://127.0.0.1:1"}, False)
    monkeypatch.setattr(console_process, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"extra `console` \(in its source tree: pip install"):
        check_console({}, False)
