"""The brokers of one cluster and the store that they share, on one event loop.

It knows which brokers are alive, paused or cut off, keeps the ports of dead ones, and ends the
sessions of brokers that are silent for too long. The nodes decide where the brokers run.
"""

from __future__ import annotations

import asyncio
import socket
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING

from ottla.broker.engine.tasks import Tasks
from ottla.broker.log.storage.names import METADATA_STORE
from ottla.broker.membership.store_layout import found_cluster
from ottla.broker.server.first_users import write_user
from ottla.broker.testing.cluster_node import DiskCondition
from ottla.broker.testing.movable_clock import MovableClock
from ottla.coordinator.store.embedded import EmbeddedStore
from ottla.coordinator.store.store import SESSION_TIMEOUT_MS
from ottla.protocol.data_classes import dataclass
from ottla.protocol.sasl.scram_record import SALT_BYTES
from ottla.wire.clock import RealClock
from ottla.wire.real import RealRandom

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence

    from ottla.broker.server.first_users import FirstUser
    from ottla.broker.testing.cluster_node import ClusterNode, NodePlan, Notices
    from ottla.coordinator.store.embedded import EmbeddedSession
    from ottla.coordinator.store.store import Store
    from ottla.protocol.ports import Address, Disk, Timer


class ClusterError(RuntimeError):
    """A call that the cluster cannot carry out in its present state; one sentence says why."""


class ProcessState(Enum):
    """What a broker is doing."""

    RUNNING = "running"
    PAUSED = "paused"
    DEAD = "dead"


@dataclass(slots=True)
class ClusterMember:
    """One broker of the cluster."""

    node_id: int
    node: ClusterNode | None = None
    state: ProcessState = ProcessState.DEAD
    addresses: dict[str, Address] = field(default_factory=dict)
    # Keeps its ports from other processes while it is dead.
    held_ports: list[socket.socket] = field(default_factory=list)
    # Ends its session, while it is paused.
    silence: Timer | None = None
    disk: DiskCondition = field(default_factory=DiskCondition)
    # By how much its date was moved.
    step_ms: int = 0


class OwnSessions:
    """``store.Store`` of one broker: remembers which sessions belong to it."""

    def __init__(self, below: EmbeddedStore) -> None:
        self._below = below
        self._session_ids: list[int] = []

    async def connect(self, timeout_ms: int = SESSION_TIMEOUT_MS) -> EmbeddedSession:
        session = await self._below.connect(timeout_ms)
        self._session_ids.append(session.session_id)
        return session

    async def expire(self) -> None:
        """Expire all of them in the store."""
        session_ids, self._session_ids = self._session_ids, []
        for session_id in session_ids:
            await self._below.expire(session_id)


class Members:
    """Started once, stopped once. All calls are made on its loop."""

    def __init__(
        self,
        plans: Mapping[int, NodePlan],
        make_node: Callable[[NodePlan, Store, Notices], ClusterNode],
        tell: Callable[[str], object],
    ) -> None:
        """``tell`` gets a sentence about each event that no call has caused."""
        self._plans = dict(plans)
        self._make_node = make_node
        self._tell = tell
        self._tasks = Tasks()
        self._store: EmbeddedStore | None = None
        self._sessions: dict[int, OwnSessions] = {}
        self._session_timeout_ms = next(iter(plans.values())).config().zookeeper_session_timeout_ms
        self.clock = MovableClock(RealClock())
        self.members = {node_id: ClusterMember(node_id) for node_id in plans}
        # Called for each restarted broker, so that lasting faults apply to it again.
        self.on_restarted: Callable[[int], Coroutine[object, object, None]] | None = None
        # Done once, before the first broker is lost to the others.
        self.before_loss: Callable[[], Coroutine[object, object, None]] | None = None
        # Asked for each fault of a request whether it applies once more.
        self.count_hit: Callable[[int], bool] = lambda _number: False

    @property
    def nodes(self) -> dict[int, ClusterNode]:
        """Ids of the live brokers, paused or not."""
        found = ((one.node_id, one.node) for one in self.members.values())
        return {node_id: node for node_id, node in found if node is not None}

    @property
    def running(self) -> dict[int, ClusterNode]:
        """Ids of the live brokers that are not paused."""
        members = self.members
        return {
            node_id: node
            for node_id, node in self.nodes.items()
            if members[node_id].state is ProcessState.RUNNING
        }

    def node(self, node_id: int, *, paused_too: bool = False) -> ClusterNode:
        """The node of a broker that runs. Raises ClusterError."""
        node, state = self.member(node_id).node, self.member(node_id).state
        if node is None:
            raise ClusterError(f"broker {node_id} is not running: restart it first")
        if state is ProcessState.PAUSED and not paused_too:
            raise ClusterError(f"broker {node_id} is paused: resume it first")
        return node

    def member(self, node_id: int) -> ClusterMember:
        """Return that broker, in any state. Raises ClusterError."""
        given: object = node_id
        if not isinstance(given, int) or given not in self.members:
            known = ", ".join(map(str, self.members))
            raise ClusterError(f"there is no broker {node_id!r}, only {known}")
        return self.members[node_id]

    def date_ms(self, node_id: int) -> int:
        """Return that broker's wall clock time. Raises ClusterError."""
        return self.clock.wall_ms() + self.member(node_id).step_ms

    # ---- all of them ----

    async def start(
        self, disk: Disk, directory: str, first_users: Sequence[FirstUser] = ()
    ) -> None:
        """Return when every broker serves and knows all of them. The users are there before the
        first broker logs in. Raises CannotStart."""
        disk.make_directory(directory)
        store = self._store = await EmbeddedStore.open(
            disk, self.clock, self._tasks.spawn, f"{directory}/{METADATA_STORE}"
        )
        self._sessions = {node_id: OwnSessions(store) for node_id in self.members}
        try:
            if first_users:
                await _write_users(store, first_users)
            await all_of(self._start_one(member) for member in self.members.values())
            all_ids = frozenset(self.members)
            await all_of(node.wait_for_brokers(all_ids) for node in self.nodes.values())
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop all brokers cleanly, including paused and cut off ones."""
        for member in self.members.values():
            self._end_silence(member)
        nodes = [one.node for one in self.members.values() if one.node is not None]
        await asyncio.gather(*(node.stop() for node in nodes), return_exceptions=True)
        for member in self.members.values():
            member.node, member.state = None, ProcessState.DEAD
            _free_ports(member)
        await self._tasks.stop()
        if self._store is not None:
            await self._store.close()
        self.clock.close()

    # ---- one of them ----

    async def prepare_for_loss(self) -> None:
        """Create now what needs all brokers, before the first one is lost."""
        before_loss, self.before_loss = self.before_loss, None
        if before_loss is not None and len(self.running) == len(self.members):
            await before_loss()

    async def kill(self, node_id: int) -> None:
        """Kill it; the store notices at once. Raises ClusterError."""
        node = self.node(node_id, paused_too=True)
        await self.prepare_for_loss()
        member = self.members[node_id]
        member.node, member.state = None, ProcessState.DEAD
        self._end_silence(member)
        await node.kill()
        _hold_ports(member)
        await self._sessions[node_id].expire()

    async def restart(self, node_id: int) -> None:
        """Start it on the disk and the ports that it had; one that runs is stopped first.

        Raises CannotStart, ClusterError."""
        member = self.member(node_id)
        node, member.node = member.node, None
        if node is not None:
            member.state = ProcessState.DEAD
            self._end_silence(member)
            await node.stop()
        await self._start_one(member)
        if self.on_restarted is not None:
            await self.on_restarted(node_id)

    async def pause(self, node_id: int) -> None:
        """Pause it like SIGSTOP; its session ends after the session timeout."""
        node = self.node(node_id)
        await self.prepare_for_loss()
        member = self.members[node_id]
        member.state = ProcessState.PAUSED
        await node.pause()
        member.silence = self.clock.call_at(
            self.clock.now_ms() + self._session_timeout_ms,
            lambda: self.spawn("silence", self._on_silence(node_id)),
        )

    async def resume(self, node_id: int) -> None:
        """Resume it. Raises ClusterError."""
        member = self.member(node_id)
        if member.state is not ProcessState.PAUSED:
            raise ClusterError(f"broker {node_id} is not paused")
        node = self.node(node_id, paused_too=True)
        self._end_silence(member)
        member.state = ProcessState.RUNNING
        await node.resume()

    async def expire_session(self, node_id: int) -> None:
        """Let the store expire its session, as after too long a silence. Raises ClusterError."""
        self.node(node_id, paused_too=True)
        await self._sessions[node_id].expire()

    # ---- what the nodes say ----

    def spawn(self, name: str, work: Coroutine[object, object, None]) -> None:
        """Run it in the background."""
        self._tasks.spawn(name, work)

    async def may_hit(self, node_id: int, number: int, what: str) -> bool:
        may = self.count_hit(number)
        if may:
            self._tell(f"broker {node_id} {what}")
        return may

    def on_gone(self, node_id: int, reason: str) -> None:
        self._tell(f"broker {node_id} is dead: {reason}")
        self.spawn("burial", self._bury(node_id))

    async def _bury(self, node_id: int) -> None:
        if self.members[node_id].node is not None:
            self.before_loss = None
            await self.kill(node_id)

    async def _on_silence(self, node_id: int) -> None:
        self._tell(f"the session of broker {node_id} has ended: it was silent for too long")
        await self._sessions[node_id].expire()

    async def _start_one(self, member: ClusterMember) -> None:
        plan = self._plans[member.node_id]._replace(
            ahead_ms=self.clock.ahead_ms, step_ms=member.step_ms
        )
        if member.addresses:
            ports = {name: address.port for name, address in member.addresses.items()}
            plan = plan._replace(ports=ports)
        node = self._make_node(plan, self._sessions[member.node_id], self)
        _free_ports(member)
        member.addresses = await node.start()
        member.node, member.state = node, ProcessState.RUNNING

    def _end_silence(self, member: ClusterMember) -> None:
        if member.silence is not None:
            member.silence.cancel()
            member.silence = None


async def _write_users(store: EmbeddedStore, users: Sequence[FirstUser]) -> None:
    """Write the users, replacing those of an earlier cluster in the same directory."""
    session, random = await store.connect(), RealRandom()
    await found_cluster(session, random)
    for user in users:
        await write_user(session, user, random.token(SALT_BYTES), only_new=False)
    await session.close()


async def all_of(works: Iterable[Coroutine[object, object, object]]) -> None:
    """Run all concurrently, and wait for all of them before raising the first failure."""
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if isinstance(outcome, BaseException):
            raise outcome


def _hold_ports(member: ClusterMember) -> None:
    """Bind the ports without listening: connections are refused, other processes cannot bind."""
    for address in member.addresses.values():
        holder = socket.socket()
        try:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            holder.bind(address)
        except OSError:
            # Another process bound it first, or the platform binds no port twice: the restart shows
            # it.
            holder.close()
        else:
            member.held_ports.append(holder)


def _free_ports(member: ClusterMember) -> None:
    for holder in member.held_ports:
        holder.close()
    member.held_ports.clear()
