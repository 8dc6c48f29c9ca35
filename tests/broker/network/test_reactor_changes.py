"""Connections of the compiled reactor when what they were accepted by has changed."""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, cast

import pytest

from ottla.broker.network.buffers import LARGE_BYTES, SMALL_BYTES
from ottla.broker.network.connection_parts import ListenerParts
from ottla.broker.network.reactor import COMPILED_NAME, make_poller
from ottla.protocol.frames import KafkaFraming
from ottla.protocol.records.preference import compiled_twin
from tests.protocol.records.twins import has_compiler
from tests.support.loops import IS_COMPILED
from tests.support.network_site import Site, Toy

if TYPE_CHECKING:
    from ottla.broker.engine.context import ReplySlot
    from ottla.broker.network.connection import AcceptedConnection

pytestmark = pytest.mark.skipif(
    compiled_twin(COMPILED_NAME, "Poller") is None
    and not (sys.platform == "linux" and has_compiler()),
    reason="there is no compiled reactor for this machine",
)


def test_a_paused_connection_is_served_after_its_listener_has_closed() -> None:
    """A broker that stops goes on serving while it hands its partitions over: a connection that is
    not read from at that moment must be read from again."""

    async def run() -> list[bytes]:
        IS_COMPILED.set(True)
        async with Site() as site, asyncio.timeout(20):
            client = await site.connect()
            client.send(b"suspend:1")
            await site.until(lambda: "1" in site.toy.gates)
            site.server.stop_accepting()
            # It comes while the connection is blocked, which is then no longer watched.
            client.send(b"echo:2")
            await asyncio.sleep(0.02)
            site.toy.open_gate("1")
            answers = await client.answers(2)
            client.send(b"echo:3")
            return [*answers, await client.answer()]

    assert asyncio.run(run()) == [b"suspended 1", b"echo 2", b"echo 3"]


def test_a_socket_that_is_added_after_the_end_is_read_and_leaves_no_descriptor() -> None:
    """A connection that was accepted just before its listener closed is set up after that."""

    async def run() -> bytes:
        poller = make_poller()
        assert poller is not None
        poller.close()
        before = len(os.listdir("/proc/self/fd"))
        heard: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        for_us, for_them = socket.socketpair()
        with for_us, for_them:

            def hear() -> None:
                poller.remove(for_us.fileno())
                heard.set_result(for_us.recv(1))

            poller.add(for_us.fileno(), hear)
            for_them.send(b"x")
            async with asyncio.timeout(20):
                await heard
        assert len(os.listdir("/proc/self/fd")) == before
        return heard.result()

    assert asyncio.run(run()) == b"x"


def test_the_limit_of_requests_is_the_one_of_the_entrance_behind_a_login() -> None:
    """A login has a limit of its own, and the connection is watched since before it."""

    async def run() -> bool:
        IS_COMPILED.set(True)
        async with Site() as site, asyncio.timeout(20):
            client = await site.connect()
            client.send(b"echo:1")
            await client.answer()
            connection = cast("AcceptedConnection", site.toy.peers[0])
            before = connection._entrance
            spec = replace(before.spec, framing=KafkaFraming(20))
            connection.enter(ListenerParts(spec, before.channel))
            client.send(b"echo:2" + b"x" * 20)
            return await client.is_closed()

    assert asyncio.run(run())


def test_a_peer_that_fills_a_small_buffer_is_read_with_a_large_one() -> None:
    """One large read costs less than many small ones."""

    async def run() -> int:
        IS_COMPILED.set(True)
        sizes = []

        class Measuring(Toy):
            def measure(self, _argument: bytes, frame: memoryview, reply: ReplySlot) -> None:
                sizes.append(len(memoryview(frame.obj)))
                reply.send((b"ok",))

        async with Site() as site, asyncio.timeout(20):
            toy = Measuring()
            site.server.serve_with(toy.dispatch)
            request = b"measure:" + bytes(8_180)
            with socket.create_connection(site.addresses["PLAINTEXT"]) as peer:
                # All of it has come before the broker reads; each small read ends with a request.
                peer.setblocking(False)
                stream = (struct.pack(">i", len(request)) + request) * 40
                sent = peer.send(stream)
                assert sent > 3 * SMALL_BYTES
                await site.until(lambda: len(sizes) >= sent // (len(request) + 4))
        return max(sizes)

    assert asyncio.run(run()) == LARGE_BYTES
