"""Transaction markers."""

from __future__ import annotations

import struct

import pytest

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import (
    ControlType,
    TransactionMarker,
    encode_marker,
    read_control_type,
    read_marker,
)
from ottla.protocol.records.record import read_records
from tests.protocol.records.samples import COMMIT_MARKER, FIRST_TIMESTAMP, code_of


def _control_batch(key: bytes | None, value: bytes | None) -> RecordBatch:
    options = BatchOptions(is_control=True, is_transactional=True, producer_id=1)
    return parse_batch(encode_batch([(1, key, value, ())], options))


@pytest.mark.requirement("FMT-29", "FMT-30")
def test_commit_marker_vector() -> None:
    """Bytes that every transactional consumer of every client must understand."""
    marker = TransactionMarker(4000, 0, ControlType.COMMIT, 7)

    assert encode_marker(marker, FIRST_TIMESTAMP, 100, 3) == COMMIT_MARKER
    batch = parse_batch(COMMIT_MARKER)
    assert (batch.is_control, batch.is_transactional) == (True, True)
    assert (batch.base_sequence, batch.last_sequence, batch.record_count) == (-1, -1, 1)
    assert batch.next_offset == 101
    assert read_marker(batch) == marker
    aborted = encode_marker(marker._replace(control_type=ControlType.ABORT), FIRST_TIMESTAMP)
    keys = [
        record.key for one in (COMMIT_MARKER, aborted) for record in read_records(parse_batch(one))
    ]
    assert keys == [bytes.fromhex("00000001"), bytes.fromhex("00000000")]


@pytest.mark.parametrize("control_type", ControlType)
def test_markers_round_trip(control_type: ControlType) -> None:
    """Abort and commit must never be mixed up."""
    marker = TransactionMarker(2**62, 2**15 - 1, control_type, 2**31 - 1)

    batch = parse_batch(encode_marker(marker, 5))

    assert read_marker(batch) == marker
    assert read_control_type(batch) is control_type


@pytest.mark.requirement("FMT-31")
@pytest.mark.parametrize("value", [None, b"", b"\x00\x09", b"any bytes at all, of any length"])
@pytest.mark.parametrize("kind", ControlType)
def test_the_value_does_not_matter_to_who_asks_for_the_type(
    value: bytes | None, kind: ControlType
) -> None:
    """A consumer decides by the key alone; values may change in later versions."""
    assert read_control_type(_control_batch(struct.pack(">hh", 0, kind), value)) is kind


@pytest.mark.parametrize("number", [-1, 2, 3, 6])
def test_other_control_types_are_skipped(number: int) -> None:
    """KRaft's types (2 to 6) mean nothing in a partition's log and must not stop its reader."""
    batch = _control_batch(struct.pack(">hh", 0, number), b"")

    assert read_control_type(batch) is None
    assert read_marker(batch) is None


@pytest.mark.parametrize("key", [None, b"", b"\x00\x00\x00"])
def test_control_record_without_a_whole_key_is_corrupt(key: bytes | None) -> None:
    """Without its key it is unknown how the transaction ended."""
    with pytest.raises(KafkaError) as raised:
        read_control_type(_control_batch(key, b""))

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


def test_marker_without_a_whole_value_is_corrupt_to_the_broker() -> None:
    """The broker fences old coordinators by the epoch in the value."""
    with pytest.raises(KafkaError) as raised:
        read_marker(_control_batch(struct.pack(">hh", 0, 0), b"\x00\x00\x01"))

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE


@pytest.mark.requirement("FMT-29")
def test_control_batch_with_two_records_is_corrupt() -> None:
    """One marker, one offset: everything that counts offsets relies on it."""
    key = struct.pack(">hh", 0, 1)
    options = BatchOptions(is_control=True)
    batch = parse_batch(encode_batch([(1, key, b"", ()), (1, key, b"", ())], options))

    with pytest.raises(KafkaError) as raised:
        read_control_type(batch)

    assert code_of(raised.value) is ErrorCode.CORRUPT_MESSAGE
