"""The world as a whole: nodes live and die in it, and a seed means one history."""

from __future__ import annotations

import asyncio

from tests.simulation.seeds import printed_in_two_processes
from tests.simulation.toys.log_server import ToyClient, ToyServer
from tests.simulation.world.node import Node, serve
from tests.simulation.world.random import SimRandom
from tests.simulation.world.world import World


def toy_run(seed: int, *, careless: bool = False, kind: str = "power cut") -> tuple[World, int]:
    """Ten crashes under one client; returns the world and how many acknowledged lines are gone."""
    world = World(seed)
    client = ToyClient()
    server = world.node("server", serve(lambda ports: ToyServer(ports, careless=careless)))
    world.node("client", client.program)

    async def story() -> None:
        random = SimRandom(seed, "story")
        for node in world.nodes.values():
            node.start()
        for _ in range(10):
            await asyncio.sleep(random.between(0.05, 0.5))
            crash(server, kind, random)
            await asyncio.sleep(0.05)
            server.start()
        await asyncio.sleep(0.5)

    world.run(story())
    log = bytes(server.files.file("/toy.log").data)
    lost = sum(line not in log.splitlines(keepends=True) for line in client.acknowledged)
    world.note(repr(client.acknowledged))
    assert client.acknowledged
    assert world.violations == []
    return world, lost


def crash(server: Node, kind: str, random: SimRandom) -> None:
    if kind == "power cut":
        server.power_cut(ordered=random.chance(0.5))
    else:
        server.kill()


def test_a_careful_server_loses_nothing_and_a_careless_one_is_caught() -> None:
    """A simulator that does not find the oldest bug of all is not to be trusted."""
    assert [toy_run(seed)[1] for seed in range(8)] == [0] * 8
    assert sum(toy_run(seed, careless=True)[1] for seed in range(8)) > 0


def test_a_kill_loses_nothing_even_to_the_careless() -> None:
    """The page cache belongs to the machine."""
    assert [toy_run(seed, careless=True, kind="kill")[1] for seed in range(4)] == [0] * 4


def test_one_seed_is_one_history_and_another_is_another() -> None:
    """A failure that cannot be replayed cannot be understood."""
    assert toy_run(3)[0].digest() == toy_run(3)[0].digest()
    assert toy_run(3)[0].digest() != toy_run(4)[0].digest()


def test_the_digest_does_not_depend_on_the_process_or_its_hash_seed() -> None:
    """Order of sets and hashes must reach neither the wire nor the scheduler (hazard P-12)."""
    code = "from tests.simulation.world.test_world import toy_run; print(toy_run(5)[0].digest())"
    first, second = printed_in_two_processes(code)

    assert first == second != []


def test_an_unhandled_error_is_a_violation() -> None:
    """A task that died unheard is a bug even if every record survives (P-05)."""
    world = World(1)

    async def program(_: object) -> None:
        asyncio.get_running_loop().call_soon(int, "no number")
        await asyncio.sleep(1)

    world.node("server", program)

    async def story() -> None:
        world.nodes["server"].start()
        await asyncio.sleep(2)

    world.run(story())
    assert len(world.violations) == 1
    assert "ValueError" in world.violations[0]


def test_a_program_that_aborts_is_gone_at_once() -> None:
    """Code after abort never runs, not even in other tasks of the process."""
    world = World(1)
    trace: list[str] = []

    async def program(ports: object) -> None:
        running = asyncio.ensure_future(other())
        await asyncio.sleep(0.1)
        process = world.nodes["server"].process
        assert process is not None
        try:
            process.abort("enough")
        finally:
            trace.append(f"unwound, {running.done()=}")
        trace.append("after")

    async def other() -> None:
        await asyncio.sleep(0.2)
        trace.append("other")

    world.node("server", program)

    async def story() -> None:
        world.nodes["server"].start()
        await asyncio.sleep(2)

    world.run(story())
    assert trace == ["unwound, running.done()=False"]
    assert not world.nodes["server"].running
    assert any("abort: enough" in event for event in world.events)
