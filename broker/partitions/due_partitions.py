"""Which partitions the chores have to look at: each is noted when something happens to it.

What is done several times a second for all of thousands of partitions, of which nearly all are at
rest, costs more than everything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.log.directories.directories import LogDirectories
    from ottla.broker.partitions.partition import PartitionRuntime

    Find = Callable[[str, int], PartitionRuntime | None]


class DuePartitions:
    """Owned by the partitions. ``find``: the one that is served here now."""

    def __init__(self, find: Find) -> None:
        self._find = find
        self._transactional: dict[PartitionRuntime, None] = {}

    def admit(self, one: PartitionRuntime) -> None:
        """The broker serves it from now on; earlier changes of its log were not noted."""
        one.log.home.to_flush[one.log] = None
        noted = self._transactional
        noted[one] = None
        one.replica.history.producers.transactions.on_begin = lambda: noted.update({one: None})

    def to_flush(self, logs: LogDirectories) -> Iterator[PartitionRuntime]:
        """Those that may have something to flush; logs note themselves when they have more."""
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
        """Look how long transactions have been open, where there are any."""
        for one in list(self._transactional):
            transactions = one.replica.history.producers.transactions
            one.ages.look(transactions.open_transactions, now_ms)
            if one.ages.is_empty or one.log.refusal is not None:
                self._transactional.pop(one, None)
