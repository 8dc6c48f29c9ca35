"""``ottla start --console`` runs the console beside the broker."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path

import httpx
import pytest

from ottla.broker.cli import console_process
from ottla.broker.cli.console_process import (
    bootstrap_of,
    check_console,
    client_settings,
    console_command,
    console_listener,
)
from ottla.coordinator.configs.broker_configs import ConfigError
from ottla.protocol.ports import Address
from tests.client.console.site import form_token_of
from tests.support import certificates

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


SASL = {
    "listener.name.inner.ssl.truststore.location": "/inner.pem",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,OUTER:SASL_SSL,INNER:SSL",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "ssl.keystore.location": "/key.pem",
    "ssl.keystore.password": "never told",
    "ssl.truststore.location": "/trusted.pem",
    "ssl.truststore.type": "PEM",
}
PLAIN_USER = 'org.apache.kafka.common.security.plain.PlainLoginModule required user_ada="pw";'


USERS = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="b" password="x" user_b="x" user_ada="pw";'
)


def _listening(listeners: str, **others: str) -> dict[str, str]:
    named = {name.replace("_", "."): value for name, value in others.items()}
    jaas = {"listener.name.outer.plain.sasl.jaas.config": PLAIN_USER}
    return {**SASL, **jaas, "listeners": listeners, **named}


def test_the_console_uses_the_listener_with_logins() -> None:
    """Beside one for the brokers, which lets in everyone who reaches it."""
    settings = _listening(
        "PLAINTEXT://127.0.0.1:9091,OUTER://0.0.0.0:9093",
        advertised_listeners="OUTER://kafka.example:9093",
    )
    listener = console_listener(settings)

    assert bootstrap_of(listener, Address("127.0.0.1", 9091)) == ("kafka.example", 9093)
    assert client_settings(settings, listener) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "SCRAM-SHA-256",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": "/trusted.pem",
    }


def test_the_settings_of_the_listener_come_before_those_of_all() -> None:
    """As for clients of the brokers themselves; a listener without logins needs no form."""
    settings = _listening("INNER://127.0.0.1:0")
    listener = console_listener(settings)

    assert bootstrap_of(listener, Address("127.0.0.1", 1234)) == ("127.0.0.1", 1234)
    assert client_settings(settings, listener)["ssl.truststore.location"] == "/inner.pem"
    assert listener.mechanism is None


def test_a_plain_listener_needs_no_settings() -> None:
    """The console connects to what it is told."""
    listener = console_listener(
        {
            "listeners": "PLAINTEXT://0.0.0.0:9092",
            "advertised.listeners": "PLAINTEXT://kafka.example:9092",
        }
    )

    assert bootstrap_of(listener, Address("0.0.0.0", 9092)) == ("127.0.0.1", 9092)
    assert client_settings({}, listener) == {}
    command = console_command(Address("::1", 9092), 0, Path("/f"))
    assert command[:5] == ["console", "-b", "[::1]:9092", "--port", "0"]
    assert command[5:] == ["--attached", "--command-config", "/f"]


def test_listeners_that_the_console_cannot_use_are_refused_before_the_start() -> None:
    """With the certificate of the broker, visitors would have the rights of a broker."""
    settings = _listening(
        "INNER://127.0.0.1:1,OUTER://127.0.0.1:2",
        ssl_client_auth="required",
        sasl_enabled_mechanisms="OAUTHBEARER",
        inter_broker_listener_name="INNER",
        ottla_oauthbearer_allow_unsecured_tokens="true",
    )
    with pytest.raises(ConfigError) as refused:
        check_console(settings, False)

    assert "INNER requires a certificate of each client" in str(refused.value)
    assert "OUTER takes none of SCRAM-SHA-512, SCRAM-SHA-256, PLAIN" in str(refused.value)
    assert "--command-config" in str(refused.value)


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
async def test_visitors_log_in_to_a_broker_with_users(protocol: str) -> None:
    """Over TLS the console trusts what the broker trusts; it has no rights of its own, and ends
    with the broker as every other."""
    settings = {
        "listeners": f"{protocol}://127.0.0.1:0",
        "sasl.enabled.mechanisms": "PLAIN",
        "inter.broker.listener.name": protocol,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        f"listener.name.{protocol.lower()}.plain.sasl.jaas.config": USERS,
    }
    if protocol == "SASL_SSL":
        settings |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": certificates.store("broker"),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": certificates.trust(),
        }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "ottla", "start", "--memory", "--console", "0"),
        *(part for item in settings.items() for part in ("-o", "=".join(item))),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    line = b""
    while not line.startswith(CONSOLE):
        line = await asyncio.wait_for(process.stderr.readline(), LIMIT_S)
        assert line
    address = line.removeprefix(CONSOLE).decode().strip()
    async with httpx.AsyncClient(base_url=address, timeout=LIMIT_S) as browser:
        before = await browser.get("/api/cluster")
        fields = {"user": "ada", "password": "pw", "mechanism": "PLAIN"}
        page = await browser.get("/login")
        answer = await browser.post(
            "/login", data={**fields, "form_token": form_token_of(page.text)}
        )
        found = await browser.get("/api/cluster")
    process.send_signal(signal.SIGTERM)
    await asyncio.wait_for(process.communicate(), LIMIT_S)

    assert before.status_code == 401
    assert "<option selected>PLAIN</option>" in page.text
    assert answer.status_code == 303, answer.text
    assert len(found.json()["brokers"]) == 1


def test_what_the_console_lacks_is_said_before_the_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker without the console that was asked for would be noticed late."""
    check_console({}, False)
    check_console({"listeners": "SASL_SSL://127.0.0.1:1"}, True)
    monkeypatch.setattr(console_process, "find_spec", lambda _name: None)
    with pytest.raises(ConfigError, match=r"extra `console` \(in its source tree: pip install"):
        check_console({}, False)
