"""Finds the moment of a backup at which no transaction is half committed. Pure.

Commit markers of one transaction are written one partition after the other, so ends that are read
one after the other may fall between them, and nothing in a log says which markers belong together.
The coordinators know: a transactional id whose state is the same before the ends were read and
after it, and is not one in which markers are being written, has committed nothing in between. Its
transactions then lie wholly before those ends or wholly after them. An id that was busy is looked
at again in the next round, with the ends of that round.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ottla.client.administration.transaction_requests import TransactionView
    from ottla.protocol.ids import TopicPartition

    Ends = Mapping[TopicPartition, int]
    Views = Mapping[str, TransactionView]

# In these states no marker is on its way.
SETTLED = frozenset({"Empty", "Ongoing", "CompleteCommit", "CompleteAbort", "Dead"})


class Round(NamedTuple):
    """The transactional ids before and after, and the ends that were read in between."""

    before: Views
    ends: Ends
    after: Views


def is_steady(before: TransactionView | None, after: TransactionView | None) -> bool:
    """Whether an id committed nothing between two looks at it."""
    if before is None:
        # One that appeared in between may have committed already.
        return after is None
    if after is None or before.state not in SETTLED:
        return False
    return (before.producer_id, before.producer_epoch, before.state, before.start_time_ms) == (
        after.producer_id,
        after.producer_epoch,
        after.state,
        after.start_time_ms,
    )


class CutSearch:
    """Collects rounds until each transactional id was steady in one of them."""

    def __init__(self) -> None:
        self.is_whole = False
        self.unsteady: frozenset[str] = frozenset()
        self._ends: Ends = {}
        # For each steady id its producer id and the ends of the round.
        self._steady: dict[str, tuple[int, Ends]] = {}

    def take(self, found: Round) -> None:
        """Judge one round. The last one has the ends of the backup."""
        self._ends = found.ends
        names = found.before.keys() | found.after.keys()
        busy = {
            name for name in names if not is_steady(found.before.get(name), found.after.get(name))
        }
        self.is_whole = not busy
        for name in names - busy:
            view = found.before[name]
            known = self._steady.get(name)
            if self.is_whole or known is None or known[0] != view.producer_id:
                self._steady[name] = view.producer_id, found.ends
        self.unsteady = frozenset(busy - self._steady.keys())

    @property
    def ends(self) -> Ends:
        """Where the backup ends."""
        return self._ends

    def cuts(self) -> dict[TopicPartition, dict[int, int]]:
        """For each partition the producer ids whose commits count only up to an offset before the
        end."""
        found: dict[TopicPartition, dict[int, int]] = {}
        for producer_id, ends in self._steady.values():
            if ends is not self._ends:
                for where, end in self._ends.items():
                    found.setdefault(where, {})[producer_id] = ends.get(where, end)
        return found
