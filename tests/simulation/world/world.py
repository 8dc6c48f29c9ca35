"""A seeded world: one loop, one network, some nodes, and a digest of all that happened."""

from __future__ import annotations

import gc
import hashlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from tests.simulation.complaints import Complaints
from tests.simulation.world.links import Links, NetProfile
from tests.simulation.world.loop import BusyLoop, Deadlock, OutOfSteps, SimLoop
from tests.simulation.world.network import SimNet
from tests.simulation.world.node import MachineProfile, Node, Program, Surroundings
from tests.simulation.world.process import ProcessEnded
from tests.simulation.world.random import SimRandom

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping


class Outcome(NamedTuple):
    """Outcome of one seed."""

    seed: int
    violations: list[str]
    digest: str
    steps: int
    virtual_s: float
    counts: Mapping[str, int]
    options: str
    events: list[str]
    scenario: str = ""

    @property
    def command(self) -> str:
        """The command that replays it."""
        return f"python -m tests.simulation {self.scenario}{self.seed}"

    @property
    def ok(self) -> bool:
        return not self.violations

    def describe(self) -> str:
        """For a failing test: what went wrong, what led there, how to see it again."""
        return "\n".join(
            [
                f"seed {self.seed} failed; replay with: {self.command}",
                f"options: {self.options}",
                *(f"  event: {event}" for event in self.events[-60:]),
                *(f"  VIOLATION: {violation}" for violation in self.violations[:30]),
            ]
        )


class World:
    """Made, run once and closed; everything in it follows from the seed."""

    def __init__(self, seed: int, profile: NetProfile | None = None) -> None:
        self.seed = seed
        self.random = SimRandom(seed)
        self.loop = SimLoop(self.random.child("loop"))
        self.events: list[str] = []
        self.nodes: dict[str, Node] = {}
        self.violations: list[str] = []
        self.complaints = Complaints()
        self._digest = hashlib.sha256()
        self.links = Links(
            self.loop, self.random.child("links"), profile or NetProfile(), self._digest.update
        )
        self.net = SimNet(self.links, self.random.child("net"))

    def node(self, name: str, program: Program, profile: MachineProfile | None = None) -> Node:
        """A machine with a program, not yet started."""
        assert name not in self.nodes
        around = Surroundings(self.loop, self.net, self.random.child("nodes"), self.report)
        self.nodes[name] = Node(around, name, program, profile or MachineProfile())
        return self.nodes[name]

    def report(self, event: str) -> None:
        """Something worth telling when the seed fails."""
        line = f"{self.loop.time():11.6f} {event}"
        self.events.append(line)
        self._digest.update(line.encode())

    def note(self, fact: str) -> None:
        """Something that two runs of a seed must agree on."""
        self._digest.update(fact.encode())

    def digest(self) -> str:
        """Equal for two runs of the same seed, whatever the process they ran in."""
        return hashlib.sha256(
            self._digest.digest() + f"{self.loop.steps} {self.loop.time()!r}".encode()
        ).hexdigest()

    def run(self, story: Coroutine[Any, Any, None]) -> None:
        """Run the story to its end and clear up; what stops it becomes a violation.

        The garbage collector is off meanwhile: when it runs depends on more than the seed."""
        threads = threading.active_count()
        collecting = gc.isenabled()
        gc.disable()
        try:
            # Only while it runs: what the dead complain of when they are buried is no evidence.
            with self.complaints:
                self.loop.run_until_complete(story)
        except (Deadlock, BusyLoop, OutOfSteps, AssertionError) as stop:
            self.violations.append(f"{type(stop).__name__}: {stop}")
        finally:
            self._close()
            if collecting:
                gc.enable()
        if threading.active_count() > threads:
            self.violations.append("a thread was started")

    def _close(self) -> None:
        domains = []
        for node in self.nodes.values():
            past = [*node.past, node.process]
            for process in past:
                if process is not None and process.domain not in domains:
                    self.loop.drop(process.domain)
                    domains.append(process.domain)
        self.loop.bury(domains)
        for failure in self.loop.failures:
            error = failure.get("exception")
            if not isinstance(error, ProcessEnded):
                self.violations.append(f"unhandled: {failure.get('message')}: {error!r}")
        self.loop.close()
