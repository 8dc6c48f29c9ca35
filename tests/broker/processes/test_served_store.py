"""The store of one process in another one: the common contract, and broken connections."""

from __future__ import annotations

import asyncio
import errno
import os
import stat
from typing import TYPE_CHECKING

import pytest

from ottla.coordinator.store.store import (
    BadVersion,
    ConnectionLoss,
    GroupFailed,
    Replace,
    SessionState,
    WatchEvent,
    WatchEventKind,
)
from tests.broker.processes.served_place import place_at
from tests.coordinator.store.contract import StoreContract
from tests.coordinator.store.support import Heard

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from ottla.coordinator.store.store import MetadataSession
    from tests.broker.processes.served_place import Place


class ServedWorld:
    """The contract's view."""

    def __init__(self, place: Place) -> None:
        self._place = place

    async def connect(self) -> MetadataSession:
        return await self._place.connect()

    async def expire(self, session: MetadataSession) -> None:
        lost = asyncio.Event()
        session.on_state(lambda _: lost.set())
        await self._place.store.expire(session.session_id)
        await lost.wait()


@pytest.fixture
async def place(tmp_path: Path) -> AsyncIterator[Place]:
    async with place_at(tmp_path / "store.socket") as one:
        yield one


class TestServed(StoreContract):
    """A session over a socket behaves as one in the store's own process."""

    @pytest.fixture
    async def world(self, place: Place) -> ServedWorld:
        return ServedWorld(place)


class States:
    """Remembers the states of a session, and waits for one."""

    def __init__(self, session: MetadataSession) -> None:
        self.states: list[SessionState] = []
        self._changed = asyncio.Event()
        session.on_state(self._take)

    def _take(self, state: SessionState) -> None:
        self.states.append(state)
        self._changed.set()

    async def wait_for(self, state: SessionState) -> None:
        while state not in self.states:
            self._changed.clear()
            await self._changed.wait()


def cut(place: Place) -> None:
    """Break all connections from the store's side."""
    for connection in list(place.server._connections):
        connection.stream.close()
        connection._on_end("cut")


async def test_a_session_outlives_its_connection(place: Place) -> None:
    """Ephemeral znodes stay, watches do not: the owner reads again (C-07)."""
    session = await place.connect()
    await session.create("/mine", ephemeral=True)
    heard, states = Heard(), States(session)
    await session.get("/mine", heard)

    cut(place)
    await states.wait_for(SessionState.CONNECTED)

    assert states.states == [SessionState.SUSPENDED, SessionState.CONNECTED]
    assert (await session.get("/mine")).stat.ephemeral_owner == session.session_id
    await session.set("/mine", b"x")
    assert heard.events == []


async def test_an_answer_that_a_cut_takes_away_is_in_doubt(place: Place) -> None:
    """The write may be done or not: the caller has to look (P-08)."""
    session = await place.connect()
    await session.create("/a", b"0")
    writing = asyncio.ensure_future(session.set("/a", b"1"))
    await asyncio.sleep(0)
    cut(place)

    with pytest.raises(ConnectionLoss):
        await writing


async def test_a_silent_process_loses_its_session(place: Place) -> None:
    """What owns ephemeral znodes and says no word for its timeout is gone."""
    session = await place.connect(timeout_ms=600)
    other = await place.connect()
    await session.create("/mine", ephemeral=True)
    gone = asyncio.Event()
    await other.exists("/mine", lambda _event: gone.set())

    # The process is stopped: nothing of it runs.
    session._channel._timer.cancel()  # type: ignore[union-attr]
    await asyncio.wait_for(gone.wait(), 20)

    assert session.state is SessionState.LOST


async def test_sessions_of_a_dead_process_end_at_once(place: Place) -> None:
    """The supervisor knows of its death: no other broker waits out a timeout."""
    session = await place.connect(owner=2)
    other = await place.connect(owner=3)
    await session.create("/mine", ephemeral=True)

    await place.server.end_sessions_of(2)

    assert await other.exists("/mine") is None
    assert other.state is SessionState.CONNECTED


async def test_an_event_never_overtakes_the_read_that_asked_for_it(place: Place) -> None:
    """A reader whose event came first would keep the old value without a watch, for ever."""
    reader, writer = await place.connect(owner=1), await place.connect(owner=2)
    await writer.create("/a", b"0")
    seen: list[bytes] = []
    done = asyncio.Event()

    async def read() -> None:
        found = await reader.get("/a", lambda _event: again.set())
        seen.append(found.data)
        if found.data == b"200":
            done.set()

    again = asyncio.Event()
    again.set()

    async def follow() -> None:
        while not done.is_set():
            await again.wait()
            again.clear()
            await read()

    following = asyncio.ensure_future(follow())
    for value in range(1, 201):
        writing = writer.set("/a", b"%d" % value)
        await asyncio.gather(writing, asyncio.sleep(0))
    await asyncio.wait_for(done.wait(), 30)
    await following

    assert seen[-1] == b"200"
    assert [int(one) for one in seen] == sorted(int(one) for one in seen)


async def test_other_users_cannot_reach_the_store(place: Place) -> None:
    """A user who could write there would own the cluster."""
    mode = os.stat(place.address.host).st_mode

    assert stat.S_IMODE(mode) == 0o600


async def test_a_path_that_is_too_long_for_a_socket_is_reached(tmp_path: Path) -> None:
    """Data directories may be deep; names of sockets may not."""
    deep = tmp_path / ("d" * 90) / ("e" * 90)
    deep.mkdir(parents=True)
    async with place_at(deep / "store.socket") as place:
        session = await place.connect()
        await session.create("/a")
        again = await place.connect()

        assert await again.exists("/a") is not None


async def test_a_failed_disk_ends_sessions_without_an_answer(place: Place) -> None:
    """A write that may not be on the disk is not confirmed (S-09)."""
    session = await place.connect()
    states = States(session)
    place.disk.fsync_error = OSError(errno.EIO, "broken")

    with pytest.raises(ConnectionLoss):
        await session.create("/a")
    await states.wait_for(SessionState.LOST)


async def test_a_group_is_refused_as_a_whole(place: Place) -> None:
    """The index tells which operation was at fault."""
    session = await place.connect()
    await session.create("/a", bytes(range(256)))

    with pytest.raises(GroupFailed) as caught:
        await session.multi([Replace("/a", b"1"), Replace("/a", b"2", 7)])

    assert caught.value.index == 1
    assert isinstance(caught.value.error, BadVersion)
    assert (await session.get("/a")).data == bytes(range(256))


async def test_watches_of_two_sessions_are_their_own(place: Place) -> None:
    """Each hears once."""
    first, second = await place.connect(owner=1), await place.connect(owner=2)
    one, two = Heard(), Heard()
    await first.create("/a")
    await first.exists("/a", one)
    await second.children("/a", two)

    await first.set("/a", b"1")
    await second.create("/a/b")
    await second.sync()
    await first.sync()

    assert one.events == [WatchEvent(WatchEventKind.CHANGED, "/a")]
    assert two.events == [WatchEvent(WatchEventKind.CHILDREN, "/a")]
