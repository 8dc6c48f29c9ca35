"""Decides the fate of batches from accumulator, sequences and verdicts. Pure.

The sender asks what to send and reports the result of each request. Connections are unknown here; a
lost one is reported batch by batch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sending.sequences import NO_STAMP, Sequences
from ottla.client.sending.verdict import TOO_LARGE, BatchVerdict, judge, judge_in_transaction
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.builder import BatchOptions, finish_batch
from ottla.protocol.records.codec import encode_entries
from ottla.wire.backoff import Backoff

if TYPE_CHECKING:
    from ottla.client.sending.accumulator import Accumulator
    from ottla.client.sending.batch import Batch
    from ottla.client.sending.partition_queue import PartitionQueue
    from ottla.client.sending.sequences import ProducerIdentity
    from ottla.protocol.records.compression import Codec


# The leader has appended the batch, but too few replicas have it so far.
APPENDED = frozenset({ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND})

# The previous transaction is still being completed, which takes a few round trips between brokers.
# Until then they refuse the first batch of the next one.
WHILE_COMPLETING = Backoff(20, 1_000)


class ProducedPartition(NamedTuple):
    """One partition's part of a produce response.

    ``base_offset`` is -1 if the broker does not report it; ``append_time_ms`` is -1 unless the
    topic uses log append time."""

    code: ErrorCode
    base_offset: int = -1
    append_time_ms: int = -1
    message: str | None = None


class Deliveries:
    """One producer's batches until their fate is decided. Owned by its sender."""

    __slots__ = (
        "_accumulator",
        "_backoff",
        "_codec",
        "_idempotent",
        "_in_flight_max",
        "_transactional",
        "sequences",
    )

    def __init__(
        self,
        accumulator: Accumulator,
        backoff: Backoff,
        codec: Codec,
        *,
        idempotent: bool,
        in_flight_max: int,
        transactional: bool = False,
    ) -> None:
        assert idempotent or not transactional
        self._accumulator = accumulator
        self._backoff = backoff
        self._codec = codec
        self._idempotent = idempotent
        self._in_flight_max = in_flight_max
        self._transactional = transactional
        self.sequences = Sequences()

    @property
    def needs_identity(self) -> bool:
        """Whether batches may have to wait for a producer id."""
        return self._idempotent and self.sequences.identity is None

    def begin_epoch(self, identity: ProducerIdentity) -> None:
        """Number all later batches under this identity. No batch is unresolved."""
        self.sequences.begin(identity)
        self._accumulator.begin_epoch()

    def depart(self, batch: Batch, node_id: int) -> bytearray | None:
        """Number and encode a batch for that broker; return its bytes, or None if it has to wait
        for a producer id.

        A batch keeps its number until it is resolved: the same records under another number would
        be appended a second time. Raises TypeError, ValueError or OverflowError for records that
        cannot be encoded; the batch then stays queued."""
        is_new = self._idempotent and batch.stamp == NO_STAMP
        sequences = self.sequences
        if is_new and sequences.identity is None and not sequences.has_identity(batch.partition):
            return None
        encoded = None
        if batch.encoded is None:
            # Before the batch is numbered: records that cannot be encoded leave no gap.
            part = batch.part
            encoded = encode_entries(batch.items) if part is None else part.encode()
        if is_new:
            batch.stamp = sequences.assign(batch.partition, batch.record_count)
        if encoded is not None:
            producer_id, producer_epoch, base_sequence = batch.stamp
            options = BatchOptions(
                codec=self._codec,
                producer_id=producer_id,
                producer_epoch=producer_epoch,
                base_sequence=base_sequence,
                is_transactional=self._transactional,
            )
            batch.encoded = finish_batch(encoded, options)
        queue = self._accumulator.depart(batch, node_id)
        if is_new:
            batch.follows_gap, queue.ends_in_gap = queue.ends_in_gap, False
        return batch.encoded

    def answered(
        self, batch: Batch, answer: ProducedPartition, now_ms: float, chance: float
    ) -> BatchVerdict:
        """Take a broker's answer for the batch, which is resolved unless the verdict is a retry.

        ``chance`` is uniform in [0, 1)."""
        if answer.code is ErrorCode.NONE:
            return self._delivered(batch)
        queue = self._accumulator.queue(batch.partition)
        batch.last_answer = answer.code
        batch.outcome_unknown = batch.outcome_unknown or answer.code in APPENDED
        verdict = self._judge(batch, queue, answer.code)
        match verdict:
            case BatchVerdict.DELIVERED:
                return self._delivered(batch)
            case BatchVerdict.AGAIN | BatchVerdict.AGAIN_ELSEWHERE:
                is_busy = answer.code is ErrorCode.CONCURRENT_TRANSACTIONS
                backoff = WHILE_COMPLETING if is_busy else self._backoff
                delay_ms = backoff.delay_ms(batch.attempts, chance)
                queue.return_batch(batch, now_ms + delay_ms)
            case BatchVerdict.SPLIT:
                self._accumulator.split(batch)
            case BatchVerdict.RENUMBER:
                queue.return_batch(batch, now_ms)
                queue.restarting = True
                if answer.code is ErrorCode.UNKNOWN_PRODUCER_ID:
                    # As with a new producer, the broker would take any sequence for the first.
                    queue.window = 1
            case BatchVerdict.FAILED:
                self._give_up(queue, batch)
            case BatchVerdict.FAILED_AND_RENUMBER:
                self._give_up(queue, batch)
                queue.restarting = True
            case BatchVerdict.FAILED_AND_FORGET:
                self._give_up(queue, batch)
                self.sequences.forget(batch.partition)
                queue.restarting = True
                queue.window = 1
        self._restart_if_quiet(queue)
        return verdict

    def _delivered(self, batch: Batch) -> BatchVerdict:
        queue = self._accumulator.resolve(batch)
        queue.window = self._in_flight_max
        self._restart_if_quiet(queue)
        return BatchVerdict.DELIVERED

    def _judge(self, batch: Batch, queue: PartitionQueue, code: ErrorCode) -> BatchVerdict:
        is_oldest = queue.is_oldest(batch)
        if code in TOO_LARGE and batch.record_count > 1:
            return BatchVerdict.SPLIT
        if (
            code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            and batch.is_part_of_unknown
            and is_oldest
        ):
            # The log has the whole batch, from before the topic's limit was lowered, at an unknown
            # offset; its records must not be sent again under other numbers.
            return BatchVerdict.FAILED
        if self._transactional:
            return judge_in_transaction(code, is_oldest=is_oldest)
        return judge(
            code,
            is_numbered=batch.is_numbered,
            is_oldest=is_oldest,
            follows_gap=batch.follows_gap,
        )

    def connection_lost(
        self, batch: Batch, now_ms: float, chance: float, *, was_sent: bool
    ) -> None:
        """Queue the batch again after a lost connection, with its number: a broker that has it
        reports a duplicate.

        A batch without a number that was sent may be appended twice; acks without idempotence allow
        that, and Kafka's own retries do the same."""
        queue = self._accumulator.queue(batch.partition)
        batch.outcome_unknown = batch.outcome_unknown or was_sent
        queue.return_batch(batch, now_ms + self._backoff.delay_ms(batch.attempts, chance))
        self._restart_if_quiet(queue)

    def sent_for_good(self, batch: Batch) -> None:
        """Resolve a batch that was sent with acks=0: no answer will come."""
        self._accumulator.resolve(batch)

    def give_up(self, batch: Batch) -> None:
        """Drop a batch that ran out of time, or whose topic is gone, while it is not in flight."""
        queue = self._accumulator.queue(batch.partition)
        self._give_up(queue, batch)
        self._restart_if_quiet(queue)

    def _give_up(self, queue: PartitionQueue, batch: Batch) -> None:
        if batch.is_numbered:
            queue.leave_gap(batch)
        self._accumulator.resolve(batch)

    def _restart_if_quiet(self, queue: PartitionQueue) -> None:
        """Renumber once no batch is in flight.

        Before that, a later batch could still be appended under its old number:

        1. Batches 5 and 6 are in flight and 5 is refused as out of order.
        2. 6 would be renumbered and sent again.
        3. The answer to the first 6 is on its way and says that it was appended."""
        if queue.restarting and queue.in_flight_count == 0:
            queue.take_numbers_back()
            self.sequences.restart(queue.partition)
