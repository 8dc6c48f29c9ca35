"""Limits fetches to two per broker: one for all partitions, one for those that cannot wait.

A broker holds a fetch until there is data, for up to ``fetch_wait_ms``. A partition that moves or
resumes in the meantime would have to wait for that. Such partitions are fetched on a second
connection, where waits are short, since the partitions may move again; the waits grow while they do
not. The first fetch includes them when it returns; if both ask for the same, one response is
dropped.
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


class FetchSlot:
    """At most one fetch from each broker, on connections of its own. Owned by one fetcher."""

    def __init__(self, cluster: ClusterClient, name: str) -> None:
        self.pool = OwnPool(cluster, name)
        # The partitions in flight, with turn and offset, by broker.
        self.in_flight: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        # The partitions of the last request, and its wait.
        self._last: dict[int, dict[TopicPartition, tuple[int, int]]] = {}
        self._waits_ms: dict[int, float] = {}

    def take(self, node_id: int, wanted: list[WantedPartition]) -> None:
        """Record that these partitions are in flight."""
        self.in_flight[node_id] = {want.partition: (want.turn, want.offset) for want in wanted}

    def wait_ms(self, node_id: int, wanted: list[WantedPartition]) -> float:
        """Return how long the broker may hold this second fetch, in milliseconds."""
        asked = {want.partition: (want.turn, want.offset) for want in wanted}
        wait_ms = BESIDE_WAIT_MS
        if self._last.get(node_id) == asked:
            wait_ms = self._waits_ms[node_id] * BESIDE_WAIT_GROWTH
        self._last[node_id], self._waits_ms[node_id] = asked, wait_ms
        return wait_ms

    def leave(self, node_id: int) -> None:
        """Record that the fetch has ended, with or without a response."""
        self.in_flight.pop(node_id, None)

    def missed(
        self, node_id: int, ready: list[TopicPartition], positions: Positions
    ) -> list[TopicPartition]:
        """Return the ready partitions that are not being fetched from their current position."""
        asked = self.in_flight.get(node_id, {})
        return [
            where
            for where in ready
            if asked.get(where) != (positions[where].turn, positions[where].fetch_offset)
        ]
