"""Producer snapshots: Kafka's bytes, and the same table after a restart."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ottla.broker.replica.history import ReplicaHistory
from ottla.broker.replica.producer import AppendAction
from ottla.broker.replica.producers import ProducerTable
from ottla.broker.replica.snapshots import SnapshotEntry, decode_snapshot, encode_snapshot
from ottla.protocol.errors import CorruptLogError, ErrorCode
from ottla.protocol.records.control import ControlType, TransactionMarker
from tests.broker.replica.support.batches import data_batch, marker_batch

VECTOR = bytes.fromhex(
    "0001524603b0000000010000000000000fa00000000000010000000000000001000000010000018bcfe56805"
    "ffffffff0000000000000000"
)
ENTRY = SnapshotEntry(4000, 0, 1, 1, 1, 1_700_000_000_005, -1, 0)


def test_the_layout_is_kafkas() -> None:
    """A directory written by Kafka must be readable, and the other way round."""
    assert encode_snapshot([ENTRY]) == VECTOR
    assert decode_snapshot(VECTOR) == [ENTRY]


def test_a_snapshot_of_nothing_is_whole_too() -> None:
    """A partition without idempotent producers has snapshots as well."""
    assert decode_snapshot(encode_snapshot([])) == []


@given(st.integers(0, len(VECTOR) - 1), st.integers(1, 255))
def test_any_changed_byte_is_noticed(position: int, flip: int) -> None:
    """A wrong last sequence is a duplicate, or a producer that can never write again."""
    spoiled = bytearray(VECTOR)
    spoiled[position] ^= flip

    with pytest.raises(CorruptLogError):
        decode_snapshot(bytes(spoiled))


@pytest.mark.parametrize("size", range(len(VECTOR)))
def test_no_prefix_is_a_snapshot(size: int) -> None:
    """A file that a crash has cut must not count as fewer producers."""
    with pytest.raises(CorruptLogError):
        decode_snapshot(VECTOR[:size])


def test_bytes_behind_the_entries_are_refused() -> None:
    """The count and the size must say the same."""
    with pytest.raises(CorruptLogError):
        decode_snapshot(VECTOR + b"\0")


def test_a_spoiled_snapshot_changes_nothing() -> None:
    """The log then tries an older one; a half loaded table would be worse than none."""
    history = ReplicaHistory()
    history.observe(data_batch(0))
    before = history.snapshot()

    assert not history.load_snapshot(VECTOR[:-1])
    assert history.snapshot() == before


@pytest.mark.requirement("FMT-35", "IDM-04")
def test_all_batches_in_flight_are_remembered_over_a_restart() -> None:
    """A client repeats up to five batches after a restart; one remembered is not enough (T-01)."""
    table = ProducerTable()
    for index in range(7):
        table.observe(data_batch(index * 10, count=10, at=100 + index * 10))
    loaded = ProducerTable()
    loaded.load(table.snapshot())
    verdicts = [loaded.judge(data_batch(start, count=10)) for start in range(20, 80, 10)]

    assert [verdict.action for verdict in verdicts] == [AppendAction.DUPLICATE] * 5 + [
        AppendAction.APPEND
    ]
    assert [verdict.base_offset for verdict in verdicts[:5]] == [120, 130, 140, 150, 160]
    assert loaded.judge(data_batch(90, count=10)).action is AppendAction.REFUSE


def test_kafka_reads_the_newest_batch_of_each_producer_last() -> None:
    """Its reader lets the last entry of a producer win, so the newest must come last."""
    table = ProducerTable()
    for index in range(3):
        table.observe(data_batch(index, at=2 * index))
        table.observe(data_batch(index, at=2 * index + 1, producer_id=5000))
    as_kafka_reads = {entry.producer_id: entry for entry in decode_snapshot(table.snapshot())}

    assert [as_kafka_reads[4000].last_sequence, as_kafka_reads[5000].last_sequence] == [2, 2]


def test_before_a_single_loaded_batch_nothing_is_known() -> None:
    """Kafka saves one batch, so whether an older sequence was ever written is unknown."""
    table = ProducerTable()
    table.load(encode_snapshot([SnapshotEntry(4000, 0, 59, 159, 9, 1, -1, -1)]))

    assert table.judge(data_batch(50, count=10)).action is AppendAction.DUPLICATE
    assert table.judge(data_batch(40, count=10)).error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER


def test_the_open_transaction_survives() -> None:
    """Forgotten, read_committed consumers would read what is aborted later."""
    table = ProducerTable()
    table.observe(data_batch(0, at=7, transactional=True))
    loaded = ProducerTable()
    loaded.load(table.snapshot())
    done = loaded.observe(marker_batch(9, abort=True))

    assert loaded.transactions.open_transactions == {}
    assert done is not None
    assert (done.first_offset, done.last_offset, done.is_aborted) == (7, 9, True)


def test_a_producer_known_by_a_marker_only_survives() -> None:
    """Its epoch still fences."""
    table = ProducerTable()
    table.observe(marker_batch(0, epoch=3, coordinator_epoch=5))
    loaded = ProducerTable()
    loaded.load(table.snapshot())
    zombie = TransactionMarker(4000, 3, ControlType.ABORT, coordinator_epoch=4)

    assert loaded.judge(data_batch(0, epoch=2)).action is AppendAction.REFUSE
    assert loaded.judge_marker(zombie).action is AppendAction.REFUSE
    assert loaded.snapshot() == table.snapshot()
