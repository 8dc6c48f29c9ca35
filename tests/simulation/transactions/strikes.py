"""Faults that strike when a transaction has just come to a step: at random moments they hardly ever
do.

What is watched is what brokers write: records of coordinators, commits of offsets, markers, and
verdicts of which the markers are about to leave. With ``markers_again`` some markers come once more
later, as they do from a coordinator that does not know of the first (hazard T-16).
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla.broker.coordinating.internal_topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from ottla.broker.coordinating.txn_markers import MarkerSender
from ottla.broker.coordinating.txn_partition import MarkerWriter
from ottla.broker.partitions.partition import PartitionRuntime
from tests.simulation.cluster.hazards.replacing import Replacement, replaced

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from tests.simulation.cluster.ambushes import Ambushes
    from tests.simulation.world.world import World

DELAYS_S = (0.0, 0.0, 0.002, 0.01, 0.03)
HOLDS_S = (0.3, 1.0, 3.0)
VERDICT = "verdict"
PRODUCE = "produce"
# A struck cluster is left in peace for so long.
PEACE_S = (0.3, 3.0)


class StrikeOptions(NamedTuple):
    """``chance`` of a blow at each step, or at each of ``steps`` alone. ``blows``: kill, kill_slow,
    pause, or ``depose``, which holds up what the broker has on its way and ends its session."""

    chance: float = 0.0
    blows: tuple[str, ...] = ("kill", "pause", "depose")
    markers_again: float = 0.0
    steps: tuple[str, ...] = ()


class Strikes:
    """Of one run; ``arm`` begins, ``disarm`` ends."""

    def __init__(self, world: World, options: StrikeOptions) -> None:
        self.counts: dict[str, int] = {}
        self._world = world
        self._options = options
        self._random = world.random.child("strikes")
        self._chaos: Ambushes | None = None
        self._peace_until_s = 0.0
        self._tasks: set[asyncio.Future[None]] = set()

    def watched(self) -> AbstractContextManager[None]:
        """Watch all steps until the end of the context."""
        return replaced(
            (
                Replacement(PartitionRuntime, "write", self._around_write),
                Replacement(PartitionRuntime, "write_marker", self._around_marker),
                Replacement(MarkerWriter, "write", self._around_markers),
                Replacement(MarkerSender, "send", self._around_send),
            )
        )

    def arm(self, chaos: Ambushes) -> None:
        """From now on."""
        self._chaos = chaos

    async def disarm(self) -> None:
        """Strike no more; what has been begun comes to its end."""
        self._chaos = None
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # ---- steps ----

    def _around_write(self, before: Any) -> Any:
        def write(partition: PartitionRuntime, plan: Any, acks: int) -> Any:
            written = before(partition, plan, acks)
            batch = plan.batch
            topic = partition.partition.topic
            if batch is not None and (batch.is_transactional or topic == TRANSACTIONS_TOPIC):
                internal = topic in (TRANSACTIONS_TOPIC, OFFSETS_TOPIC)
                self._step(partition.replica.node_id, topic if internal else PRODUCE)
            return written

        return write

    def _around_marker(self, before: Any) -> Any:
        def write_marker(partition: PartitionRuntime, *arguments: Any) -> Any:
            written = before(partition, *arguments)
            self._step(partition.replica.node_id, "marker")
            return written

        return write_marker

    def _around_send(self, before: Any) -> Any:
        def send(sender: MarkerSender, *arguments: Any) -> Any:
            self._step(sender._parts.node_id, VERDICT)
            return before(sender, *arguments)

        return send

    def _around_markers(self, before: Any) -> Any:
        def write(writer: MarkerWriter, request: Any) -> Any:
            again = self._options.markers_again
            if self._chaos is not None and again and self._random.chance(again):
                self._count("markers again")
                delay_s = self._random.exponential(1.0)
                # Within the broker's own life: what is dead writes nothing.
                asyncio.get_running_loop().call_later(delay_s, partial(before, writer, request))
            return before(writer, request)

        return write

    # ---- blows ----

    def _step(self, node_id: int, what: str) -> None:
        options, loop = self._options, self._world.loop
        if self._chaos is None or not options.chance or loop.time() < self._peace_until_s:
            return
        if (options.steps and what not in options.steps) or not self._random.chance(options.chance):
            return
        self._peace_until_s = loop.time() + self._random.choice(PEACE_S)
        blow = self._random.choice(options.blows)
        self._count(f"{blow} at {what}")
        delay_s = self._random.choice(DELAYS_S)
        if not delay_s and blow == "depose":
            # Before anything leaves.
            self._strike(node_id, blow)
            return
        loop.call_later(delay_s, self._strike, node_id, blow, context=loop.outside)

    def _strike(self, node_id: int, blow: str) -> None:
        chaos = self._chaos
        if chaos is None or (blow.startswith("kill") and chaos.is_weak):
            return
        broker = chaos.brokers[node_id]
        if blow == "depose":
            name = broker.server.name
            self._world.report(f"{name} is deposed")
            self._hold(name, {one.server.name for one in chaos.brokers})
            assert broker.ensemble is not None
            broker.ensemble.expire(name)
            return
        task = asyncio.ensure_future(broker.strike(blow))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _hold(self, name: str, peers: set[str]) -> None:
        """Hold data for other brokers only; clients would give up and ask another broker."""
        delay_s = self._random.choice(HOLDS_S)
        for socket in self._world.net.host(name).sockets:
            if socket.peer.host in peers:
                socket.stream_to_hold(True).hold(delay_s)

    def _count(self, what: str) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
