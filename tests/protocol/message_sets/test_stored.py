"""Stored messages of older formats become batches, record for record, at the same offsets."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.message_sets.stored import StoredMessages
from ottla.protocol.records.batch import check_crc, iterate_batches
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.old_messages import iterate_entries, read_any
from tests.protocol.records.old_bytes import LOG_APPEND_TIME, Made, entry, message_set, wrapper
from tests.protocol.records.samples import FIRST_TIMESTAMP, code_of, thorough

_CODECS = [Codec.NONE, Codec.GZIP, Codec.SNAPPY, Codec.LZ4]


def _raised(data: bytes) -> tuple[bytes, int]:
    messages = StoredMessages(lambda at, count: data[at : at + count], len(data))
    return b"".join(messages), messages.position


@st.composite
def logs(draw: st.DrawFn) -> bytes:
    """Entries of all formats and codecs, with the gaps that compaction leaves."""
    data, offset = b"", 0
    for _ in range(draw(st.integers(1, 6))):
        magic = draw(st.integers(0, 2))
        codec = draw(st.sampled_from(_CODECS))
        attributes = LOG_APPEND_TIME if magic == 1 and draw(st.booleans()) else 0
        made = []
        for _ in range(draw(st.integers(1, 5))):
            offset += draw(st.sampled_from([1, 1, 1, 7]))
            value = draw(st.none() | st.binary(max_size=40))
            made.append(Made(offset, FIRST_TIMESTAMP + draw(st.integers(0, 9)), b"k", value))
        if magic == 2:
            entries = [(one.timestamp, one.key, one.value, ()) for one in made]
            data += encode_batch(entries, BatchOptions(codec=codec, base_offset=made[0].offset))
            offset = made[0].offset + len(made) - 1
        elif codec is Codec.NONE:
            data += b"".join(entry(magic, one, attributes) for one in made)
        else:
            data += wrapper(magic, made, codec, attributes)
    return data


@pytest.mark.requirement("FMT-18", "FMT-22")
@thorough
@given(data=logs())
def test_every_record_of_a_mixed_log_is_there_once(data: bytes) -> None:
    """With offset, time, key and value, in the codec and with the kind of time that it had."""
    batches, position = _raised(data)

    assert position == len(data)
    assert list(read_any(batches)) == list(read_any(data))
    assert all(check_crc(one) for one in iterate_batches(batches))
    kinds = {
        (record.offset, one.codec, one.timestamp_type)
        for one in iterate_entries(data)
        for record in read_any(_bytes_of(one))
    }
    assert kinds == {
        (record.offset, one.codec, one.timestamp_type)
        for one in iterate_batches(batches)
        for record in read_any(bytes(one.view))
    }


def _bytes_of(one: object) -> bytes:
    return bytes(getattr(one, "view"))  # noqa: B009 — of both kinds of entry


def test_a_long_run_becomes_several_batches() -> None:
    """A reader that wants one record need not read all."""
    made = [Made(n, FIRST_TIMESTAMP, b"k", bytes(100)) for n in range(3_000)]
    batches = list(iterate_batches(_raised(message_set(1, made))[0]))

    assert len(batches) > 3
    assert sum(one.record_count for one in batches) == 3_000


@pytest.mark.parametrize("magic", [0, 1])
def test_a_torn_end_is_left_for_recovery(magic: int) -> None:
    """Wherever the write was cut."""
    whole = message_set(magic, [Made(n, FIRST_TIMESTAMP, b"k", b"v") for n in range(3)])
    for cut in range(1, len(whole) // 3):
        batches, position = _raised(whole[:-cut])
        assert [record.offset for record in read_any(batches)] == [0, 1]
        assert position == len(whole) * 2 // 3


def test_damage_is_refused() -> None:
    """What is behind it may be whole, so it is not for this code to drop it."""
    data = bytearray(message_set(1, [Made(n, 7, b"k", b"v") for n in range(3)]))
    data[-1] ^= 1

    with pytest.raises(KafkaError) as refused:
        _raised(bytes(data))
    assert code_of(refused.value) is ErrorCode.CORRUPT_MESSAGE
