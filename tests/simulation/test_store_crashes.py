"""The embedded metadata store under power cuts: what it has acknowledged stays, in order.

A topic that was created and is gone after a crash takes its records with it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import StoreError
from tests.simulation.world.node import Node, Server, serve
from tests.simulation.world.random import SimRandom
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.protocol.ports import Ports

DIRECTORY = "/data/store"
WRITERS = 3


class Ledger:
    """Acknowledged records, and those that each opening of the store found."""

    def __init__(self) -> None:
        self.numbers = [0] * WRITERS
        self.acknowledged = [0] * WRITERS
        self.openings = 0
        self.lost: list[str] = []
        self.last: list[int] = []


class StoreUser:
    """Several writers in one store; each counts up in a znode and makes one more per number."""

    def __init__(self, ports: Ports, ledger: Ledger) -> None:
        self._ports = ports
        self._ledger = ledger
        self._tasks = Tasks()

    async def start(self) -> None:
        store = await EmbeddedStore.open(
            self._ports.disk, self._ports.clock, self._tasks.spawn, DIRECTORY
        )
        session = await store.connect()
        self._ledger.openings += 1
        found = []
        for writer in range(WRITERS):
            path = f"/counter-{writer}"
            if await session.exists(path) is None:
                await session.create(path, b"0")
            value = int((await session.get(path)).data)
            found.append(value)
            names = [n for n in await session.children("/") if n.startswith(f"item-{writer}-")]
            if value < self._ledger.acknowledged[writer]:
                self._ledger.lost.append(
                    f"{path} is {value}, was {self._ledger.acknowledged[writer]}"
                )
            if len(names) not in (value, value + 1):
                self._ledger.lost.append(f"{path} is {value} with {len(names)} items")
            for name in names[value:]:
                await session.delete(f"/{name}")
            self._tasks.spawn(f"writer {writer}", self._write(session, writer, value))
        self._ledger.last = found

    async def _write(self, session: object, writer: int, value: int) -> None:
        try:
            while True:
                value += 1
                await session.create(f"/item-{writer}-{value:06}")  # type: ignore[attr-defined]
                await session.set(f"/counter-{writer}", b"%d" % value)  # type: ignore[attr-defined]
                self._ledger.acknowledged[writer] = value
                await self._ports.clock.sleep(1.0)
        except StoreError:
            self._ports.process.abort("the store has failed")

    async def stop(self) -> None:
        await self._tasks.stop()

    def on_failure(self, callback: Callable[[], object]) -> None:
        """Ignored: this program aborts on a failure."""


@pytest.mark.parametrize("ordered", [True, False])
def test_acknowledged_writes_of_the_store_survive_power_cuts(ordered: bool) -> None:
    """Names of the journal and of its directory must be as durable as its bytes (S-07, S-08)."""
    for seed in range(40):
        world = World(seed)
        ledger = Ledger()

        def build(ports: Ports, ledger: Ledger = ledger) -> Server:
            return StoreUser(ports, ledger)

        node = world.node("server", serve(build))

        async def story(seed: int = seed, server: Node = node) -> None:
            random = SimRandom(seed, "story")
            for _ in range(8):
                server.start()
                await asyncio.sleep(random.choice((0.01, 0.1, 0.6)) * random.random())
                server.power_cut(ordered=ordered)
            server.start()
            await asyncio.sleep(2.0)

        world.run(story())
        assert world.violations == [], seed
        assert node.deaths == [], seed
        assert ledger.lost == [], seed
        assert ledger.openings > 1
        assert sum(ledger.acknowledged) > 0
