"""A network server on loopback with a toy in the place of the API layer, and a plain client.

A toy request is ``name:argument`` as text; the toy's methods are the API, called by name.
"""

from __future__ import annotations

import asyncio
import struct
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.tasks import Tasks
from ottla.broker.network.reactor import make_poller
from ottla.broker.network.server import NetworkServer
from ottla.broker.network.settings import ListenerSpec, NetworkSettings
from ottla.protocol.ports import Address
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet
from tests.support.loops import IS_COMPILED

if TYPE_CHECKING:
    from collections.abc import Coroutine, Sequence
    from types import TracebackType

    from ottla.broker.engine.context import ClientPeer, ReplySlot
    from ottla.broker.network.reactor import CompiledPoller
    from ottla.protocol.ports import Net

LOOPBACK = Address("127.0.0.1", 0)


class Toy:
    """Echoes, parks, suspends, fails: whatever a handler may do."""

    def __init__(self) -> None:
        self.requests: list[bytes] = []
        self.parked: dict[str, ReplySlot] = {}
        self.gates: dict[str, asyncio.Event] = {}
        self.peers: list[ClientPeer] = []
        self.faults: list[str] = []

    def dispatch(
        self, peer: ClientPeer, frame: memoryview, reply: ReplySlot
    ) -> Coroutine[Any, Any, None] | None:
        self.requests.append(bytes(frame[:64]))
        self.peers.append(peer)
        name, _, argument = bytes(frame).partition(b":")
        outcome: Coroutine[Any, Any, None] | None = getattr(self, name.decode("latin1"))(
            argument, frame, reply
        )
        return outcome

    def echo(self, argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        reply.send((b"echo " + argument,))

    def big(self, argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        reply.send((bytes(int(argument)),))

    def park(self, argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        self.parked[argument.decode()] = reply

    def skip(self, _argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        reply.skip()

    def close(self, argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        reply.close(argument.decode())

    def mute(self, argument: bytes, _frame: memoryview, reply: ReplySlot) -> None:
        reply.send((b"muted",), mute_ms=float(argument))

    def fail(self, _argument: bytes, _frame: memoryview, _reply: ReplySlot) -> None:
        raise ValueError("a fault of ours")

    async def fail_late(self, _argument: bytes, _frame: memoryview, _reply: ReplySlot) -> None:
        await asyncio.sleep(0)
        raise ValueError("a fault of ours, later")

    async def suspend(self, argument: bytes, frame: memoryview, reply: ReplySlot) -> None:
        gate = self.gates.setdefault(argument.decode(), asyncio.Event())
        before = bytes(frame)
        await gate.wait()
        if bytes(frame) != before:
            self.faults.append("the frame has changed while its handler was suspended")
        reply.send([b"suspended " + argument])

    def open_gate(self, name: str) -> None:
        self.gates.setdefault(name, asyncio.Event()).set()


class Client:
    """A peer that writes frames and reads answers."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *requests: bytes) -> None:
        self.writer.write(b"".join(struct.pack(">i", len(one)) + one for one in requests))

    async def answer(self) -> bytes:
        (size,) = struct.unpack(">i", await self.reader.readexactly(4))
        return await self.reader.readexactly(size)

    async def answers(self, count: int) -> list[bytes]:
        return [await self.answer() for _ in range(count)]

    async def is_closed(self) -> bool:
        """Wait for the end of the connection; False if bytes came instead."""
        try:
            return await self.reader.read(1) == b""
        except ConnectionError:
            return True

    def close(self) -> None:
        self.writer.close()


def real_net() -> RealNet:
    """The network, with the compiled reactor where the test asks for it."""
    if not IS_COMPILED.get():
        return RealNet()

    def made() -> CompiledPoller:
        poller = make_poller()
        assert poller is not None, "the compiled reactor is not here: install again (make)"
        return poller

    return RealNet(made)


class Site:
    """The server, running. Everything it opened is closed at the end."""

    def __init__(
        self,
        settings: NetworkSettings | None = None,
        specs: Sequence[ListenerSpec] | None = None,
        net: Net | None = None,
    ) -> None:
        self.toy = Toy()
        self.tasks = Tasks()
        self.clock = RealClock()
        self.server = NetworkServer(
            net or real_net(), self.clock, self.tasks, self.toy.dispatch, settings
        )
        self.addresses = self.server.bind(specs or [ListenerSpec("PLAINTEXT", LOOPBACK)])
        self._clients: list[Client] = []

    async def __aenter__(self) -> Site:
        self.server.start()
        return self

    async def __aexit__(
        self,
        _kind: type[BaseException] | None,
        _error: BaseException | None,
        _traceback: TracebackType | None,
    ) -> None:
        for client in self._clients:
            client.close()
        await self.server.stop(drain_ms=0)
        await self.tasks.stop()
        await asyncio.sleep(0)

    async def connect(self, listener: str = "PLAINTEXT") -> Client:
        address = self.addresses[listener]
        client = Client(*await asyncio.open_connection(address.host, address.port))
        self._clients.append(client)
        return client

    async def until(self, condition: object) -> None:
        """Let the loop run until the condition (a callable) holds."""
        assert callable(condition)
        deadline_ms = self.clock.now_ms() + 10_000
        while not condition():
            assert self.clock.now_ms() < deadline_ms, "did not happen within ten seconds"
            await self.clock.sleep(1)
