"""Fetched data of a partition, taken piece by piece."""

from __future__ import annotations

import pytest

from ottla.client.fetching.completed_fetch import CompletedFetch, Enough
from ottla.client.fetching.fetch_request import WantedPartition
from ottla.client.settings.config import ConsumerConfig
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.wire.errors import RequestRefused
from tests.protocol.records.old_bytes import Made, message_set, wrapper

WHERE = TopicPartition("t", 0)
CONFIG = ConsumerConfig()


def batch(base_offset: int, count: int) -> bytes:
    """A batch whose values are the offsets of its records."""
    entries = [(0, None, b"%d" % (base_offset + place), ()) for place in range(count)]
    return encode_batch(entries, BatchOptions(base_offset=base_offset))


def completed_of(data: bytes, offset: int = 0, config: ConsumerConfig = CONFIG) -> CompletedFetch:
    """A completed fetch that was asked for from that offset."""
    return CompletedFetch(WantedPartition(WHERE, 1, offset, 1000), memoryview(data), None, config)


def offsets(completed: CompletedFetch, count: int) -> list[int]:
    """Offsets of the next records, which must match their values."""
    records = completed.take(count)
    assert [b"%d" % record.offset for record in records] == [record.value for record in records]
    return [record.offset for record in records]


@pytest.mark.parametrize("step", [1, 2, 3, 4, 5, 100])
def test_records_come_in_order_whatever_the_steps(step: int) -> None:
    """Steps that end inside a batch, at its end, and beyond."""
    completed = completed_of(batch(0, 3) + batch(3, 4) + batch(7, 1))
    found: list[int] = []
    while not completed.is_done:
        taken = offsets(completed, step)
        found += taken
        assert completed.position == (found[-1] + 1 if found else 0)

    assert found == list(range(8))
    assert completed.take(1) == []
    assert completed.next_offset == 8


@pytest.mark.parametrize("start", [0, 1, 2, 3, 6, 7])
def test_records_before_the_wanted_offset_are_left_out(start: int) -> None:
    """A broker sends the whole batch that holds the offset."""
    completed = completed_of(batch(0, 3) + batch(3, 5), start)

    assert offsets(completed, 100) == list(range(start, 8))


def test_a_gap_between_batches_is_passed() -> None:
    """Compaction leaves such gaps; the position has to get over them."""
    completed = completed_of(batch(0, 2) + batch(10, 2))

    assert offsets(completed, 100) == [0, 1, 10, 11]
    assert completed.position == 12


def test_a_batch_cut_at_the_end_is_left_for_the_next_fetch() -> None:
    """NET-31: the size prefix shows that the batch is incomplete, which is no error."""
    completed = completed_of(batch(0, 2) + batch(2, 2)[:-1])

    assert offsets(completed, 100) == [0, 1]
    assert (completed.position, completed.next_offset) == (2, 2)


def test_a_lone_torn_batch_has_no_next_offset() -> None:
    """The missing offset tells the fetcher to ask for more bytes."""
    assert completed_of(batch(0, 2)[:-1]).next_offset is None


def test_what_is_good_before_a_damaged_batch_is_handed_out_first() -> None:
    """The error follows, and the position stays before the damage."""
    damaged = bytearray(batch(2, 2))
    damaged[-1] ^= 1
    completed = completed_of(batch(0, 2) + bytes(damaged) + batch(4, 1))

    assert offsets(completed, 100) == [0, 1]
    for _ in range(2):
        with pytest.raises(RequestRefused) as caught:
            completed.take(100)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    assert completed.position == 2
    assert not completed.is_done


def test_the_checksum_may_be_left_unchecked() -> None:
    """With ``check_crcs`` off the checksum is skipped; records still have to be complete."""
    damaged = bytearray(batch(0, 1))
    damaged[20] ^= 1
    config = ConsumerConfig(check_crc=False)

    assert offsets(completed_of(bytes(damaged), config=config), 1) == [0]


def test_bytes_that_are_no_batch_are_refused() -> None:
    """Reading on at a guess would make records out of noise."""
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        completed_of(b"\xff" * 100)


def test_batches_can_be_taken_after_records() -> None:
    """The rest of a batch that was partly taken as records comes first: no duplicates, no gaps."""
    completed = completed_of(batch(0, 3) + batch(3, 3) + batch(6, 1))
    assert offsets(completed, 1) == [0]

    rest, whole = completed.take_batch(), completed.take_batch()

    assert rest is not None
    assert whole is not None
    assert [record.offset for record in rest.records()] == [1, 2]
    assert (rest.base_offset, rest.next_offset, rest.count) == (1, 3, 2)
    assert (whole.base_offset, whole.next_offset, whole.count) == (3, 6, 3)
    assert completed.position == 6
    assert offsets(completed, 100) == [6]
    assert completed.take_batch() is None


def test_a_bomb_ends_at_the_limit() -> None:
    """A batch of a few bytes may claim to be gigabytes."""
    codec_batch = encode_batch([(0, None, bytes(200_000), ())], BatchOptions(codec=Codec.GZIP))
    config = ConsumerConfig(batch_bytes_max=100_000)

    with pytest.raises(RequestRefused, match="MESSAGE_TOO_LARGE"):
        completed_of(codec_batch, config=config).take(1)


def test_a_batch_of_too_many_objects_is_refused_and_can_be_had_as_columns() -> None:
    """Tens of millions of empty records fit into little; as objects they are gigabytes."""
    data = encode_batch([(0, None, None, ())] * 1_000, BatchOptions(codec=Codec.GZIP))
    config = ConsumerConfig(batch_bytes_max=100_000)

    with pytest.raises(RequestRefused, match="has 1000 records") as raised:
        completed_of(data, config=config).take(10)
    assert raised.value.code is ErrorCode.MESSAGE_TOO_LARGE
    fetched = completed_of(data, config=config).take_batch()
    assert fetched is not None
    with pytest.raises(RequestRefused, match="has 1000 records"):
        fetched.values()
    assert fetched.columns().count == 1_000


def test_columns_hold_on_to_the_bytes_they_were_received_in() -> None:
    """Columns refer to the receive buffer, so it must not be reused while a caller holds them; the
    other batches of the completed fetch stay as they were."""
    values = [bytes([number % 251]) * 100 for number in range(2_000)]
    entries = [(0, None, value, ()) for value in values]
    data = encode_batch(entries[:1_000])
    data += encode_batch(entries[1_000:], BatchOptions(base_offset=1_000))
    buffer = bytearray(data)
    completed = CompletedFetch(WantedPartition(WHERE, 1, 0, 1000), memoryview(buffer), None, CONFIG)

    (first,) = completed.take_columns(1_000)
    (part,) = completed.take_columns(10)
    (rest,) = completed.take_columns(1_000)

    assert [record.value for record in first.records()] == values[:1_000]
    assert [record.value for record in part.records()] == values[1_000:1_010]
    assert [record.value for record in rest.records()] == values[1_010:]
    with pytest.raises(BufferError):
        buffer.pop()


def test_small_batches_share_a_table_and_a_large_one_has_its_own() -> None:
    """Joining copies; what is large enough by itself was copied for a few records before it."""
    completed = completed_of(batch(0, 3) + batch(3, 4) + batch(7, 100) + batch(107, 2))
    enough = Enough(1_000, len(batch(7, 100)))

    tables = []
    while parts := completed.take_columns(1_000, enough):
        tables.append([part.count for part in parts])

    assert tables == [[3, 4], [100], [2]]


@pytest.mark.parametrize("lost_bytes", [0, 5])
@pytest.mark.parametrize("start", [0, 2, 4, 7])
def test_messages_of_older_formats_are_read_too(start: int, lost_bytes: int) -> None:
    """A log that keeps them sends them as they are, among batches; the last may be torn."""
    made = [Made(n, 0, None, b"%d" % n) for n in range(12)]
    data = (
        batch(0, 2)
        + wrapper(1, made[2:5], Codec.GZIP)
        + message_set(1, made[5:7])
        + batch(7, 2)
        + message_set(0, made[9:10])
        + message_set(1, made[10:12])
    )
    completed = completed_of(data[: len(data) - lost_bytes], start)

    assert offsets(completed, 100) == list(range(start, 12 - bool(lost_bytes)))


def test_a_single_short_message_is_not_passed_over() -> None:
    """It is smaller than the header of a batch."""
    completed = completed_of(message_set(1, [Made(0, 0, None, b"0")]))

    assert offsets(completed, 1) == [0]
