"""The fault menu for a cluster: what strikes one broker, the links, or the store.

Each broker has a ``BrokerChaos`` for what happens to a machine; the ``ClusterChaos`` draws who is
struck by what, and knows when one more unclean stop would be beyond what replication promises.
"""

from __future__ import annotations

import asyncio
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ottla.coordinator.store import paths
from ottla.coordinator.store.store import Delete
from tests.simulation.chaos import Chaos
from tests.simulation.cluster.ensemble import STORE_HOST, attempt

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.simulation.cluster.ensemble import Ensemble
    from tests.simulation.cluster.oracles import Cluster
    from tests.simulation.history import Partition
    from tests.simulation.world.node import Node
    from tests.simulation.world.process import SimProcess
    from tests.simulation.world.random import SimRandom
    from tests.simulation.world.world import World

ACTIVE_MAX = 3
FAST_S = (0.02, 0.2, 0.8)
SLOW_S = (2.5, 7.0)
CUT_S = (0.3, 1.5, 5.0)
# Longer than short sessions, so that successors are elected meanwhile.
STRANDED_S = (4.0, 8.0)
PAUSE_S = (0.1, 1.0, 3.0, 8.0)
# Stops that leave no mark of a clean stop.
UNCLEAN = frozenset({"kill", "kill_slow", "topple", "strike_expansion", "take_over"})


class BrokerChaos(Chaos):
    """One broker's own misfortunes; ``peers`` are the other brokers."""

    def __init__(
        self, world: World, server: Node, others: Sequence[str], peers: Sequence[str]
    ) -> None:
        super().__init__(world, server, others, world.random.child(f"chaos of {server.name}"))
        self.peers = list(peers)
        self.ensemble: Ensemble | None = None
        # Set with each loss of power, until the whole cluster has recovered.
        self.may_lack_records = False
        self._delays_s: Sequence[float] = FAST_S

    @property
    def server(self) -> Node:
        return self._server

    def reach(self, others: Sequence[str]) -> None:
        """More hosts that it can be cut off from."""
        self._clients += others

    async def strike(self, name: str) -> None:
        """One fault from its beginning to its end."""
        await self._one(f"{name} {self._server.name}", getattr(self, f"_do_{name}"))

    def _plan_restart(self) -> None:
        """Plan the restart by the supervisor after a broker has ended in any way."""
        if self._restart_planned:
            return
        self._restart_planned = True
        delay_s = self._random.choice(self._delays_s) * (0.5 + self._random.random())
        self._delays_s = FAST_S
        loop = self._world.loop
        loop.call_later(delay_s, self._restart, context=loop.outside)

    async def _do_kill(self) -> None:
        self._delays_s = FAST_S
        await super()._do_kill()

    async def _do_kill_slow(self) -> None:
        self._delays_s = SLOW_S
        await super()._do_kill()

    async def _do_power_cut(self) -> None:
        self._delays_s = (*FAST_S, *SLOW_S)
        self.may_lack_records = True
        await super()._do_power_cut()

    async def _do_power_cut_soon(self) -> None:
        self._delays_s = FAST_S
        self.may_lack_records = True
        await super()._do_power_cut()

    async def _do_stop(self) -> None:
        self._delays_s = (*FAST_S, *SLOW_S)
        await self.stop_cleanly(10.0)

    async def stop_cleanly(self, limit_s: float) -> None:
        """SIGTERM; a broker that does not end in time is killed."""
        await self._stop_server(limit_s)

    async def _do_pause(self) -> None:
        process = self._server.process
        if process is None or not process.running or process.domain.stopped:
            return
        self._server.pause()
        try:
            await asyncio.sleep(self._random.choice(PAUSE_S))
        finally:
            _resume(self._server, process)

    async def _do_isolate(self) -> None:
        await self._cut_for_a_while([self._both(other) for other in self._clients])

    async def _do_isolate_from_peers_only(self) -> None:
        """The store and the clients still see it (R-18)."""
        await self._cut_for_a_while([self._both(peer) for peer in self.peers])

    async def _do_cut_peer(self) -> None:
        await self._cut_for_a_while([self._both(self._random.choice(self.peers))])

    async def _do_cut_peer_one_way(self) -> None:
        link = self._random.choice(self._both(self._random.choice(self.peers)))
        await self._cut_for_a_while([[link]])

    async def _do_cut_clients(self) -> None:
        clients = [one for one in self._clients if one not in (*self.peers, STORE_HOST)]
        await self._cut_for_a_while([self._both(one) for one in clients])

    async def _do_cut_store(self) -> None:
        await self._cut_for_a_while([self._both(STORE_HOST)])

    async def _do_cut_store_one_way(self) -> None:
        await self._cut_for_a_while([[self._random.choice(self._both(STORE_HOST))]])

    async def _do_expire_session(self) -> None:
        assert self.ensemble is not None
        self.ensemble.expire(self._server.name)

    async def _do_drop_store_connection(self) -> None:
        assert self.ensemble is not None
        self.ensemble.disconnect(self._server.name)

    async def _do_strand(self) -> None:
        """Clients alone see it, until others lead what it has led. The store sees it again before
        they do: it enters a new session, and has not heard that it was replaced (R-19)."""
        to_store = self._both(STORE_HOST)
        to_peers = [link for peer in self.peers for link in self._both(peer)]
        links = self._world.links
        try:
            for link in (*to_store, *to_peers):
                links.cut(*link)
            await asyncio.sleep(self._random.choice(STRANDED_S))
            for link in to_store:
                links.heal(*link)
            await asyncio.sleep(self._random.choice(CUT_S))
        finally:
            for link in (*to_store, *to_peers):
                links.heal(*link)

    async def _cut_for_a_while(self, links: Sequence[Sequence[tuple[str, str]]]) -> None:
        flat = [link for pair in links for link in pair]
        for link in flat:
            self._world.links.cut(*link)
        try:
            await asyncio.sleep(self._random.choice(CUT_S))
        finally:
            for link in flat:
                self._world.links.heal(*link)


class ClusterChaos:
    """Strikes the whole cluster until told to heal it."""

    def __init__(
        self,
        world: World,
        ensemble: Ensemble,
        brokers: Sequence[BrokerChaos],
        cluster: Cluster,
    ) -> None:
        self.counts: dict[str, int] = {}
        # Replicas of which a bit has flipped: each once.
        self.rotten: list[tuple[int, Partition]] = []
        self._world = world
        self._ensemble = ensemble
        self.brokers = list(brokers)
        self._random: SimRandom = world.random.child("chaos")
        self._cluster = cluster
        self._active: list[asyncio.Task[None]] = []
        self._one_at_a_time = True
        for one in brokers:
            one.ensemble = ensemble

    async def run(
        self, faults: Sequence[str], mean_ms: float, until_s: float, *, one_at_a_time: bool
    ) -> None:
        """Strike until that virtual time. ``one_at_a_time``: where a broker may lack records after
        a loss of power, no other stops uncleanly."""
        self._one_at_a_time = one_at_a_time
        loop = self._world.loop
        while faults:
            wait_s = self._random.exponential(mean_ms) / 1_000.0
            if loop.time() + wait_s >= until_s:
                break
            await asyncio.sleep(wait_s)
            self._active = [task for task in self._active if not task.done()]
            if len(self._active) < ACTIVE_MAX:
                self.strike(self._random.choice(faults))
        await asyncio.sleep(max(0.0, until_s - loop.time()))

    def strike(self, name: str) -> None:
        """Begin a fault, if it is allowed now."""
        if name == "power_cut" and not self.all_are_whole():
            return
        if name in UNCLEAN and self.is_weak:
            return
        self.counts[name] = self.counts.get(name, 0) + 1
        own = getattr(self, f"_do_{name}", None)
        if own is not None:
            self._active.append(asyncio.ensure_future(self._whole(name, own)))
        else:
            broker = self._random.choice(self.brokers)
            self._active.append(asyncio.ensure_future(broker.strike(name)))

    @property
    def is_weak(self) -> bool:
        """Whether a broker may lack records since a loss of power; no other may fail then (R-21):
        it cannot be told from one that was killed, and brokers do not compare logs."""
        if any(one.may_lack_records for one in self.brokers) and self._cluster.is_whole():
            for one in self.brokers:
                one.may_lack_records = False
        return self._one_at_a_time and any(one.may_lack_records for one in self.brokers)

    def all_are_whole(self, but: int | None = None) -> bool:
        """Whether one more may lose what it has not flushed."""
        return not self._one_at_a_time or self._cluster.is_whole(but)

    async def heal(self) -> None:
        """End every fault; nothing is restarted here."""
        for task in self._active:
            task.cancel()
        await asyncio.gather(*self._active, return_exceptions=True)
        self._world.report("heal")
        self._world.links.heal_all()
        if not self._ensemble.has_quorum:
            self._ensemble.regain_quorum()
        for one in self.brokers:
            node = one.server
            node.disk_faults.clear()
            node.losing_fsyncs.clear()
            node.files.capacity_bytes = node.profile.capacity_bytes

    async def _whole(self, name: str, strike: Callable[[], object]) -> None:
        self._world.report(f"fault {name}")
        try:
            await strike()  # type: ignore[misc]
        finally:
            self._world.report(f"fault {name} is over")

    async def _do_delete_controller(self) -> None:
        """By hand, as operators do to force an election."""
        attempt(self._ensemble, (Delete(paths.CONTROLLER),), 0)

    async def _wait_for(self, limit_s: float, condition: Callable[[], bool]) -> bool:
        deadline_s = self._world.loop.time() + limit_s
        while not condition():
            if self._world.loop.time() >= deadline_s:
                return False
            await asyncio.sleep(0.005)
        return True

    async def _do_lose_quorum(self) -> None:
        if not self._ensemble.has_quorum:
            return
        self._ensemble.lose_quorum()
        try:
            await asyncio.sleep(self._random.choice(CUT_S))
        finally:
            self._ensemble.regain_quorum()

    async def _do_split(self) -> None:
        """Two halves of the brokers that do not see each other; the store sees both."""
        names = [one.server.name for one in self.brokers]
        minority = self._random.sample(names, 1 + self._random.below(len(names) // 2))
        links = [
            link
            for one in minority
            for other in names
            if other not in minority
            for link in ((one, other), (other, one))
        ]
        with self._severed(*links):
            await asyncio.sleep(self._random.choice(CUT_S))

    @contextmanager
    def _severed(self, *links: tuple[str, str]) -> Iterator[None]:
        for link in links:
            self._world.links.cut(*link)
        try:
            yield
        finally:
            for link in links:
                self._world.links.heal(*link)


def _resume(node: Node, process: SimProcess) -> None:
    """Resume it unless it has died or was restarted."""
    if process.running and process.domain.stopped:
        node.resume()
