"""Which records share a batch, and when a batch goes out."""

from __future__ import annotations

from dataclasses import replace

from ottla.client.records.producer_record import item_size_bytes
from ottla.client.records.row_runs import RowRun, ValueRows
from ottla.client.sending.accumulator import Accumulator, within_one_request
from ottla.client.sending.batch import Batch, BatchPhase
from ottla.client.settings.accumulator_limits import AccumulatorLimits
from ottla.protocol.ids import TopicPartition

FIRST = TopicPartition("t", 0)
SECOND = TopicPartition("t", 1)
LIMITS = AccumulatorLimits(
    batch_bytes=300,
    linger_ms=10,
    memory_bytes_max=1500,
    request_bytes_max=1000,
    delivery_timeout_ms=1000,
    first_window=5,
)
# With overhead 62 bytes, so that three fit into a batch of 300.
VALUE = b"x" * 50


def put(
    accumulator: Accumulator, partition: TopicPartition = FIRST, value: bytes = VALUE, at: float = 0
) -> Batch | None:
    """Append one record."""
    item = (0, None, value, ())
    return accumulator.append(partition, item, item_size_bytes(item), at)


def collect(accumulator: Accumulator, now_ms: float) -> dict[int, list[Batch]]:
    """Batches that leave when broker 1 leads all partitions and has room."""
    return accumulator.collect(now_ms, lambda _: 1, lambda _: True).by_node


def send_all(accumulator: Accumulator, now_ms: float) -> list[Batch]:
    """Let everything that is due depart."""
    sent = []
    while batches := collect(accumulator, now_ms).get(1):
        for batch in batches:
            accumulator.depart(batch, 1)
            sent.append(batch)
    return sent


def test_records_share_a_batch_until_it_is_full() -> None:
    """The next record opens another batch, so a batch never exceeds its size."""
    accumulator = Accumulator(LIMITS)

    batches = [put(accumulator) for _ in range(4)]

    assert batches[0] is batches[1] is batches[2] is not batches[3]
    assert [len(batch.items) for batch in batches if batch] == [3, 3, 3, 1]


def test_an_open_batch_takes_only_what_fits() -> None:
    """A caller that can choose another partition must know before the batch is closed."""
    accumulator = Accumulator(LIMITS)
    item = (0, None, VALUE, ())
    assert accumulator.append_open(FIRST, item, 62) is None
    batch = put(accumulator)

    assert accumulator.append_open(FIRST, item, 62) is batch
    assert accumulator.append_open(FIRST, item, 300) is None
    assert batch is not None
    assert (len(batch.items), batch.phase) == (2, BatchPhase.OPEN)


def test_a_batch_waits_for_the_linger_time_unless_it_is_full() -> None:
    """Full batches gain nothing by waiting; others may still grow."""
    accumulator = Accumulator(LIMITS)
    put(accumulator, at=100)

    assert collect(accumulator, 109) == {}
    assert accumulator.collect(109, lambda _: 1, lambda _: True).wake_ms == 110
    assert len(collect(accumulator, 110)[1]) == 1

    for _ in range(3):
        put(accumulator, SECOND, at=200)
    put(accumulator, SECOND, at=200)
    due = collect(accumulator, 200)[1]
    assert [batch.partition for batch in due] == [FIRST, SECOND]


def test_a_flush_lets_everything_go() -> None:
    """A flush does not wait for the linger time."""
    accumulator = Accumulator(LIMITS)
    put(accumulator, at=100)
    accumulator.flushing += 1

    assert len(collect(accumulator, 100)[1]) == 1


def test_a_request_that_goes_anyway_takes_the_other_partitions_along() -> None:
    """Alone, they would need another request a few milliseconds later."""
    accumulator = Accumulator(LIMITS)
    put(accumulator, FIRST, at=0)
    put(accumulator, SECOND, at=9)

    assert [batch.partition for batch in collect(accumulator, 10)[1]] == [FIRST, SECOND]


def test_full_memory_takes_nothing_until_a_batch_is_resolved() -> None:
    """The bound holds whatever the application sends."""
    accumulator = Accumulator(LIMITS)
    while put(accumulator) is not None:
        assert accumulator.held_bytes <= LIMITS.memory_bytes_max
    held_bytes = accumulator.held_bytes
    assert put(accumulator) is None
    assert accumulator.held_bytes == held_bytes

    (batch,) = collect(accumulator, 0)[1]
    accumulator.depart(batch, 1)
    accumulator.resolve(batch)

    assert put(accumulator) is not None


def test_memory_is_all_free_when_everything_is_resolved() -> None:
    """A leak of a few bytes per batch stops a producer after a day."""
    accumulator = Accumulator(LIMITS)
    for _ in range(10):
        put(accumulator)
        put(accumulator, SECOND)
    accumulator.flushing += 1
    for batch in send_all(accumulator, 0):
        accumulator.resolve(batch)

    assert (accumulator.held_bytes, len(accumulator)) == (0, 0)


def test_short_memory_does_not_linger() -> None:
    """Waiting for records that cannot come in would be waiting for nothing."""
    accumulator = Accumulator(replace(LIMITS, memory_bytes_max=400, batch_bytes=300))
    put(accumulator, at=0)
    put(accumulator, at=0)

    assert accumulator.is_short_of_memory
    assert len(collect(accumulator, 0)[1]) == 1


def test_a_record_larger_than_the_memory_is_taken_when_it_is_alone() -> None:
    """Otherwise it would wait for ever."""
    accumulator = Accumulator(LIMITS)
    assert put(accumulator, value=b"x" * 5000) is not None
    assert put(accumulator) is None


def test_open_batches_take_nothing_of_what_a_caller_waits_for() -> None:
    """While a caller waits for memory, open batches do not grow and linger is disabled; afterwards
    both work as before, or each record would get a batch of its own."""
    accumulator = Accumulator(LIMITS)
    batch = put(accumulator)
    assert batch is not None
    item = (0, None, VALUE, ())

    accumulator.begin_wait(LIMITS.memory_bytes_max - accumulator.held_bytes)
    assert accumulator.append_open(FIRST, item, item_size_bytes(item)) is None
    assert not accumulator.append_value(batch, 0, VALUE)
    assert collect(accumulator, 0) == {1: [batch]}

    accumulator.end_wait()
    assert collect(accumulator, 0) == {}
    assert accumulator.append_open(FIRST, item, item_size_bytes(item)) is batch
    assert accumulator.append_value(batch, 0, VALUE)


def test_many_that_come_together_are_a_batch_of_their_own() -> None:
    """Records of one call are encoded as one batch, in order between earlier and later ones."""
    accumulator = Accumulator(LIMITS)
    put(accumulator)
    rows = ValueRows([VALUE] * 3, 7)
    placed = accumulator.append_part(FIRST, RowRun(rows, 0, 3), 0)
    put(accumulator)

    before, together, after = accumulator.unresolved()
    assert placed == (together, 0)
    assert [batch.record_count for batch in (before, together, after)] == [1, 3, 1]
    assert [batch.phase for batch in (before, together, after)] == [
        BatchPhase.CLOSED,
        BatchPhase.CLOSED,
        BatchPhase.OPEN,
    ]
    assert accumulator.held_bytes == sum(batch.size_bytes for batch in accumulator.unresolved())


def test_a_few_that_come_together_share_the_open_batch() -> None:
    """Many small calls must not make many small batches."""
    accumulator = Accumulator(LIMITS)
    put(accumulator)
    rows = ValueRows([VALUE, None, VALUE], 7)
    placed = accumulator.append_part(FIRST, RowRun(rows, 1, 2), 0)

    (batch,) = accumulator.unresolved()
    assert placed == (batch, 1)
    assert batch.items[1] == (7, None, None, ())
    assert batch.phase is BatchPhase.OPEN
    assert accumulator.held_bytes == batch.size_bytes


def test_a_partition_has_no_more_batches_out_than_its_window() -> None:
    """A broker remembers five batches of a producer; a sixth could be stored twice (T-02)."""
    accumulator = Accumulator(replace(LIMITS, first_window=2))
    for _ in range(12):
        put(accumulator)

    sent = send_all(accumulator, 0)

    assert len(sent) == 2
    accumulator.resolve(sent[0])
    assert len(send_all(accumulator, 0)) == 1


def test_a_batch_that_came_back_goes_before_any_other() -> None:
    """IDM-10: the order of records is the order of their batches, retried or not."""
    accumulator = Accumulator(LIMITS)
    for _ in range(12):
        put(accumulator)
    first, second = send_all(accumulator, 0)[:2]
    queue = accumulator.queue(FIRST)
    queue.return_batch(second, 50)
    queue.return_batch(first, 20)

    assert collect(accumulator, 19) == {}
    assert collect(accumulator, 20)[1] == [first]
    accumulator.depart(first, 1)
    assert collect(accumulator, 49) == {}
    assert collect(accumulator, 50)[1] == [second]


def test_a_partition_never_has_batches_with_two_brokers() -> None:
    """The new leader could append the later one before the old leader's answer says more."""
    accumulator = Accumulator(LIMITS)
    for _ in range(6):
        put(accumulator)
    (batch,) = collect(accumulator, 0)[1]
    accumulator.depart(batch, 1)

    assert accumulator.collect(0, lambda _: 2, lambda _: True).by_node == {}
    accumulator.queue(FIRST).return_batch(batch, 0)
    assert accumulator.collect(0, lambda _: 2, lambda _: True).by_node == {2: [batch]}


def test_partitions_without_leader_are_named_and_wait() -> None:
    """The caller requests their metadata; batches of other partitions are sent meanwhile."""
    accumulator = Accumulator(LIMITS)
    put(accumulator, FIRST, at=0)
    put(accumulator, SECOND, at=0)

    def leader_of(partition: TopicPartition) -> int | None:
        return None if partition == FIRST else 1

    found = accumulator.collect(10, leader_of, lambda _: True)

    assert found.leaderless == {"t"}
    assert [batch.partition for batch in found.by_node[1]] == [SECOND]


def test_a_request_holds_what_fits_and_at_least_one_batch() -> None:
    """A batch larger than the limit still has to go some time."""
    batches = [Batch(FIRST, 0) for _ in range(4)]
    for batch, size_bytes in zip(batches, (900, 600, 100, 50), strict=True):
        batch.size_bytes = size_bytes

    assert within_one_request(batches, 1000) == [batches[0], batches[2]]
    assert within_one_request(batches[:1], 10) == [batches[0]]


def test_partitions_take_turns() -> None:
    """With room for one batch per request, the first partition must not always win."""
    accumulator = Accumulator(replace(LIMITS, request_bytes_max=100))
    for _ in range(3):
        put(accumulator, FIRST)
        put(accumulator, SECOND)
    accumulator.flushing += 1

    order = [batch.partition for batch in send_all(accumulator, 0)]

    assert order == [FIRST, SECOND]


def test_batches_expire_from_the_last_progress_on_where_that_counts() -> None:
    """Over a slow link what waits is not late as long as something arrives."""
    for waits, expiry_ms in ((False, 1005), (True, 1900)):
        accumulator = Accumulator(replace(LIMITS, waits_for_progress=waits))
        put(accumulator, FIRST, at=5)
        accumulator.progress_ms = 900

        assert accumulator.next_expiry_ms() == expiry_ms
        assert accumulator.expired(expiry_ms - 1) == []
        assert len(accumulator.expired(expiry_ms)) == 1


def test_batches_off_the_wire_expire_and_those_on_it_do_not() -> None:
    """A batch in flight may be answered any moment; the request timeout ends it."""
    accumulator = Accumulator(LIMITS)
    put(accumulator, FIRST, at=0)
    put(accumulator, SECOND, at=5)
    (first, second) = send_all(accumulator, 15)
    accumulator.queue(SECOND).return_batch(second, 0)

    assert accumulator.next_expiry_ms() == 1005
    assert accumulator.expired(1004) == []
    assert accumulator.expired(2000) == [second]
    assert first.phase is BatchPhase.IN_FLIGHT


def test_what_is_free_is_left_to_the_one_who_waits_for_room() -> None:
    """Small records would otherwise take every bit of room that a large one waits for."""
    accumulator = Accumulator(LIMITS)
    put(accumulator)
    item = (0, None, VALUE, ())
    size_bytes = item_size_bytes(item)
    accumulator.begin_wait(1_300)
    meanwhile = accumulator.append_open(FIRST, item, size_bytes)
    accumulator.end_wait()

    assert meanwhile is None
    assert accumulator.append_open(FIRST, item, size_bytes) is not None
