"""Clusters on the store that a machine's supervisor serves to its brokers (``--processes``).

The store runs in a simulated process of its own; links to it are cut and slow like any others, its
process stands still for a while, and its disk is as slow as the seed wants. What chaos does to an
ensemble it does to this one: see ``Ensemble`` for the meaning of each call.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.served.client import ServedStore
from ottla.coordinator.store.served.server import StoreServer
from ottla.coordinator.store.tree import Tree
from ottla.protocol.ports import Address
from tests.simulation.cluster.ensemble import STORE_HOST
from tests.simulation.cluster.options import draw_cluster_options
from tests.simulation.cluster.scenario import ClusterRun
from tests.simulation.world.node import MachineProfile

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.coordinator.store.store import Store
    from ottla.coordinator.store.tree import Step, StepResult, StoreTransaction
    from ottla.protocol.ports import Ports
    from tests.simulation.cluster.ensemble import StoreProfile
    from tests.simulation.cluster.options import ClusterOptions
    from tests.simulation.world.world import Outcome, World

PORT = 2181


class ServedEnsemble:
    """Looks to the chaos and to the oracles as ``Ensemble`` does."""

    def __init__(self, world: World, profile: StoreProfile, machine: MachineProfile) -> None:
        self.profile = profile
        # Shares its content with the store's own.
        self.tree = Tree()
        self.has_quorum = True
        self.on_commit: Callable[[StoreTransaction], object] = lambda _: None
        self.report: Callable[[str], object] = lambda _: None
        self._store: EmbeddedStore | None = None
        self._server: StoreServer | None = None
        self._tasks: Tasks | None = None
        self._world = world
        self._node = world.node(STORE_HOST, self._program, machine)
        self._node.start()

    async def _program(self, ports: Ports) -> None:
        tasks = self._tasks = Tasks()
        self._store = await EmbeddedStore.open(ports.disk, ports.clock, tasks.spawn, "/store")
        self.tree.__dict__ = self._store.read_tree().__dict__
        journal = self._store._journal
        append = journal.append

        def append_and_tell(transaction: StoreTransaction) -> None:
            append(transaction)
            self.on_commit(transaction)

        journal.append = append_and_tell  # type: ignore[method-assign]
        self._server = StoreServer(self._store, ports.net, ports.clock, tasks.spawn)
        self._server.listen(Address(STORE_HOST, PORT))
        await asyncio.Event().wait()

    def store_for(self, name: str, ports: Ports) -> Store:
        """The store as a broker of that name uses it."""
        return ServedStore(
            ports.net, ports.clock, Tasks().spawn, Address(STORE_HOST, PORT), number_of(name)
        )

    # ---- what the world does to it ----

    def expire(self, owner: str) -> None:
        """End the sessions of a broker, as the supervisor does when its process has ended."""
        self._run_there(lambda: self._spawn_end(number_of(owner)))

    def _spawn_end(self, owner: int) -> None:
        assert self._tasks is not None
        assert self._server is not None
        self._tasks.spawn("ended sessions", self._server.end_sessions_of(owner))

    def disconnect(self, owner: str) -> None:
        """Break the connections of a broker; its sessions stay."""
        self._run_there(lambda: self._break(number_of(owner)))

    def _break(self, owner: int) -> None:
        assert self._server is not None
        for served in self._server._served.values():
            if served.owner == owner and served.connection is not None:
                stream = served.connection.stream
                stream._end("broken off")

    def lose_quorum(self) -> None:
        """Its process stands still: nothing is answered, no session ends."""
        self.has_quorum = False
        self._node.pause()

    def regain_quorum(self) -> None:
        """It goes on."""
        self.has_quorum = True
        self._node.resume()

    def commit(self, steps: tuple[Step, ...], session_id: int) -> list[StepResult]:
        """Do all steps or none. Raises GroupFailed."""
        assert self._store is not None
        store, process = self._store, self._node.process
        assert process is not None
        return process.domain.context().run(store.write, steps, session_id)

    def _run_there(self, function: Callable[[], object]) -> None:
        process = self._node.process
        assert process is not None
        self._world.loop.call_soon(function, context=process.domain.context())


def number_of(name: str) -> int:
    """The broker of that name."""
    return int(name.rpartition("-")[2])


class ServedClusterRun(ClusterRun):
    """The same story on the other store. A broker that ends loses its session at once, as one of a
    supervisor does, in every second seed."""

    def __init__(self, seed: int, options: ClusterOptions) -> None:
        super().__init__(seed, options)
        if not self.world.random.child("served").chance(0.5):
            return
        for node in self.cluster.nodes.values():
            node.on_exit = _both(node.on_exit, lambda name=node.name: self.ensemble.expire(name))  # type: ignore[misc]

    def _make_ensemble(self) -> ServedEnsemble:  # type: ignore[override]
        machine = MachineProfile(disk=self.options.machines[0].disk)
        return ServedEnsemble(self.world, self.options.store, machine)

    def _make_store(self, name: str, ports: Ports) -> Store:
        assert isinstance(self.ensemble, ServedEnsemble)
        return self.ensemble.store_for(name, ports)


def _both(first: Callable[[], object], second: Callable[[], object]) -> Callable[[], object]:
    def call() -> None:
        first()
        second()

    return call


def run(seed: int, chaos_s: float | None = None) -> Outcome:
    """One seed."""
    outcome = ServedClusterRun(seed, draw_cluster_options(seed, chaos_s)).run()
    seconds = "" if chaos_s is None else f"--seconds {chaos_s} "
    return outcome._replace(scenario=f"--served {seconds}")
