"""Transactions as a run of the cleaner meets them, from the log's start on. Pure.

Data of an aborted transaction goes. A marker may go only once the log holds no batch of its
transaction any more, not even an empty one: without its end a transaction would be open for ever
after the next rebuild, or aborted data become committed (hazard S-22). Markers are never compared
by key. One of these lasts for a whole run, across all groups of segments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.records.batch import RecordBatch


class Aborted(NamedTuple):
    """A row of the transaction index: the offsets of the first record and of the marker."""

    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class CleanedTransactions:
    """Shown every batch in order, each to one of the two methods."""

    __slots__ = ("_aborted", "_ongoing", "_seen")

    def __init__(self, aborted: Iterable[Aborted]) -> None:
        # In reverse, to be taken from the end.
        self._aborted = sorted(aborted, key=lambda one: -one.first_offset)
        self._ongoing: dict[int, Aborted] = {}
        # Producers of which a batch was met since their last marker.
        self._seen: set[int] = set()

    def is_aborted(self, batch: RecordBatch) -> bool:
        """Whether a data batch belongs to a transaction that was aborted; it has been met now."""
        assert not batch.is_control, "a marker ends a transaction"
        if not batch.is_transactional:
            return False
        self._catch_up(batch.last_offset)
        self._seen.add(batch.producer_id)
        one = self._ongoing.get(batch.producer_id)
        return one is not None and one.first_offset <= batch.base_offset < one.last_offset

    def end(self, batch: RecordBatch) -> tuple[bool, Aborted | None]:
        """A marker was met: whether it ends nothing that is left, and its row in the index.

        The row is needed as long as there is something for it to hide."""
        assert batch.is_control, "data ends no transaction"
        self._catch_up(batch.last_offset)
        row = self._ongoing.get(batch.producer_id)
        if row is not None and row.last_offset <= batch.base_offset:
            del self._ongoing[batch.producer_id]
        if row is not None and row.last_offset != batch.base_offset:
            row = None
        was_seen = batch.producer_id in self._seen
        self._seen.discard(batch.producer_id)
        return not was_seen, row if was_seen else None

    def _catch_up(self, offset: int) -> None:
        while self._aborted and self._aborted[-1].first_offset <= offset:
            one = self._aborted.pop()
            self._ongoing[one.producer_id] = one
