"""One machine of the simulated world and the process that runs on it.

The machine keeps its disk, its name on the network and its bad clock through every restart; the
process has fresh seams, a fresh monotonic origin and nothing in memory each time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from ottla.broker.testing.faulty_disk import FaultPlan
from ottla.protocol.ports import Ports
from tests.simulation.world.clock import SimClock
from tests.simulation.world.disk import DiskProfile, SimDisk
from tests.simulation.world.filesystem import SimFileSystem
from tests.simulation.world.offload import SimOffload
from tests.simulation.world.process import ProcessEnded, SimProcess

if TYPE_CHECKING:
    from tests.simulation.world.loop import SimLoop
    from tests.simulation.world.network import SimNet
    from tests.simulation.world.random import SimRandom

Program = Callable[[Ports], Coroutine[Any, Any, object]]


class Server(Protocol):
    """The result of a factory: an object that starts, serves and stops."""

    async def start(self) -> object: ...

    async def stop(self) -> object: ...

    def on_failure(self, callback: Callable[[], object]) -> object:
        """Call back when it cannot continue and should be stopped."""


class MachineProfile(NamedTuple):
    """Permanent deviations of this machine, such as of its clock."""

    clock_rate: float = 1.0
    wall_offset_ms: float = 0.0
    capacity_bytes: int = 1 << 40
    disk: DiskProfile = DiskProfile()


class Surroundings(NamedTuple):
    """Services that all nodes of a world share."""

    loop: SimLoop
    net: SimNet
    random: SimRandom
    report: Callable[[str], object]


def serve(build: Callable[[Ports], Server]) -> Program:
    """A program that starts a server, waits for SIGTERM or its failure, and stops it."""

    async def program(ports: Ports) -> None:
        stopped = asyncio.Event()
        ports.process.on_stop(stopped.set)
        server = build(ports)
        server.on_failure(stopped.set)
        await server.start()
        await stopped.wait()
        await server.stop()

    return program


class Node:
    """Owned by the world. ``incarnation`` counts the starts; each has a separate domain."""

    def __init__(
        self, around: Surroundings, name: str, program: Program, profile: MachineProfile
    ) -> None:
        self.name = name
        self.program = program
        self.profile = profile
        self.files = SimFileSystem(profile.capacity_bytes)
        self.incarnation = 0
        self.process: SimProcess | None = None
        self.clock: SimClock | None = None
        self.disk: SimDisk | None = None
        self.past: list[SimProcess] = []
        self.deaths: list[str] = []
        self.disk_faults = FaultPlan()
        self.losing_fsyncs = FaultPlan()
        self.on_start: Callable[[], object] = lambda: None
        self.on_exit: Callable[[], object] = lambda: None
        self.on_loss: Callable[[str], object] = lambda _: None
        self._around = around
        self._random = around.random.child(name)
        around.net.host(name)

    @property
    def running(self) -> bool:
        """Whether there is a process, stopped by SIGSTOP or not."""
        return self.process is not None and self.process.running

    def start(self) -> None:
        """Boot the machine if need be and start the program."""
        assert not self.running
        loop, net = self._around.loop, self._around.net
        if not net.host(self.name).up:
            net.power_on(self.name)
        if self.files.has_lost_writes():
            # What a failed fsync left clean in memory is read from the disk again by now.
            self.on_loss("pages of a failed fsync")
            self.files.forget_lost_writes()
        self.incarnation += 1
        random = self._random.child(f"incarnation {self.incarnation}")
        process = self.process = SimProcess(loop, f"{self.name}.{self.incarnation}", 1)
        process.on_abort = self._aborted
        self.clock = SimClock(
            loop,
            random.child("clock"),
            rate=self.profile.clock_rate,
            wall_offset_ms=self.profile.wall_offset_ms,
        )
        self.disk = SimDisk(loop, self.files, process, random.child("disk"), self.profile.disk)
        self.disk.faults, self.disk.losing_fsyncs = self.disk_faults, self.losing_fsyncs
        ports = Ports(
            clock=self.clock,
            random=random.child("program"),
            net=net.of_process(self.name, process),
            disk=self.disk,
            offload=SimOffload(loop, process, random.child("offload")),
            process=process,
        )
        self._report("start")
        self.on_start()
        loop.create_task(self._live(ports, process), context=process.domain.context())

    def kill(self) -> None:
        """SIGKILL: memory is lost, the page cache is not, the kernel closes the connections."""
        self._report("kill -9")
        self._end()

    def power_cut(self, *, ordered: bool) -> None:
        """Everything volatile is lost and the network goes silent."""
        self._report(f"power cut ({'ordered' if ordered else 'any subset'})")
        self._around.net.power_cut(self.name)
        if self.running:
            self._end()
        self.on_loss("power cut")
        random = self._random.child(f"power cut {self.incarnation}")
        self.files.lose_power(random, ordered=ordered)

    def terminate(self) -> None:
        """SIGTERM; the program ends when it likes."""
        self._report("SIGTERM")
        assert self.process is not None
        self.process.terminate()

    def pause(self) -> None:
        """SIGSTOP."""
        self._report("SIGSTOP")
        assert self.process is not None
        self._around.loop.stop_domain(self.process.domain)

    def resume(self) -> None:
        """SIGCONT."""
        self._report("SIGCONT")
        assert self.process is not None
        self._around.loop.continue_domain(self.process.domain)

    async def _live(self, ports: Ports, process: SimProcess) -> None:
        try:
            await self.program(ports)
            self._report("the program has ended")
        except ProcessEnded:
            return
        except Exception as error:
            self.deaths.append(repr(error))
            self._report(f"the program died of {error!r}")
        if process is self.process and process.running:
            self._end()

    def _aborted(self) -> None:
        assert self.process is not None
        self._report(f"abort: {self.process.abort_reason}")
        self._end()

    def _end(self) -> None:
        process = self.process
        assert process is not None
        process.domain.stopped = False
        self._around.loop.drop(process.domain)
        self.past.append(process)
        if self._around.net.host(self.name).up:
            self._around.net.process_died(self.name)
        self.on_exit()

    def _report(self, what: str) -> None:
        self._around.report(f"{self.name}: {what}")
