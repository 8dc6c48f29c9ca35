"""Actions of tests on ZooKeeper sessions from outside."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from kazoo.client import KazooClient

from ottla.coordinator.store.store import SessionState
from ottla.coordinator.store.zookeeper import ZooKeeperOptions, ZooKeeperStore
from ottla.wire.clock import RealClock

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.store import MetadataSession
    from ottla.coordinator.store.zookeeper_session import ZooKeeperSession

LIMIT_SECONDS = 90.0


async def open_store(connect: str, options: ZooKeeperOptions | None = None) -> ZooKeeperStore:
    """A store on the real clock. A connection has its own time: unless said, a minute, however
    short the sessions are that are opened."""
    options = options or ZooKeeperOptions(connection_timeout_ms=60_000)
    return await ZooKeeperStore.open(connect, RealClock(), options)


async def until(is_so: Callable[[], bool], limit_seconds: float = LIMIT_SECONDS) -> None:
    """Look again until it is so. Raises TimeoutError."""
    async with asyncio.timeout(limit_seconds):
        while not is_so():
            await asyncio.sleep(0.005)


def states_of(session: MetadataSession) -> list[SessionState]:
    """A list that grows with every change from now on."""
    heard: list[SessionState] = []
    session.on_state(heard.append)
    return heard


async def expire(session: ZooKeeperSession, hosts: str) -> None:
    """Have the servers end a session: another client takes it over and closes it."""
    identity = session._channel._link._kazoo.client_id  # type: ignore[attr-defined]
    thief = KazooClient(hosts, timeout=session.timeout_ms / 1000, client_id=identity)
    await asyncio.to_thread(thief.start)
    await asyncio.to_thread(thief.stop)
    await asyncio.to_thread(thief.close)
    await until(lambda: session.state is SessionState.LOST)
