"""The compiled reactor does what the event loop and the connections do in Python."""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import os
import random
import socket
import struct
import sys
import zlib
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, cast

import pytest

from ottla.broker.network.reactor import COMPILED_NAME, make_poller
from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.protocol.ports import SocketOptions
from ottla.protocol.records.preference import compiled_twin
from tests.protocol.records.twins import has_compiler
from tests.support.broker_process import ROOT
from tests.support.loops import IS_COMPILED
from tests.support.network_site import LOOPBACK, Site

if TYPE_CHECKING:
    from ottla.broker.network.connection import AcceptedConnection
    from ottla.broker.network.reactor import CompiledPoller

COMPILED: Any = compiled_twin(COMPILED_NAME, "Poller")
# Few, so that many scripts meet the limits of a connection and of the broker.
TIGHT = NetworkSettings(
    processors=1,
    handlers=2,
    queued_requests_max=2,
    unanswered_requests_max=4,
    unsent_bytes_max=3_000,
)
LOOSE = NetworkSettings(processors=1)
LAST, LAST_ANSWER = b"echo:the end", b"echo the end"
# Of one packet, so that answers find no room.
LITTLE_ROOM = SocketOptions(send_buffer_bytes=4_608)

pytestmark = pytest.mark.skipif(
    COMPILED is None and not (sys.platform == "linux" and has_compiler()),
    reason="there is no compiled reactor for this machine",
)


def test_it_is_here_wherever_it_can_be_and_built_from_this_source() -> None:
    """Without this, a build that fails in silence would be slow in silence."""
    assert COMPILED is not None, "install again (make)"
    folder = ROOT / "broker" / "network"
    for name in ("compiled_reactor", "compiled_serving"):
        paths = [folder / f"{name}.pyx", *sorted(folder.glob("*.pxd"))]
        source = b"".join(path.read_bytes() for path in paths)
        module = importlib.import_module(f"ottla.broker.network.{name}")
        assert zlib.crc32(source) == module.SOURCE_CRC, "install again (make)"


def script(seed: int) -> list[bytes]:
    """What a client writes, piece by piece; nothing in it depends on time."""
    choose = random.Random(seed)
    requests = []
    for number in range(choose.randrange(1, 200)):
        kind = choose.choices(
            ["echo", "skip", "big", "mute", "fail", "fail_late", "close"],
            [60, 5, 10, 1, 0.2, 0.2, 0.2],
        )[0]
        argument = f"{number}" + "x" * choose.choice([0, 0, 10, 900, 20_000])
        if kind == "big":
            argument = str(choose.choice([1, 500, 4_000, 16_380, 70_000]))
        elif kind == "mute":
            argument = "1"
        requests.append(f"{kind}:{argument}".encode())
    stream = b"".join(struct.pack(">i", len(one)) + one for one in requests)
    if choose.random() < 0.1:
        stream += struct.pack(">i", -5)
    stream += struct.pack(">i", len(LAST)) + LAST
    pieces = []
    while stream:
        size = choose.choice([1, 3, 50, 700, 5_000, 65_536, 200_000])
        pieces.append(stream[:size])
        stream = stream[size:]
    return pieces


async def played(
    pieces: list[bytes], settings: NetworkSettings, *, is_compiled: bool
) -> tuple[Any, ...]:
    """All that the client gets, what was handled, and what the broker counts at the end."""
    IS_COMPILED.set(is_compiled)
    spec = ListenerSpec("PLAINTEXT", LOOPBACK, options=LITTLE_ROOM)
    async with Site(settings, [spec]) as site:
        client = await site.connect()

        async def write() -> None:
            for piece in pieces:
                client.writer.write(piece)
                await asyncio.sleep(0)

        writing = asyncio.ensure_future(write())
        got = bytearray()
        # Until the broker can send no more.
        await asyncio.sleep(0.005)
        try:
            while chunk := await client.reader.read(1 << 16):
                got += chunk
                if got.endswith(LAST_ANSWER):
                    client.writer.write_eof()
        except ConnectionError:
            got += b"reset"
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        await site.until(lambda: site.server.connection_count == 0)
        status = site.server.diagnostics()
        (counts,) = [asdict(one) for one in status.processors]
        assert status.unfinished_request_bytes == 0
        assert not site.toy.faults
        return bytes(got), site.toy.requests, counts


def is_certain(pieces: list[bytes]) -> bool:
    """Whether nothing in it ends the connection while bytes may still be on their way."""
    content = b"".join(pieces)
    return not any(word in content for word in (b"close:", b"fail", b"\xff"))


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_scripts_of_requests_have_equal_outcomes(first: int) -> None:
    """Quotas, limits, slow peers, pieces of any size: the same answers and the same counts."""
    for seed in range(first, first + 20):
        pieces = script(seed)
        settings = TIGHT if seed % 2 else LOOSE
        plain = asyncio.run(played(pieces, settings, is_compiled=False))
        compiled = asyncio.run(played(pieces, settings, is_compiled=True))
        if is_certain(pieces):
            assert compiled == plain, f"seed {seed}"
        else:
            # How much of it was read before the end is for the network to decide.
            shorter = min(len(compiled[1]), len(plain[1]))
            assert compiled[1][:shorter] == plain[1][:shorter], f"seed {seed}"


def _poller() -> CompiledPoller:
    poller = make_poller()
    assert poller is not None
    return poller


def test_an_event_of_a_closed_socket_is_not_given_to_its_successor() -> None:
    """The kernel gives a descriptor's number to the next socket, perhaps within one turn."""

    async def run() -> list[str]:
        poller, heard = _poller(), []
        pairs = [socket.socketpair() for _ in range(2)]
        late = socket.socketpair()

        def first(own: int) -> None:
            other = pairs[1 - own][0]
            heard.append("first")
            for index in range(2):
                poller.remove(pairs[index][0].fileno())
            # The other one's event is waiting in this turn.
            number = other.fileno()
            os.dup2(late[0].fileno(), number)
            poller.add(number, lambda: heard.append("successor"))

        for index, (read, write) in enumerate(pairs):
            poller.add(read.fileno(), lambda index=index: first(index))  # type: ignore[misc]
            write.send(b"x")
        for _ in range(5):
            await asyncio.sleep(0)
        for pair in pairs:
            poller.remove(pair[0].fileno())
        poller.close()
        for read, write in (*pairs, late):
            read.close()
            write.close()
        return heard

    assert asyncio.run(run()) == ["first"]


def test_a_failing_callback_is_reported_and_keeps_others_from_nothing() -> None:
    """One connection's fault must not silence the rest of the listener."""

    async def run() -> tuple[list[str], list[str]]:
        poller, heard, reported = _poller(), [], []
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, context: reported.append(str(context["exception"]))
        )
        pairs = [socket.socketpair() for _ in range(2)]

        def fail() -> None:
            poller.remove(pairs[0][0].fileno())
            raise ValueError("a fault of ours")

        def hear() -> None:
            pairs[1][0].recv(1)
            heard.append("heard")

        poller.add(pairs[0][0].fileno(), fail)
        poller.add(pairs[1][0].fileno(), hear)
        for _, write in pairs:
            write.send(b"x")
        for _ in range(5):
            await asyncio.sleep(0)
        poller.remove(pairs[1][0].fileno())
        poller.close()
        for read, write in pairs:
            read.close()
            write.close()
        return heard, reported

    assert asyncio.run(run()) == (["heard"], ["a fault of ours"])


def test_no_descriptor_is_left_after_the_end() -> None:
    """The poller outlives its listener, and ends with the last connection."""

    async def run() -> None:
        IS_COMPILED.set(True)
        before = len(os.listdir("/proc/self/fd"))
        async with Site() as site:
            client = await site.connect()
            client.send(b"echo:1")
            assert await client.answer() == b"echo 1"
            site.server.stop_accepting()
            client.send(b"echo:2")
            assert await client.answer() == b"echo 2"
        await asyncio.sleep(0.01)
        assert len(os.listdir("/proc/self/fd")) == before

    asyncio.run(run())


def test_more_requests_than_a_turn_serves_are_all_answered() -> None:
    """What is left after a turn is served without another byte of the peer."""

    async def run() -> list[bytes]:
        IS_COMPILED.set(True)
        async with Site() as site, asyncio.timeout(20):
            client = await site.connect()
            client.send(*(f"echo:{number}".encode() for number in range(300)))
            return await client.answers(300)

    assert asyncio.run(run()) == [f"echo {number}".encode() for number in range(300)]


def test_answers_that_find_no_room_count_as_unsent_until_they_leave() -> None:
    """Else a peer that does not read is read from for ever, and the broker's memory fills."""

    async def run() -> None:
        IS_COMPILED.set(True)
        spec = ListenerSpec("PLAINTEXT", LOOPBACK, options=LITTLE_ROOM)
        async with Site(NetworkSettings(unsent_bytes_max=20_000), [spec]) as site:
            host, port = site.addresses["PLAINTEXT"]
            with socket.socket() as peer:
                peer.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
                peer.connect((host, port))
                peer.setblocking(False)
                asked = site.toy.requests
                connection = None
                while connection is None or not connection.blocked:
                    before = len(asked)
                    assert before < 100, "the broker goes on reading"
                    peer.send(struct.pack(">i", 8) + b"big:7000")
                    while len(asked) == before:
                        await asyncio.sleep(0)
                    connection = cast("AcceptedConnection", site.toy.peers[0])
                got = 0
                while got < len(asked) * 7_004:
                    await asyncio.sleep(0)
                    with contextlib.suppress(BlockingIOError):
                        got += len(peer.recv(1 << 16))
                for _ in range(5):
                    await asyncio.sleep(0)
                assert (connection.unsent_bytes, connection.blocked) == (0, 0)

    asyncio.run(run())
