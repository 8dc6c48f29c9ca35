"""Finds the partition whose fetch response exceeds the size limit. Pure.

A response that is too large closes its connection unread. The partitions of that request are then
fetched one at a time, until each has answered or is identified: otherwise the same request and
response would repeat for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition


class OversizeSearch:
    """Owned by one fetcher; keeps its suspects by broker."""

    __slots__ = ("suspects",)

    def __init__(self) -> None:
        self.suspects: dict[int, list[TopicPartition]] = {}

    def suspect(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """Suspect these partitions after a response that was too large; fetch each alone."""
        self.suspects[node_id] = list(partitions)

    def alone(self, node_id: int, ready: list[TopicPartition]) -> TopicPartition | None:
        """Return the next suspect to fetch alone, or None."""
        left = [where for where in self.suspects.pop(node_id, ()) if where in ready]
        if not left:
            return None
        self.suspects[node_id] = left
        return left[0]

    def answered(self, node_id: int, partitions: list[TopicPartition]) -> None:
        """Clear partitions that have answered, or were identified."""
        left = [where for where in self.suspects.pop(node_id, ()) if where not in partitions]
        if left:
            self.suspects[node_id] = left
