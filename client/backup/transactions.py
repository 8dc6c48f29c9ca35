"""Follows transactions in a partition's batches, and says which batches a backup is without. Pure.

The leader's batches are stored as they are: also those of transactions that abort later, because
nothing in them says so. A marker further on decides.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.backup.manifest import Stretch
from ottla.protocol.records.control import ControlType, read_control_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from ottla.protocol.records.batch import RecordBatch


class TransactionTrail:
    """The transactions of one partition, from its batches in order.

    ``cuts`` has for some producer ids the offset at which a commit of theirs is too late for this
    backup: in other partitions the same transaction may lie behind the end."""

    def __init__(self, undecided: Iterable[Stretch], cuts: Mapping[int, int]) -> None:
        self._open = {one.producer_id: one.first_offset for one in undecided}
        self._cuts = cuts
        self.aborted: list[Stretch] = []
        self.late: list[Stretch] = []

    def take(self, batch: RecordBatch) -> None:
        """Follow one batch. Raises KafkaError for a damaged marker."""
        if not batch.is_transactional:
            return
        if not batch.is_control:
            self._open.setdefault(batch.producer_id, batch.base_offset)
            return
        kind = read_control_type(batch)
        first = self._open.pop(batch.producer_id, None)
        if first is None or kind is None:
            # A marker without records.
            return
        stretch = Stretch(batch.producer_id, first, batch.base_offset)
        if kind is ControlType.ABORT:
            self.aborted.append(stretch)
        elif batch.base_offset >= self._cuts.get(batch.producer_id, batch.base_offset + 1):
            self.late.append(stretch)

    def undecided(self, end_offset: int) -> tuple[Stretch, ...]:
        """The transactions that are open at this offset."""
        return tuple(
            Stretch(producer_id, first, end_offset) for producer_id, first in self._open.items()
        )


class Sieve:
    """Says of each batch of one partition whether a backup has its records."""

    def __init__(self, left_out: Sequence[Stretch]) -> None:
        self._stretches: dict[int, list[Stretch]] = {}
        for one in left_out:
            self._stretches.setdefault(one.producer_id, []).append(one)

    def keeps(self, batch: RecordBatch) -> bool:
        """Whether the batch has records of the backup: no marker, and of no transaction that the
        backup is without."""
        if batch.is_control:
            return False
        if not batch.is_transactional:
            return True
        return not any(
            one.first_offset <= batch.base_offset < one.end_offset
            for one in self._stretches.get(batch.producer_id, ())
        )
