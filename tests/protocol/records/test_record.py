"""Records in, records out; and records that lie."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import check_crc, parse_batch, refresh_crc
from ottla.protocol.records.builder import (
    BatchOptions,
    encode_batch,
    recompress,
)
from ottla.protocol.records.compression import CODECS, Codec
from ottla.protocol.records.record import Entry, Record, read_records
from ottla.protocol.records.validation import record_facts, validate_records
from tests.protocol.records.samples import (
    ENTRIES,
    FIRST_TIMESTAMP,
    ONE_RECORD,
    TRANSACTIONAL,
    batches_of_entries,
    code_of,
    codecs,
    quick,
    sample_batch,
)


def _records(data: bytes) -> list[Record]:
    return list(read_records(parse_batch(data)))


def _batch_of(payload: str, count: int) -> bytes:
    """An uncompressed batch around hand-written records."""
    data = bytearray(ONE_RECORD[:61]) + bytes.fromhex(payload)
    data[8:12] = (len(data) - 12).to_bytes(4)
    data[23:27] = (count - 1).to_bytes(4)
    data[57:61] = count.to_bytes(4)
    refresh_crc(data, 0)
    return bytes(data)


@pytest.mark.requirement("FMT-25", "FMT-26")
def test_single_record_vector() -> None:
    """The smallest batch there is, from bytes and back to the same bytes."""
    assert _records(ONE_RECORD) == [Record(0, FIRST_TIMESTAMP, b"k", b"v", ())]
    assert encode_batch([(FIRST_TIMESTAMP, b"k", b"v", ())]) == ONE_RECORD


@pytest.mark.requirement("FMT-19", "FMT-28")
def test_transactional_vector() -> None:
    """Producer fields, headers, null key, null value, and a timestamp delta."""
    options = BatchOptions(
        producer_id=4000, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    entries: list[Entry] = [
        (FIRST_TIMESTAMP, None, b"hello", (("h", b"1"),)),
        (FIRST_TIMESTAMP + 5, b"key", None, ()),
    ]

    assert encode_batch(entries, options) == TRANSACTIONAL
    assert _records(TRANSACTIONAL) == [
        Record(0, FIRST_TIMESTAMP, None, b"hello", (("h", b"1"),)),
        Record(1, FIRST_TIMESTAMP + 5, b"key", None, ()),
    ]


@pytest.mark.requirement("FMT-24", "FMT-37")
@quick
@given(entries=batches_of_entries, codec=codecs)
def test_round_trip_of_any_records(entries: list[Entry], codec: Codec) -> None:
    """Every mixture of nulls, empties, headers and timestamps, through every codec."""
    options = BatchOptions(codec=codec, base_offset=5_000_000_000)
    data = encode_batch(entries, options)

    batch = parse_batch(memoryview(data))
    records = list(read_records(batch))

    assert [record[1:] for record in records] == entries
    assert [record.offset - 5_000_000_000 for record in records] == list(range(len(entries)))
    assert check_crc(batch)
    assert batch.record_count == batch.last_offset_delta + 1 == len(entries)
    assert batch.max_timestamp == max(entry[0] for entry in entries)
    summary = validate_records(batch)
    assert summary.max_timestamp == batch.max_timestamp
    assert summary.min_timestamp == min(entry[0] for entry in entries)
    keyless = [place for place, entry in enumerate(entries) if entry[1] is None]
    assert summary.first_keyless == (keyless[0] if keyless else -1)
    facts = [(fact.timestamp, fact.has_key) for fact in record_facts(batch)]
    assert facts == [(entry[0], entry[1] is not None) for entry in entries]


def test_more_records_than_the_varint_table_holds() -> None:
    """The ready varints end at some record; nothing may change there."""
    data = encode_batch([(place * 3, None, b"%d" % place, ()) for place in range(10_000)])

    assert _records(data) == [
        Record(place, place * 3, None, b"%d" % place) for place in range(10_000)
    ]


@pytest.mark.requirement("FMT-28")
def test_headers_keep_order_and_duplicates() -> None:
    """Tracing systems put the same header twice and read the last one (KIP-82)."""
    headers = (("b", b"1"), ("a", None), ("b", b""), ("", b"empty key"), ("b", b"1"))

    (record,) = _records(encode_batch([(1, b"", b"", headers)]))

    assert record.headers == headers


def test_header_key_that_is_not_utf8_survives_a_round_trip() -> None:
    """One client's bad bytes must neither stop a consumer nor be changed by it."""
    data = _batch_of("1200000001010202ff00", 1)

    (record,) = _records(data)

    assert encode_batch([record[1:]], BatchOptions()) != ONE_RECORD
    assert record.headers == (("\udcff", b""),)
    (again,) = _records(encode_batch([record[1:]]))
    assert again.headers == record.headers


def test_records_take_the_append_time() -> None:
    """With LogAppendTime the header's maximum is every record's timestamp (KIP-32)."""
    data = encode_batch(ENTRIES, BatchOptions(append_time_ms=42))

    assert {record.timestamp for record in _records(data)} == {42}


@pytest.mark.parametrize("codec", CODECS)
def test_batch_without_records_is_empty(codec: Codec) -> None:
    """Compaction keeps empty batches that remember a producer's sequence (FMT-33)."""
    data = bytearray(encode_batch([]))
    data[22] = codec
    refresh_crc(data, 0)

    assert _records(bytes(data)) == []


BAD_PAYLOADS = {
    # What follows is: length, attributes, timestamp delta, offset delta, key, value, headers.
    "record longer than the batch": ("12000000026b027600", 1),
    "record shorter than its fields": ("0e000000026b027600", 1),
    "negative record length": ("01000000026b027600", 1),
    "negative key size": ("10000000036b027600", 1),
    # Going back over its own offset delta, it would end where its length says.
    "negative key size that adds up": ("0c008000020300", 1),
    "negative value size": ("10000000026b037600", 1),
    "key beyond the record": ("10000000fe6b027600", 1),
    "negative header count": ("10000000026b027601", 1),
    "more headers than bytes": ("10000000026b0276ff01", 1),
    "header without a key": ("16000000026b0276020100", 1),
    "header value with size -2": ("14000000026b0276020003", 1),
    "endless varint": ("ff" * 20, 1),
    "fewer records than counted": ("10000000026b027600", 2),
    "more records than counted": ("10000000026b027600" * 2, 1),
    "bytes after the last record": ("10000000026b02760000", 1),
    "cut in a size": ("1000000080", 1),
    "more records than bytes": ("10000000026b027600", 2**31 - 1),
    "no records where some are counted": ("", 3),
}


@pytest.mark.parametrize("name", BAD_PAYLOADS)
def test_records_that_contradict_themselves_are_corrupt(name: str) -> None:
    """S-31: each is one step from a valid batch, with a checksum that holds."""
    data = _batch_of(*BAD_PAYLOADS[name])
    assert check_crc(parse_batch(data))

    with pytest.raises(KafkaError) as raised:
        _records(data)
    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE
    with pytest.raises(KafkaError) as raised:
        validate_records(parse_batch(data))
    assert code_of(raised.value) is ErrorCode.INVALID_RECORD


@pytest.mark.parametrize("count", [4, 2**31 - 1])
def test_a_count_that_the_bytes_cannot_hold_is_refused_before_the_first_record(count: int) -> None:
    """A caller that iterates would have used some records of a damaged batch, and a list with room
    for the count would have two thousand million places."""
    batch = parse_batch(encode_batch([(1, None, None, ())] * 3))
    batch.record_count = count

    with pytest.raises(KafkaError, match=f"21 bytes cannot hold {count} records"):
        read_records(batch)


@pytest.mark.parametrize(
    "payload",
    ["12000000026b067600", "16000000026b0276020208ff", "1e000000026b027602026108ffff"],
)
def test_a_field_cut_short_by_the_end_is_never_handed_out(payload: str) -> None:
    """Slices end silently where the data ends; no caller must get the shorter value."""
    data = _batch_of(payload, 1)

    with pytest.raises(KafkaError):
        next(read_records(parse_batch(data)))


@pytest.mark.parametrize("payload", ["10000002026b027600", "10000001026b027600"])
def test_produced_offsets_must_follow_one_another(payload: str) -> None:
    """Gaps are for compaction only; a producer that leaves some hides its count."""
    with pytest.raises(KafkaError) as raised:
        validate_records(parse_batch(_batch_of(payload, 1)))

    assert code_of(raised.value) is ErrorCode.INVALID_RECORD


def test_count_must_match_the_last_offset_delta() -> None:
    """The next offset comes from the delta, the records from the count: both or neither."""
    data = bytearray(ONE_RECORD)
    data[26] = 1
    refresh_crc(data, 0)

    with pytest.raises(KafkaError) as raised:
        validate_records(parse_batch(data))

    assert code_of(raised.value) is ErrorCode.INVALID_RECORD


def test_validation_keeps_the_code_for_too_large() -> None:
    """Java's producer splits a batch that is too large and tries again."""
    with pytest.raises(KafkaError) as raised:
        validate_records(parse_batch(sample_batch(Codec.ZSTD)), 1_000)

    assert code_of(raised.value) is ErrorCode.MESSAGE_TOO_LARGE


def test_gaps_that_compaction_left_are_read() -> None:
    """Consumers get offsets from the deltas, whatever is missing between them."""
    data = _batch_of("10000002026b02760010000008026b027600", 2)

    assert [record.offset for record in _records(data)] == [1, 4]


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("stored", CODECS)
def test_recompressing_keeps_everything_but_the_codec(codec: Codec, stored: Codec) -> None:
    """``compression.type`` of a topic rewrites the payload and nothing a client looks at."""
    options = BatchOptions(
        codec=stored,
        producer_id=7,
        producer_epoch=1,
        base_sequence=9,
        is_transactional=True,
        append_time_ms=77,
    )
    before = parse_batch(encode_batch(ENTRIES, options))

    after = parse_batch(recompress(before, codec))

    assert after.codec is codec
    assert check_crc(after)
    assert list(read_records(after)) == list(read_records(before))
    for name in ("base_offset", "producer_id", "base_sequence", "max_timestamp", "record_count"):
        assert getattr(after, name) == getattr(before, name)
    assert after.is_transactional


@pytest.mark.requirement("FMT-38")
@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
def test_compressing_the_batch_beats_compressing_single_messages(codec: Codec) -> None:
    """The reason why a batch is compressed as a whole: what repeats, repeats across records."""
    entries: list[Entry] = [
        (
            FIRST_TIMESTAMP + number,
            None,
            json.dumps(
                {
                    "user_id": 1000 + number % 50,
                    "action": "page_view",
                    "page": f"/articles/{number % 20}",
                    "user_agent": "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36",
                    "country": "NL",
                }
            ).encode(),
            (),
        )
        for number in range(1_000)
    ]
    options = BatchOptions(codec=codec)

    together = len(encode_batch(entries, options))
    one_by_one = sum(len(encode_batch([entry], options)) for entry in entries)

    assert one_by_one >= 3 * together


def test_entries_may_be_views() -> None:
    """A caller that holds its values in one large buffer need not copy them out."""
    value = memoryview(bytearray(b"some value"))

    (record,) = _records(encode_batch([(1, value[:4], value[5:], ())]))

    assert (record.key, record.value) == (b"some", b"value")
