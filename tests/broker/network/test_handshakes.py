"""Tests of the limits of handshakes: strangers cost little, and others get in meanwhile."""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING

from ottla.broker.network import handshakes
from tests.broker.security.test_tls_clients import admin, listener, secured
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    import pytest

    from tests.support.in_process import RunningBroker


async def silent(running: RunningBroker) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection that sends the first bytes of a handshake and no more."""
    reader, writer = await asyncio.open_connection(*running.broker.address)
    writer.write(b"\x16\x03\x01\x02")
    return reader, writer


async def test_a_handshake_ends_at_its_deadline_however_slowly_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The deadline is absolute: a byte now and then does not put it off."""
    monkeypatch.setattr(handshakes, "LIMIT_MS", 300.0)
    async with running_broker(listener()) as running:
        reader, writer = await silent(running)

        async def drip() -> None:
            while True:
                await asyncio.sleep(0.05)
                writer.write(b"\0")

        dripping = asyncio.create_task(drip())
        async with asyncio.timeout(60):
            assert await reader.read() == b""
        dripping.cancel()
        writer.close()
        assert running.broker.network.handshakes.failed_count == 1
        assert running.broker.network.connection_count == 0


async def test_silent_peers_have_less_time_while_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A thousand half-open connections must not keep clients out for ten seconds at a time."""
    monkeypatch.setattr(handshakes, "RUNNING_MAX", 2)
    monkeypatch.setattr(handshakes, "PRESSED_LIMIT_MS", 100.0)
    monkeypatch.setattr(handshakes, "PRESSED_LOOK_MS", 20.0)
    async with running_broker(listener()) as running:
        ours = running.broker.network.handshakes
        strangers = [await silent(running) for _ in range(5)]
        async with asyncio.timeout(60):
            while ours.running_count < 2 or ours.waiting_count < 1:
                await asyncio.sleep(0.01)
            async with admin(running, secured()) as client:
                await client.list_topics()
        assert ours.succeeded_count >= 1
        for _, writer in strangers:
            writer.close()


async def test_who_waits_for_a_turn_has_no_more_time_than_who_has_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ten thousand half-open connections would wait for minutes, each with its descriptor."""
    monkeypatch.setattr(handshakes, "RUNNING_MAX", 1)
    monkeypatch.setattr(handshakes, "LIMIT_MS", 400.0)
    monkeypatch.setattr(handshakes, "PRESSED_LOOK_MS", 20.0)
    async with running_broker(listener()) as running:
        ours = running.broker.network.handshakes
        begun = time.monotonic()
        strangers = [await silent(running) for _ in range(20)]
        async with asyncio.timeout(60):
            for reader, writer in strangers:
                with contextlib.suppress(ConnectionResetError):
                    assert await reader.read() == b""
                writer.close()
            while ours.running_count:
                await asyncio.sleep(0.01)
        # One after the other they would take twenty times the limit.
        assert time.monotonic() - begun < 5
        assert (ours.failed_count, ours.waiting_count) == (20, 0)


async def test_a_broker_stops_in_the_middle_of_handshakes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that run and those that wait end with it, and no descriptor is left."""
    monkeypatch.setattr(handshakes, "RUNNING_MAX", 2)
    async with running_broker(listener()) as running:
        ours = running.broker.network.handshakes
        strangers = [await silent(running) for _ in range(4)]
        async with asyncio.timeout(60):
            while ours.waiting_count < 2:
                await asyncio.sleep(0.01)
    async with asyncio.timeout(60):
        for reader, writer in strangers:
            with contextlib.suppress(ConnectionResetError):
                assert await reader.read() == b""
            writer.close()
    assert ours.running_count == ours.waiting_count == 0
