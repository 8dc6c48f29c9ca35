"""Many changes of one moment as one line: what a broker's end does to a thousand partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from ottla.protocol.ids import TopicPartition

NAMED_MAX = 3


def named(partitions: Collection[TopicPartition]) -> str:
    """ "t-0, t-1, t-2 and 14 more"."""
    first = ", ".join(str(one) for one in sorted(partitions)[:NAMED_MAX])
    more = len(partitions) - NAMED_MAX
    return f"{first} and {more} more" if more > 0 else first


def counted(count: int, thing: str) -> str:
    """ "1 partition", "17 partitions"."""
    return f"{count} {thing}" if count == 1 else f"{count} {thing}s"


class IsrChangeSummary:
    """Which replicas have joined and left in-sync sets since the last line in the log."""

    def __init__(self) -> None:
        self._joined: dict[int, set[TopicPartition]] = {}
        self._left: dict[int, set[TopicPartition]] = {}

    def add(self, partition: TopicPartition, before: Sequence[int], after: Sequence[int]) -> None:
        """The set of a partition has changed."""
        for node_id in set(after) - set(before):
            self._joined.setdefault(node_id, set()).add(partition)
        for node_id in set(before) - set(after):
            self._left.setdefault(node_id, set()).add(partition)

    def take(self) -> tuple[list[str], list[str]]:
        """Sentences about who joined, and about who left; they are told once."""
        joined = [
            f"broker {node_id} has caught up with {counted(len(found), 'partition')} led here: "
            f"{named(found)}"
            for node_id, found in sorted(self._joined.items())
        ]
        left = [
            f"broker {node_id} has fallen behind in {counted(len(found), 'partition')} led here, "
            f"which continue without it: {named(found)}"
            for node_id, found in sorted(self._left.items())
        ]
        self._joined.clear()
        self._left.clear()
        return joined, left
