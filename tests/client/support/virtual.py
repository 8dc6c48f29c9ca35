"""Runs a story of a client and toy brokers in virtual time."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.client.process.environment import Environment
from tests.client.support.toy_broker import ToyCluster
from tests.simulation.world.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.protocol.ports import Ports

# Ten a second: longer than any story takes.
LOOKS_MAX = 20_000


def in_virtual_time(
    story: Callable[[ToyCluster, Environment], Coroutine[None, None, None]], node_count: int = 1
) -> float:
    """Run the story with that many brokers; return how many milliseconds it took."""
    world = World(7)
    took_ms: list[float] = []

    async def program(ports: Ports) -> None:
        toy = ToyCluster(ports.net)
        toy.start(node_count)
        started_ms = ports.clock.now_ms()
        await story(toy, Environment(ports.net, ports.clock, ports.random))
        took_ms.append(ports.clock.now_ms() - started_ms)
        toy.close()

    async def until_told() -> None:
        node = world.node("site", program)
        node.start()
        for _ in range(LOOKS_MAX):
            if took_ms:
                break
            await asyncio.sleep(0.1)

    world.run(until_told())
    assert took_ms, world.events[-5:]
    return took_ms[0]
