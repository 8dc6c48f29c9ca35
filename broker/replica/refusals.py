"""Which batch of an idempotent producer was refused last for a reason that passes.

Producers have several requests in flight. One that is refused while the ISR is too small, say,
leaves a gap in the sequence, and what was sent behind it is out of order when it arrives, though
nothing is wrong. librdkafka answers OUT_OF_ORDER_SEQUENCE_NUMBER behind an unfinished request with
a higher producer epoch and new numbers for all that it has not seen acknowledged: a batch among
them that is stored, and whose answer was lost or left the outcome open, is stored twice. So what
comes behind a refused batch is refused for the same reason, and the producer sends all of them
again in order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import NO_PRODUCER_ID

if TYPE_CHECKING:
    from ottla.protocol.records.batch import RecordBatch

# As many batches as a producer has in flight behind one.
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
    # Sequences that were refused only because they came behind it.
    behind: list[int]


class Refusals:
    """Owned by a partition; remembers the latest refusal of each of the last producers."""

    __slots__ = ("_by_producer",)

    def __init__(self) -> None:
        self._by_producer: dict[int, _Refused] = {}

    def note(self, batch: RecordBatch, error: ErrorCode) -> None:
        """The batch is refused, and nothing of it was written."""
        producer_id = batch.producer_id
        if producer_id == NO_PRODUCER_ID or error not in _PASSING:
            return
        known = self._by_producer
        known.pop(producer_id, None)
        known[producer_id] = _Refused(batch.producer_epoch, batch.base_sequence, error, [])
        if len(known) > PRODUCERS_MAX:
            del known[next(iter(known))]

    def error_behind(self, batch: RecordBatch) -> ErrorCode | None:
        """Why a batch that is out of order is refused, if it came behind one that was.

        Once for each batch: what is still out of order when it comes again has lost its
        predecessor for good, and the producer must hear of it."""
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
