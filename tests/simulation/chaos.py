"""The fault menu for one node: what can strike, how it ends, and the calm afterwards.

Faults come as a Poisson process and overlap. Whatever ends the process, a supervisor restarts it
after a while, before or after the other processes have noticed.
"""

from __future__ import annotations

import asyncio
import errno
from typing import TYPE_CHECKING

from ottla.broker.testing.faulty_disk import DiskFault, read_only

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from tests.simulation.world.node import Node
    from tests.simulation.world.random import SimRandom
    from tests.simulation.world.world import World

RESTART_DELAYS_S = (0.02, 0.3, 1.5)
ACTIVE_MAX = 3
WALL_STEPS_MS = (-86_400_000.0, -5_000.0, 5_000.0, 86_400_000.0, 365 * 86_400_000.0)


class Chaos:
    """Strikes one server node and its links to the other hosts."""

    def __init__(self, world: World, server: Node, clients: Sequence[str], random: SimRandom):
        self.ordered_cuts = True
        self.strikes = 0
        self._world = world
        self._server = server
        self._clients = list(clients)
        self._random = random
        self._active: list[asyncio.Task[None]] = []
        self._calm = False
        self._restart_planned = False
        self._exited = asyncio.Event()
        server.on_exit = self._on_exit

    async def run(self, faults: Sequence[str], mean_ms: float, until_s: float) -> None:
        """Strike until that virtual time."""
        loop = self._world.loop
        while faults:
            wait_s = self._random.exponential(mean_ms) / 1_000.0
            if loop.time() + wait_s >= until_s:
                break
            await asyncio.sleep(wait_s)
            self._active = [task for task in self._active if not task.done()]
            if len(self._active) < ACTIVE_MAX:
                self._strike(self._random.choice(faults))
        await asyncio.sleep(max(0.0, until_s - loop.time()))

    async def heal(self) -> None:
        """End every fault and restart the server, so that nothing of the chaos is left."""
        self._calm = True
        for task in self._active:
            task.cancel()
        await asyncio.gather(*self._active, return_exceptions=True)
        self._world.report("heal")
        self._world.links.heal_all()
        server = self._server
        server.disk_faults.clear()
        server.losing_fsyncs.clear()
        server.files.capacity_bytes = server.profile.capacity_bytes
        if server.running:
            if self._random.chance(0.5):
                server.kill()
            else:
                await self._stop_server(30.0)
        if not server.running:
            server.start()

    def _strike(self, name: str) -> None:
        self.strikes += 1
        strike: Callable[[], Awaitable[None]] = getattr(self, f"_do_{name}")
        self._active.append(asyncio.ensure_future(self._one(name, strike)))

    async def _one(self, name: str, strike: Callable[[], Awaitable[None]]) -> None:
        self._world.report(f"fault {name}")
        try:
            await strike()
        finally:
            self._world.report(f"fault {name} is over")

    def _on_exit(self) -> None:
        self._exited.set()
        self._plan_restart()

    def _plan_restart(self) -> None:
        if self._calm or self._restart_planned:
            return
        self._restart_planned = True
        delay_s = self._random.choice(RESTART_DELAYS_S) * (0.5 + self._random.random())
        loop = self._world.loop
        loop.call_later(delay_s, self._restart, context=loop.outside)

    def _restart(self) -> None:
        self._restart_planned = False
        if not self._server.running:
            self._server.start()

    async def _do_kill(self) -> None:
        if self._server.running:
            self._server.kill()

    async def _do_power_cut(self) -> None:
        self._server.power_cut(ordered=self.ordered_cuts)
        self._plan_restart()

    async def _do_stop(self) -> None:
        await self._stop_server(5.0)

    async def _stop_server(self, limit_s: float) -> None:
        """SIGTERM, then SIGKILL if it takes too long."""
        process = self._server.process
        if process is None or not process.running or process.domain.stopped:
            return
        self._exited.clear()
        self._server.terminate()
        try:
            await asyncio.wait_for(self._exited.wait(), limit_s)
        except TimeoutError:
            self._server.kill()

    async def _do_pause(self) -> None:
        process = self._server.process
        if process is None or not process.running or process.domain.stopped:
            return
        self._server.pause()
        try:
            await asyncio.sleep(self._random.choice((0.05, 0.5, 3.0)))
        finally:
            if process.running:
                self._server.resume()

    async def _do_cut(self) -> None:
        await self._with_cut([(a, b) for c in self._some_clients() for a, b in self._both(c)])

    async def _do_cut_one_way(self) -> None:
        client = self._random.choice(self._clients)
        await self._with_cut([self._random.choice(self._both(client))])

    async def _with_cut(self, links: Sequence[tuple[str, str]]) -> None:
        for link in links:
            self._world.links.cut(*link)
        try:
            await asyncio.sleep(self._random.choice((0.1, 1.0, 4.0)))
        finally:
            for link in links:
                self._world.links.heal(*link)

    async def _do_swizzle(self) -> None:
        """Clog a random subset one by one, then unclog it in another order."""
        clients = self._some_clients()
        for client in clients:
            for link in self._both(client):
                self._world.links.cut(*link)
            await asyncio.sleep(self._random.between(0.0, 0.3))
        for client in self._random.sample(clients, len(clients)):
            for link in self._both(client):
                self._world.links.heal(*link)
            await asyncio.sleep(self._random.between(0.0, 0.3))

    async def _do_reset(self) -> None:
        self._world.net.reset_connections(self._server.name, self._random.choice((0.3, 1.0)))

    async def _do_hold(self) -> None:
        delay_s = self._random.choice((0.5, 2.0, 6.0))
        self._world.net.hold_connections(self._server.name, 0.4, delay_s)

    async def _do_slow(self) -> None:
        client = self._random.choice(self._clients)
        factor = self._random.choice((20.0, 200.0))
        for link in self._both(client):
            self._world.links.slow_down(*link, factor)
        await asyncio.sleep(1.0)
        for link in self._both(client):
            self._world.links.slow_down(*link, 1.0)

    async def _do_wall_jump(self) -> None:
        if self._server.clock is not None:
            self._server.clock.jump_wall(self._random.choice(WALL_STEPS_MS))

    async def _do_fsync_loses(self) -> None:
        part = self._random.choice(("", ".log", ".log"))
        self._server.losing_fsyncs.add(DiskFault(frozenset({"fsync"}), path_part=part, times=1))

    async def _do_append_fails(self) -> None:
        self._server.disk_faults.add(DiskFault(frozenset({"append"}), errno.EIO, times=1))

    async def _do_read_fails(self) -> None:
        self._server.disk_faults.add(DiskFault(frozenset({"pread"}), errno.EIO, times=1))

    async def _do_read_only(self) -> None:
        await self._with_disk_fault(read_only())

    async def _do_slow_disk(self) -> None:
        slow = frozenset({"fsync", "fsync_directory", "rename", "scan", "unlink"})
        await self._with_disk_fault(DiskFault(slow, error=0, delay_ms=1_500.0))

    async def _with_disk_fault(self, fault: DiskFault) -> None:
        self._server.disk_faults.add(fault)
        try:
            await asyncio.sleep(self._random.choice((0.2, 1.0, 2.0)))
        finally:
            self._server.disk_faults.clear()

    async def _do_disk_full(self) -> None:
        files = self._server.files
        files.capacity_bytes = files.used_bytes() + self._random.below(4_000)
        try:
            await asyncio.sleep(self._random.choice((0.2, 1.0, 2.0)))
        finally:
            files.capacity_bytes = self._server.profile.capacity_bytes

    async def _do_disk_stays_full(self) -> None:
        """For longer than it may take to have others lead."""
        files = self._server.files
        files.capacity_bytes = files.used_bytes() + self._random.below(4_000)
        try:
            await asyncio.sleep(self._random.choice((12.0, 20.0)))
        finally:
            files.capacity_bytes = self._server.profile.capacity_bytes

    def _some_clients(self) -> list[str]:
        return self._random.sample(self._clients, 1 + self._random.below(len(self._clients)))

    def _both(self, client: str) -> list[tuple[str, str]]:
        return [(self._server.name, client), (client, self._server.name)]
