"""Byte compatibility with two other clients' own record code, both ways and for every codec."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import aiokafka.record.default_records
import pytest
from aiokafka.record._crecords import default_records as aiokafka_compiled
from hypothesis import given
from hypothesis import strategies as st

from ottla.protocol.records.batch import check_crc, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.compression import Codec
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker
from ottla.protocol.records.record import Entry, read_records
from ottla.protocol.records.validation import validate_records
from tests.protocol.records.samples import ENTRIES, batches_of_entries, codecs, quick

with warnings.catch_warnings():
    # It reads its schemas in a way that Python has deprecated.
    warnings.simplefilter("ignore", DeprecationWarning)
    kafka_python = importlib.import_module("kafka.record.default_records")

MODULES: dict[str, Any] = {
    "kafka-python": kafka_python,
    "aiokafka": aiokafka.record.default_records,
    "aiokafka compiled": aiokafka_compiled,
}
foreign = pytest.mark.parametrize("name", MODULES)


def _build(module: Any, entries: list[Entry], codec: int) -> bytes:
    builder = module.DefaultRecordBatchBuilder(2, codec, 1, 99, 3, 17, 1 << 24)
    for offset, (timestamp, key, value, headers) in enumerate(entries):
        builder.append(offset, timestamp, key, value, list(headers))
    return bytes(builder.build())


def _options(codec: Codec) -> BatchOptions:
    return BatchOptions(
        codec=codec, producer_id=99, producer_epoch=3, base_sequence=17, is_transactional=True
    )


def _read(module: Any, data: bytes) -> list[tuple[Any, ...]]:
    batch = module.DefaultRecordBatch(data)
    assert batch.validate_crc()
    return [
        (record.offset, record.timestamp, record.key, record.value, tuple(record.headers))
        for record in batch
    ]


@foreign
@pytest.mark.requirement("FMT-19", "FMT-26")
@quick
@given(entries=batches_of_entries)
def test_uncompressed_batches_are_identical_byte_for_byte(name: str, entries: list[Entry]) -> None:
    """Two independent writers that agree on all bytes leave no room for a third reading."""
    theirs = bytearray(_build(MODULES[name], entries, 0))
    ours = bytearray(encode_batch(entries, _options(Codec.NONE)))
    # They put 0 where Java puts -1: the field is the leader's and outside the checksum.
    theirs[12:16] = ours[12:16]

    assert theirs == ours


@foreign
@pytest.mark.requirement("FMT-24")
@quick
@given(entries=batches_of_entries, codec=codecs)
def test_they_read_what_we_write(name: str, entries: list[Entry], codec: Codec) -> None:
    """A consumer of another client on a topic that our client fills."""
    data = encode_batch(entries, _options(codec))

    assert [record[1:] for record in _read(MODULES[name], data)] == entries


@foreign
@quick
@given(entries=batches_of_entries, codec=codecs, repeat=st.integers(1, 20))
def test_we_read_what_they_write(
    name: str, entries: list[Entry], codec: Codec, repeat: int
) -> None:
    """A producer of another client: header, checksum, records and the broker's deep check."""
    entries = entries * repeat
    batch = parse_batch(_build(MODULES[name], entries, codec))

    assert check_crc(batch)
    assert [record[1:] for record in read_records(batch)] == entries
    assert (batch.producer_id, batch.producer_epoch, batch.base_sequence) == (99, 3, 17)
    assert batch.is_transactional
    assert validate_records(batch).max_timestamp == batch.max_timestamp


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD])
@foreign
def test_large_compressible_batches_really_are_compressed_by_them(name: str, codec: Codec) -> None:
    """Some writers drop a codec that does not help; this one helps, so it is really tested."""
    entries = ENTRIES * 60
    batch = parse_batch(_build(MODULES[name], entries, codec))

    assert batch.codec is codec
    assert [record[1:] for record in read_records(batch)] == entries


@foreign
@pytest.mark.requirement("FMT-29")
def test_they_take_our_markers_for_control_batches(name: str) -> None:
    """A marker read as data would reach an application."""
    data = encode_marker(TransactionMarker(5, 1, ControlType.ABORT, 2), 1000)
    batch = MODULES[name].DefaultRecordBatch(data)

    assert batch.is_control_batch
    assert batch.validate_crc()
    assert len(list(batch)) == 1
