"""Decides which batches of a fetch the application may see. Pure.

Control batches are never shown. With read_committed, neither are those of aborted transactions: the
broker lists each as (producer id, first offset), and a producer is hidden from that offset until
its ABORT marker (KIP-98). The list must be consumed in offset order, because one producer may have
aborted several times, with committed transactions in between, in one fetch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.records.control import ControlType, read_control_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from ottla.protocol.records.batch import RecordBatch

Aborted = tuple[int, int]
"""A producer id, and the first offset of a transaction that it aborted."""


def by_first_offset(aborted: Aborted) -> int:
    """Return the sort key."""
    return aborted[1]


def visible_batches(
    batches: Iterable[RecordBatch], aborted: Iterable[Aborted] | None
) -> Iterator[tuple[RecordBatch, bool]]:
    """Yield every batch in order, with whether it may be shown.

    None for ``aborted`` is read_uncommitted. Hidden batches are part of the result because the
    position has to pass them. Raises KafkaError for a malformed control batch."""
    pending = sorted(aborted or (), key=by_first_offset)
    next_pending = 0
    hidden: set[int] = set()
    for batch in batches:
        while next_pending < len(pending) and pending[next_pending][1] <= batch.last_offset:
            hidden.add(pending[next_pending][0])
            next_pending += 1
        if batch.is_control:
            if hidden and read_control_type(batch) is ControlType.ABORT:
                hidden.discard(batch.producer_id)
            yield batch, False
        else:
            yield batch, not (batch.is_transactional and batch.producer_id in hidden)
