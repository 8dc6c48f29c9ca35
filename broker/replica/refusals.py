"""Remembers the last batch of each idempotent producer that was refused for a temporary reason.

Producers have several requests in flight. A request that is refused, for instance while the ISR is
too small, leaves a gap in the sequence, and the batches behind it are out of order, though the
producer is correct. On OUT_OF_ORDER_SEQUENCE_NUMBER behind an unfinished request, librdkafka raises
the producer epoch and renumbers all unacknowledged batches: one that is stored, but whose response
was lost or left the outcome open, is stored twice. So batches behind a refused one get the same
error, and the producer sends all of them again in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch

# The number of batches that a producer may have in flight behind one.
BEHIND_MAX = 5
PRODUCERS_MAX = 1_000
_SEQUENCES = 1 << 31
_PASSING = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.KAFKA_STORAGE_ERROR,
    }
)


@dataclass(slots=True)
class _Refused:
    producer_epoch: int
    base_sequence: int
    error: ErrorCode
    # Sequences that were refused only because an earlier batch was refused.
    behind: list[int]


class Refusals:
    """The latest refusal of each of the most recent producers; owned by a partition."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refused] = {}

    def note(self, batch: RecordBatch, error: ErrorCode) -> None:
        """Remember a batch that was refused and not written."""
        producer_id = batch.producer_id
        if producer_id == NO_PRODUCER_ID or error not in _PASSING:
            return
        known = self._by_producer
        known.pop(producer_id, None)
        known[producer_id] = _Refused(batch.producer_epoch, batch.base_sequence, error, [])
        if len(known) > PRODUCERS_MAX:
            del known[next(iter(known))]

    def error_behind(self, batch: RecordBatch) -> ErrorCode | None:
        """The error for an out-of-order batch behind a refused one; None if there is none.

        Only once per batch: if it is still out of order when it is resent, its predecessor is lost
        for good, and the producer must get the real error."""
        refused = self._by_producer.get(batch.producer_id)
        if refused is None or refused.producer_epoch != batch.producer_epoch:
            return None
        distance = (batch.base_sequence - refused.base_sequence) % _SEQUENCES
        behind = refused.behind
        if (
            not 0 < distance < _SEQUENCES // 2
            or batch.base_sequence in behind
            or len(behind) == BEHIND_MAX
        ):
            return None
        behind.append(batch.base_sequence)
        return refused.error
