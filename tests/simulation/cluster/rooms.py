"""Leaderships on full disks: how long they stay there although an in-sync replica has room.

Judged where nothing but disks is faulty: a broker that is cut off, or a store without a quorum, is
reason enough for a leadership to stay where it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.simulation.cluster.oracles import Cluster

LIMIT_S = 10.0
# The default of ottla.free.space.floor.bytes.
FLOOR_BYTES = 268_435_456
ONLY_DISKS = frozenset({"disk_full", "disk_stays_full", "slow_disk", "wall_jump"})


class RoomWatch:
    """Calls ``violation`` once for each partition."""

    def __init__(self, cluster: Cluster, violation: Callable[[str, str], object]) -> None:
        self._cluster = cluster
        self._violation = violation
        # Partition and leader -> since when that could be otherwise.
        self._since: dict[tuple[str, int, int], float] = {}

    def look(self, now_s: float) -> None:
        """Once over all partitions."""
        room = {
            node_id: node.files.capacity_bytes - node.files.used_bytes() >= FLOOR_BYTES
            for node_id, node, _ in self._cluster.living()
        }
        since: dict[tuple[str, int, int], float] = {}
        for name, number in self._cluster.partitions():
            state = self._cluster.state(name, number)
            if state is None or room.get(state.leader, True):
                continue
            others = [node_id for node_id in state.isr if room.get(node_id, False)]
            if others:
                key = (name, number, state.leader)
                since[key] = self._since.get(key, now_s)
                if now_s - since[key] > LIMIT_S:
                    self._violation(
                        f"room {key}",
                        f"full disk: broker {state.leader} leads {name}-{number} with a full disk "
                        f"for {LIMIT_S:.0f} s, and {others} in sync have room",
                    )
        self._since = since
