"""A producer's batches from departure to fate."""

from __future__ import annotations

from dataclasses import replace

from ottla.client.records.producer_record import item_size_bytes
from ottla.client.sending.accumulator import Accumulator
from ottla.client.sending.batch import Batch, BatchPhase
from ottla.client.sending.deliveries import Deliveries, ProducedPartition
from ottla.client.sending.sequences import ProducerIdentity
from ottla.client.sending.verdict import BatchVerdict
from ottla.client.settings.accumulator_limits import AccumulatorLimits
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.compression import Codec
from ottla.wire.backoff import Backoff

FIRST = TopicPartition("t", 0)
LIMITS = AccumulatorLimits(
    batch_bytes=70,
    linger_ms=0,
    memory_bytes_max=1 << 20,
    request_bytes_max=1 << 20,
    delivery_timeout_ms=1e9,
    first_window=1,
)


class Workbench:
    """A producer's state machines without a producer; each record fills a batch, unless larger
    batches are asked for."""

    def __init__(self, batch_bytes: int = LIMITS.batch_bytes) -> None:
        self.accumulator = Accumulator(replace(LIMITS, batch_bytes=batch_bytes))
        self.deliveries = Deliveries(
            self.accumulator, Backoff(1, 1), Codec.NONE, idempotent=True, in_flight_max=5
        )
        self.deliveries.sequences.adopt(ProducerIdentity(7, 0))
        self.now_ms = 0.0
        self.count = 0

    def put(self, count: int = 1) -> None:
        for _ in range(count):
            item = (0, None, b"%d" % self.count, ())
            placed = self.accumulator.append(FIRST, item, item_size_bytes(item), self.now_ms)
            assert placed is not None
            self.count += 1

    def send(self) -> list[Batch]:
        """Everything that may go now."""
        sent: list[Batch] = []
        self.now_ms += 10
        while True:
            found = self.accumulator.collect(self.now_ms, lambda _: 1, lambda _: True)
            if not found.by_node:
                return sent
            for batch in found.by_node[1]:
                assert self.deliveries.depart(batch, 1) is not None
                sent.append(batch)

    def answer(self, batch: Batch, code: ErrorCode = ErrorCode.NONE) -> BatchVerdict:
        return self.deliveries.answered(batch, ProducedPartition(code, 0), self.now_ms, 0.5)

    def establish(self) -> None:
        """Get the first batch acknowledged, which opens the window."""
        self.put()
        (batch,) = self.send()
        self.answer(batch)


def sequences(batches: list[Batch]) -> list[tuple[int, int]]:
    """Epoch and base sequence of each."""
    return [(batch.stamp.producer_epoch, batch.stamp.base_sequence) for batch in batches]


def test_the_first_batch_of_a_producer_goes_alone() -> None:
    """A leader that does not know the producer takes any sequence: were the first refused with
    a second behind it, the second would be stored as if it were the first."""
    bench = Workbench()
    bench.put(4)

    (first,) = bench.send()
    assert bench.send() == []
    bench.answer(first)

    assert len(bench.send()) == 3


def test_a_retry_carries_the_same_bytes() -> None:
    """Another sequence, or the same with other records, would be stored a second time."""
    bench = Workbench()
    bench.establish()
    bench.put()
    (batch,) = bench.send()
    encoded = batch.encoded
    bench.deliveries.connection_lost(batch, bench.now_ms, 0.5, was_sent=True)

    assert bench.send() == [batch]
    assert batch.encoded is encoded


def test_batches_behind_a_refused_one_wait_for_it() -> None:
    """Hazard T-08: they are refused as out of order, which fails none of them."""
    bench = Workbench()
    bench.establish()
    bench.put(3)
    first, second, third = bench.send()

    assert bench.answer(first, ErrorCode.NOT_ENOUGH_REPLICAS) is BatchVerdict.AGAIN
    assert bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is BatchVerdict.AGAIN
    assert bench.answer(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is BatchVerdict.AGAIN

    again = bench.send()
    assert again == [first, second, third]
    assert sequences(again) == [(0, 1), (0, 2), (0, 3)]


def test_after_a_batch_was_given_up_the_next_ones_get_a_new_epoch() -> None:
    """The gap is our own doing, so the record behind it is not lost and must not fail."""
    bench = Workbench()
    bench.establish()
    bench.put(3)
    first, second, third = bench.send()
    bench.answer(first, ErrorCode.MESSAGE_TOO_LARGE)

    assert bench.answer(second, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is BatchVerdict.RENUMBER
    assert bench.send() == []
    bench.answer(third, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    again = bench.send()
    assert again == [second, third]
    assert sequences(again) == [(1, 0), (1, 1)]


def test_a_gap_concerns_only_the_batch_behind_it() -> None:
    """A batch before the gap that is delivered late must not make the gap look like a loss."""
    bench = Workbench()
    bench.establish()
    bench.put(3)
    before, given_up, behind = bench.send()
    bench.answer(before, ErrorCode.NOT_ENOUGH_REPLICAS)
    bench.answer(given_up, ErrorCode.MESSAGE_TOO_LARGE)
    bench.answer(behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert bench.send() == [before, behind]
    bench.answer(before)

    assert bench.answer(behind, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER) is BatchVerdict.RENUMBER
    assert sequences(bench.send()) == [(1, 0)]


def test_nothing_is_renumbered_while_a_batch_is_in_flight() -> None:
    """The one in flight could still be appended under its old number."""
    bench = Workbench()
    bench.establish()
    bench.put(2)
    first, second = bench.send()
    bench.answer(first, ErrorCode.UNKNOWN_PRODUCER_ID)

    assert sequences([first]) == [(0, 1)]
    bench.deliveries.connection_lost(second, bench.now_ms, 0.5, was_sent=True)

    assert sequences(bench.send()) == [(1, 0)]
    bench.answer(first)
    assert sequences(bench.send()) == [(1, 1)]


def test_a_fenced_producer_takes_a_fresh_id_and_begins_alone_again() -> None:
    """The old identity is worthless in this partition; the new one is unknown to the leader."""
    bench = Workbench()
    bench.establish()
    bench.put(3)
    first, *rest = bench.send()
    assert bench.answer(first, ErrorCode.INVALID_PRODUCER_EPOCH) is BatchVerdict.FAILED_AND_FORGET
    for batch in rest:
        bench.deliveries.connection_lost(batch, bench.now_ms, 0.5, was_sent=False)

    assert bench.deliveries.needs_identity
    bench.deliveries.sequences.adopt(ProducerIdentity(8, 0))
    assert [batch.stamp.producer_id for batch in bench.send()] == [8]


def test_a_batch_waits_for_the_producer_id() -> None:
    """An unnumbered batch among numbered ones would look like a retry."""
    bench = Workbench()
    bench.deliveries.sequences.identity = None
    bench.put()
    (batch,) = bench.accumulator.collect(0, lambda _: 1, lambda _: True).by_node[1]

    assert bench.deliveries.depart(batch, 1) is None
    assert batch.phase is not BatchPhase.IN_FLIGHT


def test_a_producer_that_was_forgotten_begins_alone_again() -> None:
    """The leader would take a second batch for the first, were the first refused."""
    bench = Workbench()
    bench.establish()
    bench.put(3)
    first, *rest = bench.send()
    assert bench.answer(first, ErrorCode.UNKNOWN_PRODUCER_ID) is BatchVerdict.RENUMBER
    for batch in rest:
        bench.answer(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)

    assert bench.send() == [first]
    bench.answer(first)
    assert bench.send() == rest
