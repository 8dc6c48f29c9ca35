"""One broker and the wrappers around it that inject its faults.

A ``LocalNode`` belongs to the event loop of its broker; read ``cluster_node.py`` first.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from ottla.broker.server.broker import Broker
from ottla.broker.server.log_names import as_broker
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.broker.testing.cluster_node import CLIENTS, DiskCondition
from ottla.broker.testing.faulty_disk import WAITS, DiskFault, FaultPlan, FaultyDisk
from ottla.broker.testing.faulty_net import FaultyNet
from ottla.broker.testing.faulty_requests import FaultyRequests
from ottla.broker.testing.gated_store import GatedStore
from ottla.broker.testing.movable_clock import MovableClock
from ottla.broker.testing.questions import Answers
from ottla.protocol.errors import CorruptLogError, KafkaError
from ottla.protocol.ports import Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from ottla.broker.testing.cluster_node import NodePlan, Notices
    from ottla.broker.testing.faulty_requests import RequestFault
    from ottla.coordinator.store.store import Store
    from ottla.protocol.ports import Address, Clock, Disk, Offload, Result

logger = logging.getLogger("ottla.testing")


class PatientOffload:
    """``ports.Offload`` that also waits for a slow disk."""

    def __init__(self, below: Offload, clock: Clock) -> None:
        self._below = below
        self._clock = clock
        self.delay_ms = 0.0

    def run(self, function: Callable[..., Result], *arguments: object) -> Awaitable[Result]:
        if not self.delay_ms:
            return self._below.run(function, *arguments)
        return self._run_late(function, *arguments)

    async def _run_late(self, function: Callable[..., Result], *arguments: object) -> Result:
        await self._clock.sleep(self.delay_ms)
        return await self._below.run(function, *arguments)


class LocalNode(Answers):
    """``ClusterNode`` in this process, for one run of the broker; the next run has a new one."""

    def __init__(
        self, plan: NodePlan, make_disk: Callable[[Offload], Disk], store: Store, notices: Notices
    ) -> None:
        self.node_id = plan.node_id
        self.clock = MovableClock(RealClock(), plan.ahead_ms, plan.step_ms)
        self.store = GatedStore(store)
        self._plan = plan
        self._notices = notices
        self._threads = RealOffload()
        self._offload = PatientOffload(self._threads, self.clock)
        self._faults = FaultPlan()
        self._disk = FaultyDisk(make_disk(self._threads), self._faults, self.clock)
        self._net = FaultyNet(RealNet())
        self._requests: FaultyRequests | None = None
        self._broker: Broker | None = None
        self._is_ended = False

    @property
    def broker(self) -> Broker:
        """The broker, once it is started."""
        assert self._broker is not None
        return self._broker

    async def start(self) -> dict[str, Address]:
        try:
            await asyncio.gather(as_broker(self.node_id, self._start()))
        except BaseException:
            self._end()
            raise
        return self.broker.addresses

    async def _start(self) -> None:
        ports = Ports(
            self.clock, RealRandom(), self._net, self._disk, self._offload, RealProcess(), None
        )
        broker = Broker(ports, self._plan.config(), self.store)
        broker.on_failure(self._on_failure)
        await broker.start()
        self._broker = broker
        self._net.clients_address = broker.addresses[CLIENTS]

    async def stop(self) -> None:
        # A paused broker would not answer the stop.
        await self.resume()
        await self.cut((), clients=False)
        await self.set_disk(DiskCondition())
        await self._stop()

    async def kill(self) -> None:
        self._silence()
        # Callbacks of its connections then find them closed.
        await asyncio.sleep(0)
        try:
            await self._stop()
        except (KafkaError, CorruptLogError, OSError) as error:
            logger.debug("broker %d did not stop cleanly: %s", self.node_id, error)

    def _silence(self) -> None:
        """From now on it sends no data, and its writes are discarded."""
        self._net.kill()
        self._faults.clear()
        self._faults.is_dead = True
        self.store.kill()
        self.clock.release()

    async def _stop(self) -> None:
        broker, self._broker = self._broker, None
        if broker is not None:
            try:
                await asyncio.gather(as_broker(self.node_id, broker.stop(is_last=True)))
            finally:
                self._end()

    def _end(self) -> None:
        self._is_ended = True
        self._net.kill()
        self._disk.release_locks()
        self.clock.close()
        self._threads.close()

    async def pause(self) -> None:
        self._net.pause(paused=True)
        self.store.hold()
        self.clock.hold()

    async def resume(self) -> None:
        # First what arrived meanwhile, such as the end of its session.
        self.store.release()
        self.clock.release()
        self._net.pause(paused=False)

    async def cut(self, targets: Iterable[Address], clients: bool) -> None:
        self._net.cut(targets, clients=clients)

    async def set_disk(self, condition: DiskCondition) -> None:
        delay_ms = condition.delay_ms
        self._faults.clear()
        if delay_ms:
            self._faults.add(DiskFault(WAITS, error=0, delay_ms=delay_ms))
        self._faults.is_full = condition.is_full
        self._faults.on_torn = self._on_torn if condition.is_tearing else None
        self._offload.delay_ms = delay_ms
        if delay_ms or self._requests is not None:
            self._faulty_requests().produce_delay_ms = delay_ms

    async def add_request_fault(self, fault: RequestFault) -> None:
        self._faulty_requests().add(fault)

    async def drop_request_fault(self, number: int) -> None:
        self._faulty_requests().drop(number)

    async def move_clock(self, ms: float, step_ms: int) -> None:
        self.clock.jump(step_ms)
        self.clock.advance(ms)

    def _faulty_requests(self) -> FaultyRequests:
        if self._requests is None:
            broker = self.broker
            self._requests = FaultyRequests(
                broker.requests.dispatcher.dispatch,
                CLIENTS,
                self.clock,
                lambda number, what: self._notices.may_hit(self.node_id, number, what),
            )
            broker.network.serve_with(self._requests.dispatch)
        return self._requests

    def _on_torn(self, path: str) -> None:
        self._silence()
        where = "/".join(path.split("/")[-2:])
        self._notices.on_gone(self.node_id, f"it died in the middle of a write to {where}")

    def _on_failure(self) -> None:
        if not self._is_ended and not self._faults.is_dead:
            self._notices.on_gone(self.node_id, "it cannot continue: its log says why")
