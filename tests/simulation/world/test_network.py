"""The simulated network keeps TCP's promises and breaks them only in TCP's ways."""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.ports import Address, SocketOptions
from tests.simulation.world.links import Links, NetProfile
from tests.simulation.world.loop import SimLoop
from tests.simulation.world.network import SimNet
from tests.simulation.world.process import SimProcess
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from tests.simulation.world.socket import SimListener, SimSocket

OPTIONS = SocketOptions()
CALM = NetProfile(spike_probability=0.0, fragment_probability=0.0)


class Bench:
    """Two hosts with one process each."""

    def __init__(self, profile: NetProfile = CALM, seed: int = 1) -> None:
        random = SimRandom(seed)
        self.digest = hashlib.sha256()
        self.loop = SimLoop(random)
        self.links = Links(self.loop, random.child("links"), profile, self.digest.update)
        self.net = SimNet(self.links, random.child("net"))
        self.server = self.net.of_process("server", SimProcess(self.loop, "server", 1))
        self.client = self.net.of_process("client", SimProcess(self.loop, "client", 2))
        self.listener: SimListener = self.server.listen(Address("0.0.0.0", 9092), OPTIONS)

    def run(self, coroutine: Coroutine[Any, Any, None]) -> None:
        try:
            self.loop.run_until_complete(coroutine)
            assert self.loop.failures == []
        finally:
            self.loop.close()

    async def connected(self) -> tuple[SimSocket, SimSocket]:
        near = await self.client.connect(Address("server", 9092), OPTIONS)
        await readable(self.listener)
        return near, self.listener.accept()


async def readable(source: SimSocket | SimListener) -> None:
    """Wait for readiness once."""
    ready = asyncio.get_running_loop().create_future()
    source.on_readable(lambda: ready.set_result(None))
    try:
        await ready
    finally:
        source.on_readable(None)


async def read(socket: SimSocket, count: int) -> bytes:
    """Read until that many bytes or the end."""
    received = b""
    buffer = memoryview(bytearray(4096))
    while len(received) < count:
        await readable(socket)
        size = socket.recv_into(buffer[: count - len(received)])
        if size == 0:
            break
        received += buffer[:size]
    return received


async def write(socket: SimSocket, content: bytes) -> int:
    """Send all; returns how often the buffer was full."""
    waits = 0
    while content:
        try:
            content = content[socket.sendmsg([content]) :]
        except BlockingIOError:
            waits += 1
            room = asyncio.get_running_loop().create_future()
            socket.on_writable(lambda room=room: room.done() or room.set_result(None))  # type: ignore[misc]
            await room
            socket.on_writable(None)
    return waits


def test_bytes_arrive_in_order_through_fragments_and_full_buffers() -> None:
    """Framing and back-pressure are exercised by every connection of every run."""
    bench = Bench(NetProfile(fragment_probability=1.0, buffer_bytes=1000))

    async def scenario() -> None:
        near, far = await bench.connected()
        sent = SimRandom(9).token(50_000)
        writing = asyncio.create_task(write(near, sent))
        assert await read(far, len(sent)) == sent
        assert await writing > 10
        near.close()
        assert await read(far, 1) == b""

    bench.run(scenario())


def test_the_same_seed_delivers_the_same_fragments() -> None:
    """Replay needs a network that follows from the seed."""

    def digest(seed: int) -> str:
        bench = Bench(NetProfile(), seed)

        async def scenario() -> None:
            near, far = await bench.connected()
            await asyncio.gather(write(near, b"x" * 5000), read(far, 5000))

        bench.run(scenario())
        return bench.digest.hexdigest()

    assert digest(1) == digest(1)
    assert digest(1) != digest(2)


def test_connecting_to_a_closed_port_is_refused() -> None:
    """A refused connection is how clients learn that a process is gone."""
    bench = Bench()

    async def scenario() -> None:
        with pytest.raises(ConnectionRefusedError):
            await bench.client.connect(Address("server", 9093), OPTIONS)
        bench.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await bench.client.connect(Address("server", 9092), OPTIONS)

    bench.run(scenario())


def test_a_full_backlog_makes_the_client_wait_for_its_next_attempt() -> None:
    """Linux drops the SYN; the client notices nothing but time."""
    bench = Bench()
    bench.listener.close()

    async def scenario() -> None:
        listener = bench.server.listen(Address("", 9092), SocketOptions(backlog=1))
        first = await bench.client.connect(Address("server", 9092), OPTIONS)
        second = asyncio.create_task(bench.client.connect(Address("server", 9092), OPTIONS))
        await asyncio.sleep(0.5)
        assert not second.done()
        listener.accept()
        await second
        assert bench.loop.time() > 1.0
        first.close()

    bench.run(scenario())


def test_a_killed_process_ends_its_connections() -> None:
    """The kernel survives the process and says goodbye for it."""
    bench = Bench()

    async def scenario() -> None:
        near, _ = await bench.connected()
        bench.net.process_died("server")
        assert await read(near, 1) == b""
        near.sendmsg([b"late"])
        await readable(near)
        await asyncio.sleep(0.1)
        with pytest.raises(ConnectionResetError):
            near.recv_into(memoryview(bytearray(1)))

    bench.run(scenario())


def test_after_a_power_cut_the_peer_hears_nothing_until_the_machine_is_back() -> None:
    """Half-open connections are why every request needs a timeout."""
    bench = Bench()

    async def scenario() -> None:
        near, _ = await bench.connected()
        bench.net.power_cut("server")
        heard = asyncio.create_task(readable(near))
        near.sendmsg([b"hello?"])
        await asyncio.sleep(60)
        assert not heard.done()
        bench.net.power_on("server")
        await heard
        with pytest.raises(ConnectionResetError):
            near.recv_into(memoryview(bytearray(1)))

    bench.run(scenario())


def test_a_cut_direction_delays_and_loses_nothing() -> None:
    """TCP sends again: what was accepted before the cut arrives after it is healed."""
    bench = Bench()

    async def scenario() -> None:
        near, far = await bench.connected()
        bench.links.cut("client", "server")
        near.sendmsg([b"delayed"])
        far.sendmsg([b"at once"])
        assert await read(near, 7) == b"at once"
        await asyncio.sleep(5)
        bench.links.heal("client", "server")
        assert await read(far, 7) == b"delayed"
        assert bench.loop.time() > 5

    bench.run(scenario())


def test_a_reset_reaches_both_sides() -> None:
    """Middleboxes break connections that both ends thought healthy."""
    bench = Bench()

    async def scenario() -> None:
        near, far = await bench.connected()
        assert bench.net.reset_connections("server") == 1
        for socket in (near, far):
            await readable(socket)
            with pytest.raises(ConnectionResetError):
                socket.recv_into(memoryview(bytearray(1)))
            with pytest.raises(BrokenPipeError):
                socket.sendmsg([b"x"])

    bench.run(scenario())


def test_closing_with_unread_bytes_resets() -> None:
    """A server that closes early can destroy the answer it has just sent; so it does on Linux."""
    bench = Bench()

    async def scenario() -> None:
        near, far = await bench.connected()
        near.sendmsg([b"never read"])
        await readable(far)
        far.close()
        await readable(near)
        with pytest.raises(ConnectionResetError):
            near.recv_into(memoryview(bytearray(1)))

    bench.run(scenario())


def test_readiness_is_level_triggered() -> None:
    """A callback that takes one byte is called again for the next."""
    bench = Bench()

    async def scenario() -> None:
        near, far = await bench.connected()
        taken: list[bytes] = []
        near.sendmsg([b"abc"])

        def take() -> None:
            buffer = bytearray(1)
            far.recv_into(memoryview(buffer))
            taken.append(bytes(buffer))

        far.on_readable(take)
        await asyncio.sleep(1)
        assert taken == [b"a", b"b", b"c"]

    bench.run(scenario())


def test_a_port_is_free_again_after_a_kill_and_taken_before() -> None:
    """A restarted broker gets its port back at once."""
    bench = Bench()
    with pytest.raises(OSError, match="taken"):
        bench.server.listen(Address("", 9092), OPTIONS)

    bench.net.process_died("server")
    bench.server.listen(Address("", 9092), OPTIONS)
    bench.loop.close()
