"""Settings that arrive over the wire name no code, file, URL or command that a broker would use."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from typing import TYPE_CHECKING, Any

import pytest

from ottla.coordinator.configs.broker_configs_table import BROKER_CONFIGS
from ottla.coordinator.configs.definitions import Update
from ottla.coordinator.configs.group_configs import GROUP_CONFIGS
from ottla.coordinator.configs.topic_configs import TOPIC_CONFIGS
from ottla.protocol.messages.alter_configs import (
    AlterableConfig as WholeConfig,
)
from ottla.protocol.messages.alter_configs import (
    AlterConfigsRequest,
)
from ottla.protocol.messages.alter_configs import (
    AlterConfigsResource as WholeResource,
)
from ottla.protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.security.test_login import log_in
from tests.broker.support.requests import create
from tests.support.in_process import running_broker
from tests.support.sasl_broker import sasl_settings

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.raw_client import RawClient

TOPIC, BROKER, GROUP = 2, 4, 32
CANARY = "canary_of_this_test"
# Stores of keys may be named while a broker runs, as in Kafka: their files are read, and no more.
STORES = ("ssl.keystore.location", "ssl.truststore.location")
# Of the long run, each in a broker of its own.
PARTS = 8
LISTENER = "listener.name.sasl_plaintext."

_touched: list[tuple[str, str]] = []
_is_watching = [False]


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if not _is_watching[0]:
        return
    if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
        _touched.append((event, repr(arguments)))
    elif event in ("open", "import", "socket.connect", "socket.getaddrinfo", "compile", "exec"):
        text = repr(arguments)
        if CANARY in text or "127.9.9.9" in text:
            _touched.append((event, text))


# Python has no way to take a hook away: it does nothing outside of the test.
sys.addaudithook(_hook)


def _payloads(folder: Path) -> list[str]:
    jndi = "com.sun.security.auth.module.JndiLoginModule required user.provider.url="
    return [
        f"{folder}/{CANARY}",
        f"file://{folder}/{CANARY}",
        f"http://127.9.9.9:1/{CANARY}",
        f"ldap://127.9.9.9:1/{CANARY}",
        CANARY,
        f"{CANARY}:main",
        f'{jndi}"ldap://127.9.9.9:1/{CANARY}";',
        f"${{file:{folder}/{CANARY}:password}}",
        f"$({folder}/{CANARY})",
        f"__import__('{CANARY}')",
    ]


def _names() -> list[tuple[int, str, str]]:
    """Resource type, resource and setting: every name that is known, also for one listener."""
    found = [(TOPIC, "t", name) for name in (*TOPIC_CONFIGS, *BROKER_CONFIGS)]
    found += [(GROUP, "g", name) for name in GROUP_CONFIGS]
    for broker in ("1", ""):
        found += [(BROKER, broker, name) for name in BROKER_CONFIGS]
        found += [(BROKER, broker, LISTENER + name) for name in BROKER_CONFIGS]
        found += [(BROKER, broker, f"{LISTENER}plain.{name}") for name in BROKER_CONFIGS]
    return [one for one in found if not one[2].endswith(STORES)]


def _names_with_effect() -> list[tuple[int, str, str]]:
    """Those that are taken while a broker runs, or look as if they could name something."""
    words = (".class", ".url", "location", "jaas", "provider", "factory", "callback", "policy")
    return [
        (kind, resource, name)
        for kind, resource, name in _names()
        if resource == "1"
        and (
            any(word in name for word in words)
            or (name in BROKER_CONFIGS and BROKER_CONFIGS[name].update is not Update.READ_ONLY)
        )
    ] + [(TOPIC, "t", name) for name in TOPIC_CONFIGS]


async def _try(client: RawClient, place: tuple[int, str, str], payload: str) -> None:
    kind, resource, name = place
    change = AlterConfigsResource(kind, resource, [AlterableConfig(name, 0, payload)])
    await client.call(1, IncrementalAlterConfigsRequest([change]))
    back = AlterConfigsResource(kind, resource, [AlterableConfig(name, 1, None)])
    await client.call(1, IncrementalAlterConfigsRequest([back]))
    whole = WholeResource(kind, resource, [WholeConfig(name, payload)])
    await client.call(2, AlterConfigsRequest([whole], validate_only=True))


async def _attack(folder: Path, places: list[tuple[int, str, str]], per_name: int) -> None:
    (folder / CANARY).write_text("password=x")
    settings = sasl_settings("PLAIN", "SCRAM-SHA-256", super_users="User:alice;User:ANONYMOUS")
    payloads = _payloads(folder)
    async with running_broker(settings) as running, running.connect() as client:
        await log_in(client)
        await create(client, "t")
        _touched.clear()
        _is_watching[0] = True
        try:
            for number, place in enumerate(places):
                for turn in range(per_name):
                    await _try(client, place, payloads[(number + turn) % len(payloads)])
            async with running.connect() as other:
                assert (await log_in(other)).error_code == 0
            await asyncio.sleep(0.2)
        finally:
            _is_watching[0] = False
    assert _touched == []


@pytest.mark.slow
async def test_no_setting_makes_a_broker_open_call_load_or_run_anything(tmp_path: Path) -> None:
    """Tried (SEC-15), by a super user: files, URLs, classes, JAAS modules, substitutions, commands
    in the names that a running broker takes, and in those that look as if they named something."""
    await _attack(tmp_path, _names_with_effect(), 3)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("part", range(PARTS))
async def test_no_name_with_any_payload_does_either(tmp_path: Path, part: int) -> None:
    """Tried: every name with all of them."""
    await _attack(tmp_path, _names()[part::PARTS], len(_payloads(tmp_path)))


def test_the_hook_detects_a_loaded_payload(tmp_path: Path) -> None:
    """Else the test above would pass for ever."""
    _touched.clear()
    _is_watching[0] = True
    try:
        (tmp_path / CANARY).write_text("x")
        with contextlib.suppress(ImportError):
            __import__(CANARY)
    finally:
        _is_watching[0] = False
    assert {event for event, _arguments in _touched} == {"open", "import"}
    _touched.clear()
