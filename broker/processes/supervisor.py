"""Runs the brokers of one machine, one process each, and the parts that they share.

The supervisor serves the embedded store and one metrics page, but no clients. When a process dies,
only its own store sessions end; when the supervisor dies, all processes exit.
"""

from __future__ import annotations

import asyncio
import logging
from functools import partial
from typing import TYPE_CHECKING, Any

from ottla.broker.engine.tasks import Tasks
from ottla.broker.processes.child_process import SupervisedProcess
from ottla.broker.processes.fleet import (
    AllServe,
    AskForSync,
    AskToStop,
    ChildState,
    Finished,
    Fleet,
    FleetAction,
    FleetPhase,
    Kill,
    Launch,
    Told,
)
from ottla.broker.processes.plan import SOCKET_NAME
from ottla.broker.processes.pulses import Pulses
from ottla.broker.server.stores import CannotStart, open_embedded
from ottla.coordinator.store.served.server import StoreServer
from ottla.protocol.ports import Address
from ottla.wire.unix import UnixNet

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.processes.plan import ChildPlan
    from ottla.coordinator.store.embedded import EmbeddedStore
    from ottla.protocol.ports import Ports, Timer

logger = logging.getLogger("ottla.processes")

TICK_MS = 100.0
# How long a metrics page waits for one broker.
METRICS_MS = 5_000.0
# The event loop of a process turns also while its broker checks its logs.
ASKED = (ChildState.STARTING, ChildState.SERVING)


class Supervisor:
    """Supervisor of one machine; ``run`` is called once. ``plan_of`` returns the plan of a place,
    counted from 1; it is called at each start, so that a restart applies new settings."""

    def __init__(self, ports: Ports, count: int, plan_of: Callable[[int], ChildPlan]) -> None:
        self._ports = ports
        self._plan_of = plan_of
        self._tasks = Tasks(lambda _name, _error: self.fail("a task has died"))
        self._processes: dict[int, SupervisedProcess] = {}
        self._addresses: dict[int, Address] = {}
        self._reasons: dict[int, str] = {}
        self._store: EmbeddedStore | None = None
        self._server: StoreServer | None = None
        self._timer: Timer | None = None
        # Places whose process could not be created, with the reason.
        self._unmade: dict[int, str] = {}
        self._figures: dict[int, asyncio.Future[str]] = {}
        self._finished: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self.node_ids = {place: plan_of(place).node_id for place in range(1, count + 1)}
        self.fleet = Fleet(self.node_ids)
        self.pulses = Pulses()
        # Called when all processes serve for the first time.
        self.on_serving: Callable[[list[Address]], object] = lambda _addresses: None
        # Called with the error message of each process that cannot start.
        self.on_refused: Callable[[int, str], object] = lambda _node_id, _reason: None

    async def open_store(self, directory: str) -> str:
        """Open the embedded store in the directory and serve it to the brokers; return its socket's
        path.

        Raises CannotStart, CorruptLogError."""
        ports = self._ports
        self._store = await open_embedded(ports, self._tasks, directory, self._on_store_failure)
        path = ports.disk.absolute(f"{directory}/{SOCKET_NAME}")
        self._server = StoreServer(self._store, UnixNet(), ports.clock, self._tasks.spawn)
        try:
            self._server.listen(Address(path, 0))
        except OSError as error:
            await self._store.close()
            raise CannotStart(f"cannot make {path}: {error.strerror or error}") from error
        return path

    async def run(self) -> int:
        """Start all processes; return the exit status when all have exited.

        Starts none after a signal to stop that arrived while the store was being opened."""
        if not self._finished.done():
            self._do(self.fleet.begin(self._now()))
            self._tick()
        try:
            return await self._finished
        finally:
            if self._timer is not None:
                self._timer.cancel()
            await self._close()

    async def _close(self) -> None:
        for process in self._processes.values():
            process.kill()
        if self._server is not None:
            await self._server.close()
        if self._store is not None:
            await self._store.close()
        await self._tasks.stop()

    def stop(self) -> None:
        """Stop all processes, one after the other; a second call stops all at once."""
        self._do(self.fleet.stop(self._now()))

    def restart(self) -> None:
        """Begin a rolling restart."""
        self._do(self.fleet.restart(self._now()))

    def fail(self, reason: str) -> None:
        """Stop all processes because a shared part has failed."""
        logger.critical("all brokers of this machine stop: %s", reason)
        self._do(self.fleet.fail(self._now()))

    @property
    def states(self) -> list[tuple[int, str]]:
        """Each broker with its state."""
        return [
            (self.node_ids[place], self.fleet.state(place).value) for place in self.fleet.places
        ]

    @property
    def illnesses(self) -> list[tuple[int, str]]:
        """Each broker whose process hangs or is ill, and what is wrong."""
        return self._told(self.pulses.illness)

    @property
    def obstacles(self) -> list[tuple[int, str]]:
        """Each broker without its session with the metadata store, and why."""
        return self._told(self.pulses.obstacle)

    def _told(self, text_of: Callable[[int], str]) -> list[tuple[int, str]]:
        return [
            (self.node_ids[place], text) for place in self.fleet.places if (text := text_of(place))
        ]

    async def figures(self) -> dict[int, str]:
        """Return the metrics page of each broker that answered in time."""
        asked = []
        for place in self.fleet.places:
            if self.fleet.state(place) is ChildState.SERVING:
                future = self._figures.get(place)
                if future is None:
                    future = asyncio.get_running_loop().create_future()
                    self._figures[place] = future
                    self._tell(place, "metrics")
                asked.append((place, future))
        if asked:
            await asyncio.wait([future for _, future in asked], timeout=METRICS_MS / 1_000)
        return {
            self.node_ids[place]: future.result()
            for place, future in asked
            if future.done() and not future.cancelled()
        }

    # ---- steps ----

    def _now(self) -> float:
        return self._ports.clock.now_ms()

    def look(self) -> None:
        """Find the processes that have ended."""
        unmade, self._unmade = self._unmade, {}
        for place, why in unmade.items():
            self._do(self.fleet.on_ended(place, self._now(), why))
        for place, process in list(self._processes.items()):
            how = process.end()
            if how is not None:
                del self._processes[place]
                self._on_ended(place, process, how)

    def _tick(self) -> None:
        # A failed step must not prevent the next one.
        if not self._finished.done():
            self._timer = self._ports.clock.call_at(self._now() + TICK_MS, self._tick)
        self.look()
        self._do(self.fleet.tick(self._now()))
        if self.pulses.is_due(self._now()):
            for place in self.fleet.places:
                self._ask_pulse(place)

    def _ask_pulse(self, place: int) -> None:
        if self.fleet.state(place) not in ASKED:
            return
        if self.pulses.ask(place):
            self._tell(place, "pulse")
        elif self.pulses.is_hung(place):
            self._do(self.fleet.on_hung(place))

    def _do(self, actions: list[FleetAction]) -> None:
        for action in actions:
            match action:
                case Launch(place):
                    self._launch(place)
                case AskToStop(place):
                    self._tell(place, "stop")
                case Kill(place):
                    if place in self._processes:
                        self._processes[place].kill()
                case AskForSync(place):
                    self._tell(place, "sync")
                case AllServe():
                    self.on_serving([self._addresses[place] for place in self.fleet.places])
                case Told(is_warning, text):
                    logger.log(logging.WARNING if is_warning else logging.INFO, "%s", text)
                case Finished(status):
                    if not self._finished.done():
                        self._finished.set_result(status)

    def _tell(self, place: int, word: str) -> None:
        # A process that has just exited gets no message; the next check finds its exit.
        if place in self._processes:
            self._processes[place].tell(word)

    def _launch(self, place: int) -> None:
        plan = self._plan_of(place)
        try:
            process = SupervisedProcess(partial(self._on_message, place), lambda: None)
        except OSError as error:
            self._unmade[place] = f"could not be started: {error}"
            return
        self._processes[place] = process
        process.tell("plan", plan._asdict())
        logger.info("broker %d is process %d", plan.node_id, process.pid)

    def _on_ended(self, place: int, process: SupervisedProcess, how: str) -> None:
        self._forget_figures(place)
        self.pulses.forget(place)
        reason = self._reasons.pop(place, "")
        if reason:
            self.on_refused(self.node_ids[place], reason)
        if self._server is not None:
            # The exited process needs its sessions no longer; the others learn it without a
            # timeout.
            owner = self.node_ids[place]
            self._tasks.spawn("ended sessions", self._server.end_sessions_of(owner))
        told = f"{how} (process {process.pid})"
        self._do(self.fleet.on_ended(place, self._now(), told))

    def _forget_figures(self, place: int) -> None:
        future = self._figures.pop(place, None)
        if future is not None and not future.done():
            future.cancel()

    def _on_message(self, place: int, message: list[Any]) -> None:
        name, *parts = message
        if name == "serving":
            self._addresses[place] = Address(str(parts[0]), int(parts[1]))
            self._do(self.fleet.on_serving(place, self._now()))
        elif name == "sync":
            missing, example = int(parts[0]), str(parts[1])
            self._do(self.fleet.on_sync(place, missing, example, self._now()))
        elif name == "pulse":
            self.pulses.answered(place, str(parts[0]), str(parts[1]))
        elif name == "refused":
            self._reasons[place] = str(parts[0])
        elif name == "metrics":
            future = self._figures.pop(place, None)
            if future is not None and not future.done():
                future.set_result(str(parts[0]))

    def _on_store_failure(self, error: Exception) -> None:
        if self.fleet.phase is not FleetPhase.STOPPING:
            self.fail(f"the metadata store has failed: {error}")
