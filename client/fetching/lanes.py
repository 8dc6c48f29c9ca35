"""The two ways to fetch from a broker: one for all partitions, one for those that cannot wait.

A fetch is parked by its broker until there is data, for up to ``fetch_wait_ms``. Who is placed
somewhere else meanwhile, or is to be read again, would begin only when that is over. Such
partitions are asked for on a connection beside, where nothing is parked for long, since they may
move again; the longer they have not, the longer. When the first fetch comes back it takes them
along; where that asks for the same twice, one of both answers is dropped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.cluster.private_pool import OwnPool

if TYPE_CHECKING:
    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.fetching.fetch_request import WantedPartition
    from ottla.client.fetching.positions import Positions
    from ottla.protocol.ids import TopicPartition


BESIDE_WAIT_MS = 20.0
BESIDE_WAIT_GROWTH = 1.25


class FetchLane:
    """At most one fetch of each broker, on connections of its own. Owned by one fetcher."""

    def __init__(self, cluster: ClusterClient, name: str) -> None:
        self.pool = OwnPool(cluster, name)
        # What is asked for now: where in which turn, by the broker.
        self._asked: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        # What was asked for last, and how long it was parked.
        self._last: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        self._waits_ms: dict[int, float] = {}

    def is_taken(self, node_id: int) -> bool:
        """Whether the broker's answer is waited for."""
        return node_id in self._asked

    def take(self, node_id: int, wanted: list[WantedPartition]) -> None:
        """These are asked for now."""
        self._asked[node_id] = {want.partition: (want.turn, want.offset) for want in wanted}

    def wait_ms(self, node_id: int, wanted: list[WantedPartition]) -> float:
        """How long to have these parked, beside."""
        asked = {want.partition: (want.turn, want.offset) for want in wanted}
        wait_ms = BESIDE_WAIT_MS
        if self._last.get(node_id) == asked:
            wait_ms = self._waits_ms[node_id] * BESIDE_WAIT_GROWTH
        self._last[node_id], self._waits_ms[node_id] = asked, wait_ms
        return wait_ms

    def leave(self, node_id: int) -> None:
        """There is an answer, or there will be none."""
        self._asked.pop(node_id, None)

    def missed(
        self, node_id: int, ready: list[TopicPartition], positions: Positions
    ) -> list[TopicPartition]:
        """Those that are ready, and not asked for from where they are."""
        asked = self._asked.get(node_id, {})
        return [
            where
            for where in ready
            if asked.get(where) != (positions[where].turn, positions[where].fetch_offset)
        ]
