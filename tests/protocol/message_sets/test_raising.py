"""What old producers send becomes one sound batch, or is refused as Kafka refuses it."""

from __future__ import annotations

import importlib
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.message_sets.raising import has_no_message, is_message_set, raised
from ottla.protocol.records.batch import check_crc
from ottla.protocol.records.builder import encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import Record, read_records
from tests.protocol.records.old_bytes import LOG_APPEND_TIME, Made, entry, message_set, wrapper
from tests.protocol.records.samples import FIRST_TIMESTAMP, code_of, quick

legacy: Any = importlib.import_module("kafka.record.legacy_records")
both = pytest.mark.parametrize("magic", [0, 1])
_fields = st.none() | st.binary(max_size=100)
rows = st.lists(st.tuples(st.integers(0, 2**60), _fields, _fields), min_size=1, max_size=10)
MADE = [
    Made(40, FIRST_TIMESTAMP, b"k", b"v"),
    Made(41, FIRST_TIMESTAMP + 5, None, b"no key"),
    Made(43, FIRST_TIMESTAMP + 2, b"gone", None),
]


def _refusal(data: bytes) -> ErrorCode:
    with pytest.raises(KafkaError) as refused:
        raised(data)
    return code_of(refused.value)


@pytest.mark.parametrize(
    ("magic", "codec"),
    [*itertools.product((0, 1), (Codec.NONE, Codec.GZIP, Codec.SNAPPY)), (1, Codec.LZ4)],
)
@quick
@given(made=rows)
def test_what_kafka_python_builds_becomes_one_batch(
    magic: int, codec: Codec, made: list[tuple[int, bytes | None, bytes | None]]
) -> None:
    """In the same codec, from offset 0 on; format 0 has no times to keep."""
    builder = legacy.LegacyRecordBatchBuilder(magic, int(codec), 1 << 20)
    for offset, (timestamp, key, value) in enumerate(made):
        builder.append(offset, timestamp, key, value)
    batch = raised(bytes(builder.build()))

    assert check_crc(batch)
    assert (batch.codec, batch.record_count, batch.last_offset_delta) == (
        codec,
        len(made),
        len(made) - 1,
    )
    assert (batch.base_offset, batch.producer_id, batch.base_sequence) == (0, -1, -1)
    assert list(read_records(batch)) == [
        Record(offset, timestamp if magic else -1, key, value)
        for offset, (timestamp, key, value) in enumerate(made)
    ]


@pytest.mark.requirement("FMT-15")
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4])
def test_each_message_of_a_wrapper_gets_an_offset_of_its_own(codec: Codec) -> None:
    """The broker opens the wrapper, ignores the offsets inside and writes a batch of its own."""
    batch = raised(wrapper(0, MADE, codec))
    batch.stamp(700, 3)

    assert [each.offset for each in read_records(batch)] == [700, 701, 702]
    assert [each.value for each in read_records(batch)] == [b"v", b"no key", None]


@both
def test_a_torn_message_at_the_end_is_left_out(magic: int) -> None:
    """Kafka cuts it off as well."""
    whole = message_set(magic, MADE[:2])
    for cut in range(1, len(entry(magic, MADE[2]))):
        batch = raised(whole + entry(magic, MADE[2])[:cut])
        assert batch.record_count == 2, cut


@both
def test_nothing_but_a_torn_message_is_nothing(magic: int) -> None:
    """The caller answers without an append."""
    data = entry(magic, MADE[0])

    assert has_no_message(b"")
    assert has_no_message(data[:-1])
    assert not has_no_message(data)


def test_only_older_formats_are_raised() -> None:
    """Batches go their ordinary way."""
    assert is_message_set(message_set(0, MADE))
    assert is_message_set(message_set(1, MADE))
    assert not is_message_set(encode_batch([(0, b"k", b"v", ())]))
    assert not is_message_set(b"")


@pytest.mark.requirement("FMT-12")
@pytest.mark.parametrize(
    ("magic", "bits"), [(0, 8), (0, 16), (0, 128), (1, 16), (1, 32), (1, 64), (1, 128)]
)
def test_reserved_bits_are_refused_as_corrupt(magic: int, bits: int) -> None:
    """They may mean something one day, and nothing that is known."""
    assert _refusal(entry(magic, MADE[0], bits)) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.requirement("FMT-10")
def test_the_brokers_kind_of_time_is_refused() -> None:
    """A producer that sets it would choose what retention believes."""
    assert _refusal(entry(1, MADE[0], LOG_APPEND_TIME)) is ErrorCode.INVALID_TIMESTAMP
    compressed = wrapper(1, MADE, Codec.GZIP, LOG_APPEND_TIME)
    assert _refusal(compressed) is ErrorCode.INVALID_TIMESTAMP


@both
def test_damage_is_refused_as_corrupt(magic: int) -> None:
    """Clients retry it, which they do not with an invalid record."""
    data = bytearray(entry(magic, MADE[0]))
    data[-1] ^= 1
    assert _refusal(bytes(data)) is ErrorCode.CORRUPT_MESSAGE
    short = entry(magic, MADE[0])[:8] + (3).to_bytes(4) + bytes(20)
    assert _refusal(short) is ErrorCode.CORRUPT_MESSAGE


@both
def test_wrappers_stand_alone(magic: int) -> None:
    """A batch has one codec, and Kafka refuses the same."""
    one = wrapper(magic, MADE, Codec.GZIP)

    assert _refusal(one + one) is ErrorCode.INVALID_RECORD
    assert _refusal(message_set(magic, MADE) + one) is ErrorCode.INVALID_RECORD
    batch = encode_batch([(0, b"k", b"v", ())])
    assert _refusal(message_set(magic, MADE) + batch) is ErrorCode.INVALID_RECORD


@both
def test_a_bomb_stops_at_the_limit(magic: int) -> None:
    """Small messages may stand for gigabytes."""
    data = wrapper(magic, [Made(0, 7, None, bytes(1 << 20))], Codec.GZIP)

    with pytest.raises(KafkaError) as refused:
        raised(data, 1 << 16)
    assert code_of(refused.value) is ErrorCode.MESSAGE_TOO_LARGE
