"""Real brokers in virtual time: how long a request waits is exact, however busy the machine is.

Brokers and clients share one simulated machine. When nothing is ready to run, the clock jumps to
the next timer, so a wait of a minute takes no time, and code that computes takes none at all.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.broker.server.broker import Broker
from ottla.broker.server.in_process import BrokersInProcess
from ottla.coordinator.configs.broker_configs import parse_broker_config
from ottla.protocol.ports import SocketOptions
from tests.simulation.world.links import NetProfile
from tests.simulation.world.world import World
from tests.support.raw_client import RawClient

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Sequence

    from ottla.protocol.ports import Address, Ports, Socket

HOST = "brokers"
SETTINGS = {"listeners": f"PLAINTEXT://{HOST}:0", "log.dirs": "/data"}
# What a request and its answer take: between 0.1 and 0.3 ms.
CALM = NetProfile(latency_ms=0.1, spike_probability=0.0, fragment_probability=0.0)

Result = TypeVar("Result")


def in_virtual_time(story: Callable[[Ports], Coroutine[Any, Any, Result]], seed: int = 1) -> Result:
    """Run the story on a simulated machine; what it returns. Raises what it raises."""
    world = World(seed, CALM)
    results: list[Result] = []
    errors: list[BaseException] = []
    ended = asyncio.Event()

    async def program(ports: Ports) -> None:
        try:
            results.append(await story(ports))
        except BaseException as error:
            errors.append(error)
        finally:
            ended.set()

    async def tell() -> None:
        world.node(HOST, program).start()
        await ended.wait()

    world.run(tell())
    if errors:
        raise errors[0]
    assert world.violations == []
    return results[0]


class VirtualClient(RawClient):
    """A raw client over the simulated network."""

    def __init__(self, ports: Ports, address: Address) -> None:
        super().__init__(address.host, address.port)
        self._ports = ports
        self._address = address
        self._socket: Socket | None = None
        self._unsent = bytearray()

    async def __aenter__(self) -> VirtualClient:
        self._socket = await self._ports.net.connect(self._address, SocketOptions())
        self._reader = asyncio.StreamReader()
        self._socket.on_readable(self._on_readable)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._socket is not None
        self._socket.close()

    def send_bytes(self, data: bytes) -> None:
        self._unsent += data
        self._on_writable()

    def _on_writable(self) -> None:
        assert self._socket is not None
        try:
            while self._unsent:
                del self._unsent[: self._socket.sendmsg([bytes(self._unsent)])]
        except BlockingIOError:
            self._socket.on_writable(self._on_writable)
            return
        self._socket.on_writable(None)

    def _on_readable(self) -> None:
        assert self._socket is not None
        assert self._reader is not None
        buffer = bytearray(65_536)
        try:
            count = self._socket.recv_into(memoryview(buffer))
        except BlockingIOError:
            return
        except OSError:
            count = 0
        if count:
            self._reader.feed_data(bytes(buffer[:count]))
        else:
            self._socket.on_readable(None)
            self._reader.feed_eof()


class VirtualBrokers:
    """Brokers that serve; found by their ids, 1 and so on."""

    def __init__(self, ports: Ports, brokers: Sequence[Broker]) -> None:
        self._ports = ports
        self._brokers = {one.node_id: one for one in brokers}

    def __getitem__(self, node_id: int) -> Broker:
        return self._brokers[node_id]

    def connect(self, node_id: int | None = None) -> VirtualClient:
        """A connection for ``async with``; to the first broker unless told otherwise."""
        broker = self._brokers[min(self._brokers) if node_id is None else node_id]
        return VirtualClient(self._ports, broker.address)


@asynccontextmanager
async def virtual_broker(
    ports: Ports, settings: dict[str, str] | None = None
) -> AsyncIterator[VirtualBrokers]:
    """One broker with Kafka's settings by name, as ``ottla start`` runs it."""
    broker = Broker(ports, parse_broker_config({**SETTINGS, **(settings or {})}).config)
    await broker.start()
    try:
        yield VirtualBrokers(ports, [broker])
    finally:
        await broker.stop()


@asynccontextmanager
async def virtual_cluster(
    ports: Ports, count: int = 3, settings: dict[str, str] | None = None
) -> AsyncIterator[VirtualBrokers]:
    """Several brokers over one metadata store, as ``ottla start --brokers`` runs them."""
    running = BrokersInProcess(ports, {**SETTINGS, **(settings or {})}, count)
    await running.start()
    try:
        yield VirtualBrokers(ports, running.brokers)
    finally:
        await running.stop()


def elapsed_ms() -> float:
    """Milliseconds since the simulated world began; for use inside a story."""
    return asyncio.get_running_loop().time() * 1_000.0
