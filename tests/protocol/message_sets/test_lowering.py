"""Stored batches become what old consumers read, in pieces and within their limits."""

from __future__ import annotations

import importlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode
from ottla.protocol.message_sets.lowering import DECODED_AT_ONCE_MAX, Lowering, LoweringPlan
from ottla.protocol.message_sets.pieces import CHUNK_BYTES
from ottla.protocol.records.batch import TimestampType
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from ottla.protocol.records.old_messages import OldMessage, iterate_entries, read_any
from tests.protocol.records.old_bytes import Made, message_set, wrapper
from tests.protocol.records.samples import FIRST_TIMESTAMP, quick

legacy: Any = importlib.import_module("kafka.record.legacy_records")
both = pytest.mark.parametrize("magic", [0, 1])
codecs = pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
ENTRIES = [
    (FIRST_TIMESTAMP + 5, b"k", b"v", (("h", b"lost"),)),
    (FIRST_TIMESTAMP, None, b"no key", ()),
    (FIRST_TIMESTAMP + 1, b"gone", None, ()),
    (FIRST_TIMESTAMP + 2, b"", b"", ()),
]


def _batch(base_offset: int = 100, **options: Any) -> bytes:
    return encode_batch(ENTRIES, BatchOptions(base_offset=base_offset, **options))


def _run(data: bytes, **plan: Any) -> Lowering:
    settings = {"from_offset": 0, "max_bytes": 1 << 20, "may_cut": True, **plan}
    lowering = Lowering(
        lambda position, count: data[position : position + count],
        len(data),
        LoweringPlan(**settings),
    )
    while lowering.step():
        pass
    return lowering


@both
@codecs
def test_old_readers_find_offsets_keys_values_and_times(magic: int, codec: Codec) -> None:
    """Headers are lost, and in format 0 the times."""
    lowering = _run(_batch(codec=codec), magic=magic)
    found = list(read_any(lowering.data))

    assert [tuple(each)[:4] for each in found] == [
        (100 + n, each[0] if magic else -1, each[1], each[2]) for n, each in enumerate(ENTRIES)
    ]
    assert all(each.magic == magic for each in iterate_entries(lowering.data))
    assert lowering.next_offset == 104
    assert len(list(iterate_entries(lowering.data))) == (4 if codec is Codec.NONE else 1)
    assert {each.codec for each in iterate_entries(lowering.data)} == {codec}


@both
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP, Codec.SNAPPY])
def test_kafka_python_reads_them(magic: int, codec: Codec) -> None:
    """Its reader of these formats is of their time."""
    records: Any = importlib.import_module("kafka.record.memory_records")
    data = bytes(_run(_batch(codec=codec), magic=magic).data)
    found = []
    batches = records.MemoryRecords(data)
    while batches.has_next():
        found += [(each.offset, each.key, each.value) for each in batches.next_batch()]

    assert found == [(100 + n, each[1], each[2]) for n, each in enumerate(ENTRIES)]


def test_the_append_time_is_kept_in_format_1() -> None:
    """With the bit that says whose time it is."""
    data = _run(_batch(append_time_ms=FIRST_TIMESTAMP + 99), magic=1).data

    assert {each.timestamp for each in read_any(data)} == {FIRST_TIMESTAMP + 99}
    assert {each.timestamp_type for each in iterate_entries(data)} == {
        TimestampType.LOG_APPEND_TIME
    }


@both
def test_markers_are_left_out_and_passed(magic: int) -> None:
    """Old consumers would take them for records; what was aborted they see, as in Kafka."""
    batch = _batch(producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    abort = TransactionMarker(7, 0, ControlType.ABORT, 1)
    marker = encode_marker(abort, FIRST_TIMESTAMP, 104)
    lowering = _run(batch + marker, magic=magic)
    assert [each.offset for each in read_any(lowering.data)] == [100, 101, 102, 103]
    assert lowering.next_offset == 105

    only = _run(marker, magic=magic)
    assert (bytes(only.data), only.next_offset, only.failure) == (b"", 105, None)


@both
def test_messages_before_the_fetched_offset_are_left_out_unless_compressed(magic: int) -> None:
    """As in Kafka: librdkafka relies on the one, and a wrapper is one piece."""
    plain = _run(_batch(), magic=magic, from_offset=102)
    packed = _run(_batch(codec=Codec.GZIP), magic=magic, from_offset=102)

    assert [each.offset for each in read_any(plain.data)] == [102, 103]
    assert [each.offset for each in read_any(packed.data)] == [100, 101, 102, 103]


@both
def test_zstd_is_refused_unless_other_records_come_first(magic: int) -> None:
    """No consumer of these formats has the codec; what it can have it gets."""
    refused = _run(_batch(codec=Codec.ZSTD), magic=magic)
    assert refused.failure is not None
    assert refused.failure.code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE

    before = _run(_batch() + _batch(104, codec=Codec.ZSTD), magic=magic)
    assert before.failure is None
    assert [each.offset for each in read_any(before.data)] == [100, 101, 102, 103]


@both
def test_the_last_message_is_cut_at_the_limit(magic: int) -> None:
    """Consumers before Fetch 3 see from its size that it is torn, and what size it needs."""
    whole = bytes(_run(_batch(), magic=magic).data)
    for limit in range(len(whole) + 10):
        assert _run(_batch(), magic=magic, max_bytes=limit).data == whole[:limit]


@both
def test_without_cuts_the_first_message_is_whole_and_the_last_fits(magic: int) -> None:
    """From Fetch 3 on a consumer can pass whatever is stored (KIP-74)."""
    sizes = [each.size_bytes for each in iterate_entries(_run(_batch(), magic=magic).data)]
    for limit in range(1, sum(sizes) + 10):
        data = _run(_batch(), magic=magic, max_bytes=limit, may_cut=False).data
        count = len(list(iterate_entries(data)))
        assert count == max(1, sum(sum(sizes[: n + 1]) <= limit for n in range(len(sizes))))


def test_what_is_old_enough_stays_as_it_is() -> None:
    """A log may hold all three formats; format 1 is lowered for readers of format 0 alone."""
    made = [Made(n, FIRST_TIMESTAMP + n, b"k", b"v%d" % n) for n in range(3)]
    old, newer = message_set(0, made), wrapper(1, made, Codec.GZIP)

    assert _run(old, magic=0).data == old
    assert _run(old, magic=1).data == old
    assert _run(newer, magic=1).data == newer
    data = bytes(_run(newer, magic=0).data)
    assert data == wrapper(0, made, Codec.GZIP)
    (entry,) = iterate_entries(data)
    assert isinstance(entry, OldMessage)
    assert entry.offset == 2


@quick
@given(
    sizes=st.lists(st.sampled_from([1, 1000, CHUNK_BYTES - 70, CHUNK_BYTES, 3 * CHUNK_BYTES]),
                   min_size=1, max_size=6)
)  # fmt: skip
def test_pieces_of_the_log_are_put_together(sizes: list[int]) -> None:
    """Batches end anywhere in what is read at once, and may be larger than it."""
    data = b"".join(
        encode_batch([(0, None, bytes(size), ())], BatchOptions(base_offset=offset))
        for offset, size in enumerate(sizes)
    )
    lowering = _run(data, magic=1, max_bytes=1 << 30)

    assert [len(each.value or b"") for each in read_any(lowering.data)] == sizes
    assert lowering.next_offset == len(sizes)


@pytest.mark.parametrize("cut", [1, 60, 61, 100])
def test_damage_is_a_failure_and_no_endless_loop(cut: int) -> None:
    """The disk lost the end of what it was said to hold."""
    data = _batch()
    lowering = Lowering(
        lambda position, count: data[position : min(cut, position + count)],
        len(data),
        LoweringPlan(1, 0, 1 << 20, True),
    )
    while lowering.step():
        pass

    assert lowering.failure is not None
    assert lowering.failure.code is ErrorCode.CORRUPT_MESSAGE


def _many(count: int, codec: Codec) -> bytes:
    entries = [(FIRST_TIMESTAMP + n % 7, None, b"%d" % n, ()) for n in range(count)]
    return encode_batch(entries, BatchOptions(base_offset=100, codec=codec))


@both
@pytest.mark.parametrize("codec", [Codec.NONE, Codec.GZIP])
def test_a_batch_of_many_records_is_decoded_part_by_part(magic: int, codec: Codec) -> None:
    """What decodes it at once lets no other thread run for as long as that takes."""
    count = DECODED_AT_ONCE_MAX + 1
    lowering = _run(_many(count, codec), magic=magic, from_offset=100 + count - 1)
    found = [(one.offset, one.value) for one in read_any(lowering.data)]

    wanted = [(100 + n, b"%d" % n) for n in range(count)]
    assert found == (wanted if codec else wanted[-1:])
    (entry,) = iterate_entries(lowering.data)
    latest = FIRST_TIMESTAMP + (6 if codec else (count - 1) % 7)
    assert isinstance(entry, OldMessage)
    assert entry.timestamp == (latest if magic else -1)


@both
def test_no_step_passes_over_more_than_its_part_of_a_batch(magic: int) -> None:
    """A consumer may begin at the last record of a large batch."""
    count = DECODED_AT_ONCE_MAX + 1
    data = _many(count, Codec.NONE)
    plan = LoweringPlan(magic, 100 + count - 1, 1 << 20, may_cut=True)
    lowering = Lowering(lambda position, size: data[position : position + size], len(data), plan)
    steps = 1
    while lowering.step():
        steps += 1

    assert steps > count // 256


@both
def test_no_message_begins_behind_what_is_enough(magic: int) -> None:
    """The message that reaches beyond it is whole; only the consumer's own limit cuts one."""
    whole = _run(_batch(), magic=magic)
    first_bytes = next(iter(iterate_entries(whole.data))).size_bytes
    one = _run(_batch(), magic=magic, enough_bytes=1)
    two = _run(_batch(), magic=magic, enough_bytes=first_bytes + 1)

    assert (len(one.data), one.next_offset) == (first_bytes, 101)
    assert two.next_offset == 102
