"""The real client and the real broker in one simulated world, under chaos: what stories share."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, ClassVar, Protocol, TypeVar

from ottla.client.process.environment import Environment
from ottla.wire.errors import TransportError
from tests.simulation.chaos import Chaos
from tests.simulation.subject import build_broker
from tests.simulation.world.node import serve
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Ports
    from tests.simulation.world.node import Node

SERVER = "broker-0"
ADDRESS = f"{SERVER}:9092"
SETTINGS = {"node.id": "0", "listeners": f"PLAINTEXT://{ADDRESS}", "log.dirs": "/data"}
# No power cuts: one replica without fsync may lose what it has acknowledged, as in Kafka.
FAULTS = ("kill", "stop", "pause", "cut", "cut_one_way", "reset", "hold", "slow")
CHAOS_S = 8.0
PATIENCE_S = 300.0


class Story:
    """One world with a broker, a writer and a reader, whose work a subclass defines."""

    settings: ClassVar[dict[str, str]] = SETTINGS

    def __init__(self, seed: int) -> None:
        self.world = World(seed)
        self.server: Node = self.world.node(
            SERVER, serve(lambda ports: build_broker(ports, self.settings))
        )
        self.writer = self.world.node("writer", self._write)
        self.reader = self.world.node("reader", self._read)
        # Until the chaos is over.
        self.is_chaos = True
        self.topic_exists = asyncio.Event()
        self.written = asyncio.Event()
        self.finished = asyncio.Event()

    def run(self) -> None:
        """Run the story, and fail with the events of the world."""
        self.world.run(self._tell())
        deaths = [f"{node.name}: {node.deaths}" for node in (self.writer, self.reader)]
        story = "\n".join([*self.world.violations, *self.world.events[-40:], *deaths])
        assert self.world.violations == [], f"seed {self.world.seed}\n{story}"
        assert self.finished.is_set(), f"seed {self.world.seed} did not come to its end\n{story}"

    async def _tell(self) -> None:
        self.server.start()
        self.writer.start()
        self.reader.start()
        await asyncio.wait_for(self.topic_exists.wait(), PATIENCE_S)
        random = self.world.random.child("chaos")
        chaos = Chaos(self.world, self.server, ["writer", "reader"], random)
        await chaos.run(FAULTS, 700.0, self.world.loop.time() + CHAOS_S)
        await chaos.heal()
        self.is_chaos = False
        await asyncio.wait_for(self.finished.wait(), PATIENCE_S)

    async def _write(self, ports: Ports) -> None:
        """Make the topic, write until the chaos is over, and set ``written``."""
        raise NotImplementedError

    async def _read(self, ports: Ports) -> None:
        """Read until all that is written is read, and set ``finished``."""
        raise NotImplementedError


class Startable(Protocol):
    """Any of the three clients."""

    _is_open: bool

    async def start(self) -> None: ...


Client = TypeVar("Client", bound=Startable)


async def started(ports: Ports, make: Callable[[], Client]) -> Client:
    """The client, once the broker can be reached; a first contact does not wait by itself."""
    while True:
        client = make()
        try:
            await client.start()
        except TransportError:
            await ports.clock.sleep(50)
        else:
            # A killed process closes nothing, and no warning is due.
            client._is_open = False
            return client


def environment_of(ports: Ports) -> Environment:
    """The environment of a client in the simulated world."""
    return Environment(ports.net, ports.clock, ports.random)
