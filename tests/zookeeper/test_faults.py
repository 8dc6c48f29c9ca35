"""Sessions in ZooKeeper when servers die, freeze, or lose answers."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    Check,
    ConnectionLoss,
    Create,
    Replace,
    SessionExpired,
    SessionState,
    StoreError,
)
from ottla.coordinator.store.zookeeper import ZooKeeperOptions
from tests.coordinator.store.support import Heard
from tests.zookeeper.relay import Relay
from tests.zookeeper.servers import Ensemble, ZooKeeperServer
from tests.zookeeper.sessions import expire, open_store, states_of, until
from tests.zookeeper.shared import fresh_place, need_zookeeper, shared_server

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    from ottla.coordinator.store.zookeeper import ZooKeeperStore
    from ottla.coordinator.store.zookeeper_session import ZooKeeperSession

CYCLES = 30


@pytest.fixture
def server() -> Iterator[ZooKeeperServer]:
    """One that may be killed."""
    need_zookeeper()
    with ZooKeeperServer() as started:
        yield started


@pytest.fixture(scope="module")
def ensemble() -> Iterator[Ensemble]:
    """Three; each test starts again what it has killed."""
    need_zookeeper()
    with Ensemble() as started:
        yield started


@pytest.fixture
async def relayed() -> AsyncIterator[tuple[Relay, ZooKeeperStore]]:
    """A store behind a relay to the shared server."""
    address, _, chroot = fresh_place().partition("/")
    async with Relay(int(address.rpartition(":")[2])) as relay:
        store = await open_store(f"{relay.address}/{chroot}")
        yield relay, store
        await store.close()


async def write(session: ZooKeeperSession, path: str, data: bytes) -> None:
    """Set it, again and again while there is no connection: the same data twice does no harm."""
    while True:
        try:
            await session.set(path, data)
        except ConnectionLoss:
            await asyncio.sleep(0.01)
        else:
            return


async def test_a_restarted_server_finds_the_same_session(server: ZooKeeperServer) -> None:
    """A short outage of the ensemble must not cost the registrations of all brokers."""
    store = await open_store(server.address)
    session = await store.connect(10_000)
    session_id = session.session_id
    states = states_of(session)
    heard = Heard()
    await session.create("/a", ephemeral=True)
    await session.exists("/a", heard)

    await asyncio.to_thread(server.kill)
    await until(lambda: session.state is SessionState.SUSPENDED)
    with pytest.raises(ConnectionLoss):
        await session.get("/a")
    await asyncio.to_thread(server.start)
    await until(lambda: session.state is SessionState.CONNECTED)

    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert session.session_id == session_id
    assert (await session.get("/a")).stat.ephemeral_owner == session_id
    await session.set("/a", b"1")
    assert heard.events == [], "watches do not outlive a connection"
    await store.close()


async def test_without_any_server_the_session_is_lost_by_our_own_clock(ensemble: Ensemble) -> None:
    """C-06: kazoo would keep trying, and never report that the session has ended."""
    ensemble.start()
    store = await open_store(ensemble.address)
    session = await store.connect(3_000)
    states = states_of(session)
    await asyncio.to_thread(ensemble.kill)
    await until(lambda: session.state is SessionState.LOST)
    late_ms = time.monotonic() * 1000 - session.last_answer_ms - session.timeout_ms

    assert states[-2:] == [SessionState.SUSPENDED, SessionState.LOST]
    assert 0 <= late_ms < 30_000
    with pytest.raises(SessionExpired):
        await session.get("/")
    await store.close()


@pytest.mark.slow
async def test_a_session_survives_the_death_of_the_leader(ensemble: Ensemble) -> None:
    """Two of three servers are enough, whichever two."""
    ensemble.start()
    store = await open_store(ensemble.address)
    session = await store.connect(30_000)
    session_id = session.session_id
    await session.create("/leader-test", ephemeral=True)
    for number in range(3):
        leader = await asyncio.to_thread(ensemble.leader)
        await asyncio.to_thread(leader.kill)
        await asyncio.wait_for(write(session, "/leader-test", b"%d" % number), 90)
        await asyncio.to_thread(leader.start)

    found = await session.get("/leader-test")
    assert (found.data, found.stat.ephemeral_owner) == (b"2", session_id)
    assert session.session_id == session_id
    await store.close()


async def test_a_frozen_server_is_left_in_time(ensemble: Ensemble) -> None:
    """The server keeps its connections open and is silent; another one takes the session over."""
    ensemble.start()
    leader = await asyncio.to_thread(ensemble.leader)
    followers = [server for server in ensemble.servers if server is not leader]
    store = await open_store(",".join(server.address for server in followers))
    session = await store.connect(9_000)
    session_id = session.session_id
    states = states_of(session)
    host = session._channel._link._kazoo._connection._last_host  # type: ignore[attr-defined]
    frozen = next(server for server in followers if server.port == host[1])
    frozen.pause()
    try:
        await until(lambda: SessionState.CONNECTED in states)
        await session.create("/frozen-test", ephemeral=True)
    finally:
        frozen.resume()

    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert session.session_id == session_id
    await store.close()


async def test_the_only_server_may_freeze_for_good(server: ZooKeeperServer) -> None:
    """The session is lost in time, and its thread does not wait endlessly for the close."""
    before = threading.active_count()
    store = await open_store(server.address)
    session = await store.connect(1_000)
    server.pause()
    await until(lambda: session.state is SessionState.LOST)
    await until(lambda: threading.active_count() <= before)

    assert session.state is SessionState.LOST
    assert threading.active_count() <= before
    await store.close()


async def test_a_server_may_start_later_than_its_clients(server: ZooKeeperServer) -> None:
    """After a power cut everything starts at once, and in any order."""
    await asyncio.to_thread(server.kill)
    store = await open_store(server.address, ZooKeeperOptions(connection_timeout_ms=90_000))
    connecting = asyncio.ensure_future(store.connect(10_000))
    await asyncio.sleep(1.5)
    await asyncio.to_thread(server.start)

    assert (await connecting).state is SessionState.CONNECTED
    await store.close()


async def test_a_connection_may_break_again_and_again(
    relayed: tuple[Relay, ZooKeeperStore],
) -> None:
    """Old races stick a session between two states; thirty cuts leave it sound, and no thread."""
    relay, store = relayed
    session = await store.connect(10_000)
    session_id = session.session_id
    states = states_of(session)
    await session.create("/a")
    for number in range(CYCLES):
        relay.is_refusing = number % 3 == 0
        busy = [asyncio.ensure_future(session.set("/a", b"x")) for _ in range(number * 10)]
        if number % 2:
            await asyncio.sleep(0)
        relay.cut()
        await until(lambda: session.state is SessionState.SUSPENDED)
        with pytest.raises(ConnectionLoss):
            await session.set("/a", b"never")
        relay.is_refusing = False
        await until(lambda: session.state is SessionState.CONNECTED)
        results = await asyncio.gather(*busy, return_exceptions=True)
        assert all(isinstance(one, tuple | ConnectionLoss) for one in results)
        heard = Heard()
        await session.get("/a", heard)
        await session.set("/a", b"%d" % number)
        assert len(heard.events) == 1
        assert (await session.get("/a")).data == b"%d" % number

    assert states == [SessionState.SUSPENDED, SessionState.CONNECTED] * CYCLES
    assert session.session_id == session_id
    before = threading.active_count()
    await session.close()
    await until(lambda: threading.active_count() < before)


async def test_a_write_whose_answer_is_lost_has_an_unknown_outcome(
    relayed: tuple[Relay, ZooKeeperStore],
) -> None:
    """P-08: the write was applied without an answer, and a read shows it."""
    relay, store = relayed
    session = await store.connect(10_000)
    chroot = store._place.chroot
    other = await (await open_store(shared_server().address + chroot)).connect(10_000)
    await session.create("/a", b"before")
    relay.loses_answers = True
    writing = asyncio.ensure_future(
        session.multi([Check("/a", 0), Replace("/a", b"after"), Create("/b", ephemeral=True)])
    )
    while (await other.get("/a")).data != b"after":
        await asyncio.sleep(0.01)
    assert not writing.done()
    relay.cut()
    with pytest.raises(ConnectionLoss):
        await writing
    relay.loses_answers = False
    await until(lambda: session.state is SessionState.CONNECTED)
    await session.sync()

    found = await session.get("/a")
    assert (found.data, found.stat.version) == (b"after", 1)
    made = await session.exists("/b")
    assert made is not None
    assert made.ephemeral_owner == session.session_id
    await other.close()


async def test_a_new_session_follows_an_expired_one() -> None:
    """C-06, C-08: the object of the lost session is dead; the store opens another one."""
    place = fresh_place()
    store = await open_store(place)
    lost = await store.connect(10_000)
    states = states_of(lost)
    await lost.create("/a", ephemeral=True)
    await expire(lost, shared_server().address)
    session = await store.connect(10_000)

    assert states[-1] is SessionState.LOST
    assert SessionState.CONNECTED not in states
    assert session.session_id != lost.session_id
    assert await session.exists("/a") is None
    with pytest.raises(SessionExpired):
        await lost.create("/a")
    await store.close()


async def test_too_large_a_request_costs_no_connection() -> None:
    """C-16: a server answers it by hanging up, and so would every repetition end."""
    store = await open_store(fresh_place())
    session = await store.connect(10_000)
    states = states_of(session)
    around = [asyncio.ensure_future(session.create(f"/b{number}")) for number in range(20)]
    await asyncio.sleep(0)
    with pytest.raises(StoreError):
        await session.create("/a", b"x" * 1_100_000)
    await asyncio.gather(*around)
    with pytest.raises(StoreError):
        await session.multi([Create(f"/{number}", b"x" * 10_000) for number in range(101)])
    await session.create("/a", b"x" * 990_000)

    assert len((await session.get("/a")).data) == 990_000
    assert states == []
    await store.close()
