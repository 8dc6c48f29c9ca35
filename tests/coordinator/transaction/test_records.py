"""Keys and values of the transaction log."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.coordinator.effects import LogRecord
from ottla.coordinator.failures import Skipped
from ottla.coordinator.transaction.metadata import TransactionMetadata
from ottla.coordinator.transaction.records import (
    StoredTransaction,
    TransactionLogValue,
    decode_key,
    decode_record,
    decode_value,
    encode_key,
    encode_value,
    state_record,
    tombstone,
)
from ottla.coordinator.transaction.states import STORED_STATES, TransactionState
from ottla.protocol.compile import encode
from ottla.protocol.errors import RemoteProtocolError
from ottla.protocol.ids import TopicPartition
from tests.coordinator.transaction.scene import A0, A1, B0, WALL_MS

KEY = bytes.fromhex("0000000374786e")
EMPTY = TransactionMetadata(1_000, 0, 60_000, last_update_wall_ms=WALL_MS)
ONGOING = TransactionMetadata(
    1_000,
    5,
    60_000,
    TransactionState.ONGOING,
    frozenset({A0, A1, B0}),
    last_update_wall_ms=WALL_MS + 1,
    start_wall_ms=WALL_MS,
)
BUMPING = ONGOING._replace(client_version=2, previous_producer_id=1_000)
PREPARED = BUMPING._replace(
    producer_epoch=32_767,
    last_producer_epoch=32_766,
    state=TransactionState.PREPARE_COMMIT,
    next_producer_id=1_001,
    last_update_wall_ms=WALL_MS + 2,
)
COMPLETE = PREPARED._replace(
    producer_id=1_001,
    producer_epoch=0,
    next_producer_id=-1,
    state=TransactionState.COMPLETE_COMMIT,
    partitions=frozenset(),
    last_update_wall_ms=WALL_MS + 3,
)
# As Apache Kafka 4.1 writes the same values.
VECTORS = {
    "empty": (EMPTY, "000000000000000003e800000000ea6000ffffffff0000018bcfe56800ffffffffffffffff"),
    "ongoing": (
        ONGOING,
        "000000000000000003e800050000ea6001000000020001610000000200000000000000010001620000000100"
        "0000000000018bcfe568010000018bcfe56800",
    ),
    "ongoing, version 2": (
        BUMPING,
        "000100000000000003e800050000ea6001030261030000000000000001000262020000000000000001"
        "8bcfe568010000018bcfe5680002000800000000000003e802020002",
    ),
    "prepared with the last epoch": (
        PREPARED,
        "000100000000000003e87fff0000ea6002030261030000000000000001000262020000000000000001"
        "8bcfe568020000018bcfe5680003000800000000000003e8010800000000000003e902020002",
    ),
    "complete with another producer id": (
        COMPLETE,
        "000100000000000003e900000000ea6004010000018bcfe568030000018bcfe5680002000800000000000003"
        "e802020002",
    ),
}


@pytest.mark.requirement("TXN-06")
@pytest.mark.parametrize(("known", "vector"), VECTORS.values(), ids=VECTORS)
def test_values_have_the_bytes_that_kafka_writes(known: TransactionMetadata, vector: str) -> None:
    """Kafka's tools read this log, and brokers of both kinds may lead it one after the other."""
    assert encode_value(known).hex() == vector
    assert decode_value(bytes.fromhex(vector)) == known


def test_keys_have_the_bytes_that_kafka_writes() -> None:
    """Compaction goes by the bytes of the key."""
    assert encode_key("txn") == KEY
    assert decode_key(KEY) == "txn"


def test_equal_transactions_have_equal_bytes() -> None:
    """Sets have no order; runs that should be equal must be."""
    places = [TopicPartition(topic, number) for topic in "cab" for number in (3, 1, 2)]
    one = ONGOING._replace(partitions=frozenset(places))
    other = ONGOING._replace(partitions=frozenset(reversed(places)))

    assert encode_value(one) == encode_value(other)


_PARTITIONS = st.frozensets(
    st.builds(TopicPartition, st.sampled_from(["a", "b", "ü"]), st.integers(0, 9)), max_size=5
)
_IDS = st.integers(0, 2**63 - 1)


@given(
    st.builds(
        TransactionMetadata,
        producer_id=_IDS,
        producer_epoch=st.integers(-1, 2**15 - 1),
        timeout_ms=st.integers(0, 2**31 - 1),
        state=st.sampled_from(sorted(STORED_STATES)),
        partitions=_PARTITIONS,
        last_update_wall_ms=st.integers(-1, 2**53),
        start_wall_ms=st.integers(-1, 2**53),
        client_version=st.sampled_from([0, 2]),
        previous_producer_id=_IDS,
        next_producer_id=st.integers(-1, 9),
    )
)
def test_what_is_written_is_read_again(known: TransactionMetadata) -> None:
    """The next coordinator knows nothing else. The producer id before this one is kept where it
    can matter, and the epoch before this one where it can be told."""
    if not (known.state is TransactionState.ONGOING or known.state.is_prepared):
        known = known._replace(partitions=frozenset())
    read = decode_value(encode_value(known))

    assert read is not None
    kept = known.previous_producer_id if known.needs_tags else -1
    assert read == known._replace(
        previous_producer_id=kept, last_producer_epoch=read.last_producer_epoch
    )


def test_a_tombstone_deletes_the_id() -> None:
    """Expired ids must not come back."""
    assert decode_record(tombstone("txn"), Skipped()) == StoredTransaction("txn", None)


def test_versions_from_the_future_are_passed_over() -> None:
    """A broker that is taken back to this version must still load its ids."""
    skipped = Skipped()
    kind = LogRecord(b"\0\1" + KEY[2:], encode_value(EMPTY))
    version = LogRecord(KEY, b"\0\2" + encode_value(EMPTY)[2:])

    assert decode_record(kind, skipped) is None
    assert decode_record(version, skipped) is None
    assert (skipped.unknown_count, skipped.corrupt_count) == (2, 0)


def _status(number: int) -> bytes:
    return b"\0\0" + encode(TransactionLogValue(1, transaction_status=number), 0)


@pytest.mark.parametrize(
    "record",
    [
        LogRecord(b"\0", encode_value(EMPTY)),
        LogRecord(KEY[:-1], encode_value(EMPTY)),
        LogRecord(KEY + b"x", encode_value(EMPTY)),
        LogRecord(KEY[:3], encode_value(EMPTY)),
        LogRecord(KEY[:4] + b"\xff\xff\xff", encode_value(EMPTY)),
        LogRecord(KEY, b""),
        LogRecord(KEY, encode_value(EMPTY)[:-1]),
        LogRecord(KEY, encode_value(EMPTY) + b"x"),
        LogRecord(KEY, _status(6)),
        LogRecord(KEY, _status(7)),
        LogRecord(KEY, _status(8)),
        LogRecord(KEY, b"\0\0" + encode(TransactionLogValue(-1), 0)),
        LogRecord(KEY, b"\0\0" + encode(TransactionLogValue(1, producer_epoch=-2), 0)),
    ],
)
def test_a_record_that_cannot_be_read_is_passed_over_and_counted(record: LogRecord) -> None:
    """One damaged record must not take all transactional ids of a partition down."""
    skipped = Skipped()

    assert decode_record(record, skipped) is None
    assert (skipped.unknown_count, skipped.corrupt_count) == (0, 1)
    assert skipped.last_fault


def test_a_null_list_of_partitions_is_an_empty_one() -> None:
    """Some records of old have none in other states than Empty."""
    value = TransactionLogValue(1, transaction_status=2, transaction_partitions=None)

    read = decode_value(b"\0\0" + encode(value, 0))
    assert read is not None
    assert read.partitions == frozenset()


@pytest.mark.parametrize(
    ("known", "expected"),
    [
        (BUMPING, -1),
        (BUMPING._replace(state=TransactionState.PREPARE_ABORT), 4),
        (COMPLETE._replace(producer_id=1_000, producer_epoch=5), 4),
        (COMPLETE, 32_766),
        (COMPLETE._replace(client_version=0), -1),
        (EMPTY, -1),
    ],
)
def test_the_record_of_the_end_contains_the_last_epoch(
    known: TransactionMetadata, expected: int
) -> None:
    """A producer that missed the answer may repeat its request to another coordinator."""
    read = decode_value(encode_value(known))

    assert read is not None
    assert read.last_producer_epoch == expected


def test_no_key_can_hold_an_id_that_is_too_long() -> None:
    """Its length is an int16."""
    assert len(state_record("x" * 32_767, EMPTY).key) == 32_771
    with pytest.raises(ValueError, match="32768 bytes"):
        encode_key("x" * 32_768)


def test_intermediate_states_are_never_written() -> None:
    """Kafka fails at a record that says Dead or PrepareEpochFence."""
    with pytest.raises(AssertionError, match="never written"):
        encode_value(EMPTY._replace(state=TransactionState.DEAD))


def test_the_key_of_a_foreign_record_is_no_error() -> None:
    """Kafka 4 keeps other kinds of records in other topics, but numbers them all."""
    assert decode_key(b"\0\x0b") is None
    with pytest.raises(RemoteProtocolError):
        decode_key(b"")
