"""Which partition it is whose answer nobody has room for. Pure.

An answer that is too large closes its connection and does not say what is in it. The partitions it
was about are asked for one at a time then, until each has answered or been found out: otherwise the
same would be asked, and would come, for ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.ids import TopicPartition


class Oversize:
    """Owned by one fetcher; all by the broker that was asked."""

    __slots__ = ("_suspects",)

    def __init__(self) -> None:
        self._suspects: dict[int, list[TopicPartition]] = {}

    def suspect(self, node_id: int, partitions: Iterable[TopicPartition]) -> None:
        """The answer about these was too large; each will be asked for alone."""
        self._suspects[node_id] = list(partitions)

    def alone(self, node_id: int, ready: list[TopicPartition]) -> TopicPartition | None:
        """The one to ask for now, of those that can be; None if there is no suspicion."""
        left = [where for where in self._suspects.pop(node_id, ()) if where in ready]
        if not left:
            return None
        self._suspects[node_id] = left
        return left[0]

    def answered(self, node_id: int, partitions: list[TopicPartition]) -> None:
        """There is an answer about these, or the culprit is found."""
        left = [where for where in self._suspects.pop(node_id, ()) if where not in partitions]
        if left:
            self._suspects[node_id] = left
