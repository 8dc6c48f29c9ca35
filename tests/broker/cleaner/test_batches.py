"""What compaction makes of single batches, and its map of keys."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.cleaner.offset_map import KeyMap
from ottla.broker.cleaner.rewrite import empty_batch, placeholder, rewrite
from ottla.broker.cleaner.scan import EXACT_KEY_BYTES_MAX, fingerprint, scan_records
from ottla.broker.cleaner.transactions import Aborted, CleanedTransactions
from ottla.protocol.errors import KafkaError
from ottla.protocol.records.batch import RecordBatch, check_crc, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.record import Record, read_records, record_bytes
from tests.broker.replica.support.batches import data_batch, marker_batch

if TYPE_CHECKING:
    from ottla.protocol.records.record import Entry

TIME = 1_700_000_000_000
UNCHANGED = (
    "base_offset",
    "last_offset_delta",
    "base_sequence",
    "producer_id",
    "producer_epoch",
    "leader_epoch",
    "codec",
    "is_transactional",
)
texts = st.none() | st.binary(max_size=400)
headers = st.lists(st.tuples(st.text(max_size=5), texts), max_size=2).map(tuple)
entries_of_batches = st.lists(
    st.tuples(st.integers(0, 1 << 42), texts, texts, headers), min_size=1, max_size=12
)
codecs = st.sampled_from(list(Codec))


def made(entries: list[Entry], **options: Any) -> RecordBatch:
    settings = BatchOptions(base_offset=1000, leader_epoch=3)._replace(**options)
    return parse_batch(encode_batch(entries, settings))


@given(entries_of_batches, codecs)
def test_the_scan_agrees_with_the_reader_of_records(entries: list[Entry], codec: Codec) -> None:
    """The scan decodes fewer fields, with the same values."""
    batch = made(entries, codec=codec)
    data = record_bytes(batch)

    spans = list(scan_records(batch, data))

    assert [(span.offset_delta, span.timestamp_delta, span.is_tombstone) for span in spans] == [
        (record.offset - 1000, record.timestamp - batch.base_timestamp, record.value is None)
        for record in read_records(batch)
    ]
    assert [span.key for span in spans] == [
        None if key is None else fingerprint(bytes(key)) for _, key, _, _ in entries
    ]
    assert b"".join(data[span.start : span.end] for span in spans) == data


@given(st.binary(max_size=80), st.integers(1, 9))
def test_spoiled_records_are_an_error_and_never_an_endless_loop(data: bytes, count: int) -> None:
    """The checksum of a batch can be right although its writer built malformed records."""
    batch = made([(TIME, b"k", b"v", ())])
    batch.record_count = count
    try:
        spans = list(scan_records(batch, data))
    except KafkaError:
        return
    assert spans[-1].end == len(data)


@given(entries_of_batches, codecs, st.integers(0), st.none() | st.integers(0, 1 << 43))
def test_survivors_keep_everything_but_their_batch(
    entries: list[Entry], codec: Codec, choice: int, horizon_ms: int | None
) -> None:
    """FMT-32, FMT-34: offsets, times, keys, values and headers; the header's fixed fields too."""
    batch = made(
        entries,
        codec=codec,
        producer_id=7,
        producer_epoch=1,
        base_sequence=5,
        is_transactional=True,
    )
    data = record_bytes(batch)
    chosen = [n for n in range(len(entries)) if choice >> n & 1] or [choice % len(entries)]
    spans = list(scan_records(batch, data))

    result = parse_batch(rewrite(batch, data, [spans[n] for n in chosen], horizon_ms))

    records: list[Record] = list(read_records(batch))
    assert list(read_records(result)) == [records[n] for n in chosen]
    assert check_crc(result)
    for name in UNCHANGED:
        assert getattr(result, name) == getattr(batch, name), name
    assert result.has_delete_horizon == (horizon_ms is not None)
    first = records[chosen[0]].timestamp
    assert result.base_timestamp == (first if horizon_ms is None else horizon_ms)
    assert result.max_timestamp == max(records[n].timestamp for n in chosen)


def test_a_horizon_is_not_put_off_by_a_later_cleaning() -> None:
    """KIP-534: the batch that has one keeps it whatever it loses."""
    batch = made([(TIME, b"a", None, ()), (TIME + 5, b"b", None, ())])
    data = record_bytes(batch)
    once = parse_batch(rewrite(batch, data, list(scan_records(batch, data)), TIME + 1000))
    data = record_bytes(once)

    twice = parse_batch(rewrite(once, data, list(scan_records(once, data))[1:], None))

    assert twice.has_delete_horizon
    assert twice.base_timestamp == TIME + 1000
    assert [record.timestamp for record in read_records(twice)] == [TIME + 5]


def test_append_times_stay_those_of_the_broker() -> None:
    """Readers take the batch's largest timestamp for every record."""
    batch = made([(1, b"a", b"1", ()), (2, b"b", b"2", ())], append_time_ms=TIME)
    data = record_bytes(batch)

    result = parse_batch(rewrite(batch, data, list(scan_records(batch, data))[1:], TIME + 9))

    assert [record.timestamp for record in read_records(result)] == [TIME]


def test_an_empty_batch_remembers_its_producer_and_a_placeholder_none() -> None:
    """FMT-33. A placeholder without a producer must not look like an open transaction."""
    batch = made([(TIME, b"a", b"1", ())] * 3, producer_id=7, base_sequence=5, codec=Codec.GZIP)
    empty, nobody = parse_batch(empty_batch(batch)), parse_batch(placeholder(batch))

    for result in (empty, nobody):
        assert check_crc(result)
        assert (result.base_offset, result.last_offset) == (1000, 1002)
        assert (result.record_count, result.codec, result.size_bytes) == (0, Codec.NONE, 61)
        assert list(read_records(result)) == []
    assert (empty.producer_id, empty.last_sequence) == (7, 7)
    assert (nobody.producer_id, nobody.base_sequence) == (-1, -1)


def test_of_one_key_several_times_in_a_batch_the_last_counts() -> None:
    """A producer that batches sends a key's old value and its new one together."""
    entries: list[Entry] = [
        (TIME, b"k", b"old", ()),
        (TIME, b"other", b"x", ()),
        (TIME, b"k", b"new", ()),
    ]
    batch = made(entries)
    keys = KeyMap(1 << 20, 1000)
    assert keys.note(batch, record_bytes(batch))

    superseded = [
        span.key is not None and keys.is_superseded(span.key, 1000 + span.offset_delta)
        for span in scan_records(batch, record_bytes(batch))
    ]

    assert superseded == [True, False, False]


@pytest.mark.parametrize("size", [EXACT_KEY_BYTES_MAX, EXACT_KEY_BYTES_MAX + 1, 5000])
def test_keys_of_any_length_are_told_apart(size: int) -> None:
    """A key that is as long as a digest is not taken for one."""
    one, other = fingerprint(b"x" * size), fingerprint(b"x" * (size - 1) + b"y")

    assert one != other
    assert fingerprint(one) == one or size > EXACT_KEY_BYTES_MAX
    assert fingerprint(fingerprint(b"z" * 5000)) != fingerprint(b"z" * 5000)


def test_the_map_holds_about_what_it_says() -> None:
    """The budget is memory, not a number of keys."""
    keys = KeyMap(1 << 20, 0)
    offset = 0
    while True:
        entries: list[Entry] = [(TIME, b"key-%08d" % (offset + n), b"", ()) for n in range(100)]
        batch = made(entries, base_offset=offset)
        if not keys.note(batch, record_bytes(batch)):
            break
        offset += 100

    assert keys.end_offset == offset
    assert keys.is_full
    assert 4_000 < len(keys) < 12_000
    assert keys.is_superseded(b"key-00000000", -1)
    assert not keys.is_superseded(b"key-00000000", 0)


def test_a_marker_may_go_only_when_nothing_of_its_transaction_was_met() -> None:
    """S-22: an empty batch counts, since a rebuild would open the transaction again."""
    rows = [Aborted(4000, 0, 2, 3), Aborted(4000, 5, 6, 7)]
    seen = CleanedTransactions(rows)

    assert seen.is_aborted(data_batch(0, at=0, transactional=True))
    assert seen.end(marker_batch(2, abort=True)) == (False, rows[0])
    assert not seen.is_aborted(data_batch(1, at=3, transactional=True))
    assert seen.end(marker_batch(4)) == (False, None)
    assert seen.end(marker_batch(6, abort=True)) == (True, None)
    assert seen.end(marker_batch(7)) == (True, None)


def test_an_abort_beyond_what_is_cleaned_is_known_all_the_same() -> None:
    """Its data may lie below the end of the run and its marker above (KAFKA-13727)."""
    seen = CleanedTransactions([Aborted(4000, 3, 900, 901)])

    assert not seen.is_aborted(data_batch(0, at=1, transactional=True))
    assert seen.is_aborted(data_batch(1, at=3, transactional=True))
    assert not seen.is_aborted(data_batch(1, at=3, producer_id=5, transactional=True))
    assert seen.is_aborted(data_batch(2, at=700, transactional=True))
