"""The quick way of reading single commits says what the general way says, or nothing."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.coordinating.shards_loading import simple_record
from ottla.protocol.records.batch import parse_batch
from ottla.protocol.records.builder import encode_batch
from ottla.protocol.records.record import read_records

SIZES = st.sampled_from([0, 1, 62, 63, 64, 65, 8_190, 8_191, 8_192, 16_384, 20_000])


@given(key=SIZES, value=SIZES, has_header=st.booleans(), prefix=st.integers(0, 3))
def test_the_quick_way_agrees_with_the_general_way(
    key: int, value: int, has_header: bool, prefix: int
) -> None:
    """Sizes around each length of a varint; a wrong offset would be committed for good."""
    headers = (("h", b"v"),) if has_header else ()
    data = bytes(prefix) + encode_batch([(1, b"k" * key, b"v" * value, headers)])
    batch = parse_batch(data, prefix)

    quick = simple_record(batch, data)

    (record,) = read_records(batch)
    assert quick is None or quick == (record.key, record.value)
    is_usual = key < 8_192 and key + value < 8_100 and not has_header
    assert (quick is not None) >= is_usual


@given(position=st.integers(61, 80), byte=st.integers(0, 255))
def test_the_quick_way_never_reads_beyond_the_batch(position: int, byte: int) -> None:
    """Whatever is in the bytes, what comes out lies within them or does not come out."""
    data = bytearray(encode_batch([(1, b"key", b"some value", ())]))
    data[min(position, len(data) - 1)] = byte
    damaged = bytes(data)

    quick = simple_record(parse_batch(damaged), damaged)

    if quick is not None:
        assert quick.value is not None
        assert quick.key in damaged
        assert damaged.endswith(quick.value + b"\0")


def test_nulls_take_the_general_way() -> None:
    """A tombstone is not an empty value."""
    data = encode_batch([(1, b"key", None, ())])

    assert simple_record(parse_batch(data), data) is None
