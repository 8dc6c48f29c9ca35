"""A producer's batches against a partition whose answers get lost: none is stored twice."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ottla.client.sending.batch import Batch, BatchPhase
from ottla.client.sending.verdict import BatchVerdict
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.batch import parse_batch
from tests.client.sending.test_deliveries import FIRST, LIMITS, Workbench
from tests.client.support.toy_log import ToyPartition


class Wire(Workbench):
    """The workbench with a partition behind it, whose answers may get lost."""

    def __init__(self, batch_bytes: int = LIMITS.batch_bytes) -> None:
        super().__init__(batch_bytes)
        self.partition = ToyPartition(1)
        # More records in a batch are too large; asked before anything else, as in Kafka.
        self.limit = 1_000
        self.failed: set[bytes] = set()
        # In flight: (batch, what the broker answered or None if it never saw it).
        self.on_wire: list[tuple[Batch, ErrorCode | None]] = []

    def transmit(self, refusal: ErrorCode | None) -> None:
        for batch in self.send():
            assert batch.encoded is not None
            code = refusal
            if code is None and batch.record_count > self.limit:
                code = ErrorCode.MESSAGE_TOO_LARGE
            elif code is None:
                code, _ = self.partition.append(bytes(batch.encoded))
            self.on_wire.append((batch, code))

    def receive(self) -> None:
        if self.on_wire:
            batch, code = self.on_wire.pop(0)
            assert code is not None
            self._settle(batch, code)

    def append_and_refuse(self) -> None:
        """The leader takes what comes, and too few others follow in time."""
        before = len(self.on_wire)
        self.transmit(None)
        for index in range(before, len(self.on_wire)):
            batch, code = self.on_wire[index]
            if code is ErrorCode.NONE:
                self.on_wire[index] = batch, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND

    def lose_answers(self) -> None:
        """The connection goes: nothing on it is answered, though all of it took effect."""
        lost, self.on_wire = self.on_wire, []
        for batch, _ in lost:
            self.deliveries.connection_lost(batch, self.now_ms, 0.5, was_sent=True)

    def lose_requests(self) -> None:
        """The connection goes before the requests arrive."""
        for batch in self.send():
            self.deliveries.connection_lost(batch, self.now_ms, 0.5, was_sent=True)

    def give_up_oldest(self) -> None:
        """The delivery time of the oldest batch that is off the wire is over."""
        queue = self.accumulator.queue(FIRST)
        if queue.sent and queue.sent[0].phase is BatchPhase.CLOSED:
            self._failed(queue.sent[0])
            self.deliveries.give_up(queue.sent[0])

    def _failed(self, batch: Batch) -> None:
        self.failed.update(value or b"" for _, _, value, _ in batch.items)

    def _settle(self, batch: Batch, code: ErrorCode) -> None:
        verdict = self.answer(batch, code)
        assert verdict is not BatchVerdict.FAILED_AND_RENUMBER, "a loss where nothing was lost"
        if verdict is BatchVerdict.FAILED:
            self._failed(batch)


STEPS = st.lists(
    st.sampled_from(
        [
            "put",
            "put",
            "send",
            "send",
            "receive",
            "receive",
            "lose answers",
            "lose requests",
            "refuse for now",
            "refuse for good",
            "give up",
        ]
    ),
    max_size=60,
)


def play(wire: Wire, steps: list[str]) -> None:
    """All steps, and then undisturbed until everything is settled."""
    wire.establish()
    wire.partition.append(encoded_first())
    for step in steps:
        perform(wire, step)
    for _ in range(200):
        wire.transmit(None)
        while wire.on_wire:
            wire.receive()


@settings(max_examples=400, deadline=None)
@given(STEPS)
def test_whatever_happens_each_record_is_stored_once_and_in_order(steps: list[str]) -> None:
    """The promise of idempotence against every mixture of losses, refusals and time-outs.

    A record that was given up may be stored or not; all others are, exactly once."""
    wire = Wire()
    play(wire, steps)

    stored = [value for value in wire.partition.values() if value is not None]
    assert len(wire.accumulator) == 0
    assert [int(value) for value in stored] == sorted({int(value) for value in stored})
    missing = {b"%d" % number for number in range(wire.count)} - set(stored)
    assert missing <= wire.failed


LIMITED_STEPS = st.lists(
    st.sampled_from(
        [
            *("put", "put many", "send", "send", "receive", "receive", "lose answers"),
            *("lose requests", "refuse for now", "append and refuse", "give up"),
            *("limit 1", "limit 3", "no limit"),
        ]
    ),
    max_size=60,
)


@settings(max_examples=400, deadline=None)
@given(LIMITED_STEPS)
def test_whatever_a_topic_allows_each_record_is_stored_once_and_in_order(steps: list[str]) -> None:
    """Batches are split at any moment, with others in flight behind them, while the limit changes
    and answers are lost (KIP-126). The memory is accounted for to the last byte."""
    wire = Wire(batch_bytes=160)
    play(wire, steps)

    stored = [int(value) for value in wire.partition.values() if value is not None]
    assert (len(wire.accumulator), wire.accumulator.held_bytes) == (0, 0)
    assert stored == sorted(set(stored))
    missing = {b"%d" % number for number in set(range(wire.count)) - set(stored)}
    assert missing <= wire.failed


def test_a_batch_whose_first_try_was_lost_is_split_all_the_same() -> None:
    """Otherwise, on a topic stricter than the producer, a batch would fail if it met a restart."""
    wire = Wire(batch_bytes=160)
    wire.establish()
    wire.partition.append(encoded_first())
    wire.limit = 2
    wire.put(4)
    wire.lose_requests()
    for _ in range(10):
        wire.transmit(None)
        wire.receive()

    assert [int(value or b"") for value in wire.partition.values()] == [0, 1, 2, 3, 4]
    assert not wire.failed


def test_a_batch_that_the_log_took_before_its_limit_was_lowered_is_not_stored_again() -> None:
    """Its halves are out of order there, and under other numbers they would be new records."""
    wire = Wire(batch_bytes=160)
    wire.establish()
    wire.partition.append(encoded_first())
    wire.put(4)
    wire.transmit(None)
    wire.lose_answers()
    wire.limit = 2
    wire.put(1)
    for _ in range(10):
        wire.transmit(None)
        while wire.on_wire:
            wire.receive()

    assert [int(value or b"") for value in wire.partition.values()] == [0, 1, 2, 3, 4, 5]
    assert wire.failed == {b"1", b"2", b"3", b"4"}


def encoded_first() -> bytes:
    """The batch that ``establish`` has had acknowledged, as the broker has stored it."""
    bench = Workbench()
    bench.put()
    (batch,) = bench.send()
    assert batch.encoded is not None
    assert parse_batch(batch.encoded).base_sequence == 0
    return bytes(batch.encoded)


def perform(wire: Wire, step: str) -> None:
    """Perform one step of a story."""
    match step:
        case "put":
            wire.put()
        case "put many":
            wire.put(9)
        case "append and refuse":
            wire.append_and_refuse()
        case "limit 1":
            wire.limit = 1
        case "limit 3":
            wire.limit = 3
        case "no limit":
            wire.limit = 1_000
        case "send":
            wire.transmit(None)
        case "receive":
            wire.receive()
        case "lose answers":
            wire.lose_answers()
        case "lose requests":
            wire.lose_requests()
        case "refuse for now":
            wire.transmit(ErrorCode.NOT_ENOUGH_REPLICAS)
        case "refuse for good":
            wire.transmit(ErrorCode.MESSAGE_TOO_LARGE)
        case "give up":
            wire.give_up_oldest()
