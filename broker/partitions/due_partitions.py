"""Tracks the partitions that periodic chores have to check.

Checking thousands of mostly idle partitions several times a second would dominate the load, so each
partition is added when something happens to it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.partitions.partition import PartitionRuntime

    Find = Callable[[str, int], PartitionRuntime | None]


class HostedPartitions(dict[tuple[str, int], "PartitionRuntime"]):
    """The partitions of this broker, with an index by topic."""

    def __init__(self) -> None:
        super().__init__()
        self._by_topic: dict[str, dict[int, PartitionRuntime]] = {}

    def __setitem__(self, item: tuple[str, int], runtime: PartitionRuntime) -> None:
        super().__setitem__(item, runtime)
        self._by_topic.setdefault(item[0], {})[item[1]] = runtime

    def __delitem__(self, item: tuple[str, int]) -> None:
        super().__delitem__(item)
        of_topic = self._by_topic[item[0]]
        del of_topic[item[1]]
        if not of_topic:
            del self._by_topic[item[0]]

    def of_topic(self, topic: str) -> list[PartitionRuntime]:
        """Return the partitions of a topic on this broker."""
        return list(self._by_topic.get(topic, {}).values())


class DuePartitions:
    """Owned by the partitions. ``find`` returns the partition that is served here now."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._transactional: dict[PartitionRuntime, None] = {}

    def admit(self, one: PartitionRuntime) -> None:
        """Add a partition that is served from now on; earlier changes were not tracked."""
        one.log.home.to_flush[one.log] = None
        noted = self._transactional
        noted[one] = None
        one.replica.history.producers.transactions.on_begin = lambda: noted.update({one: None})

    def to_flush(self, logs: LogDirectories) -> Iterator[PartitionRuntime]:
        """Return the partitions that may need a flush; logs add themselves again."""
        for directory in logs.online:
            noted = directory.home.to_flush
            for log in list(noted):
                found = self._find(*log.partition)
                if found is None and log.refusal is None:
                    # It is not served yet.
                    continue
                noted.pop(log, None)
                if found is not None and found.log is log:
                    yield found

    def note_transactions(self, now_ms: float) -> None:
        """Update the ages of open transactions."""
        for one in list(self._transactional):
            transactions = one.replica.history.producers.transactions
            one.ages.look(transactions.open_transactions, now_ms)
            if one.ages.is_empty or one.log.refusal is not None:
                self._transactional.pop(one, None)
