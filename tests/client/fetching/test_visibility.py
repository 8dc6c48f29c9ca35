"""Which batches read_committed hides."""

from __future__ import annotations

import pytest

from ottla.client.fetching.visibility import Aborted, visible_batches
from ottla.protocol.records.batch import RecordBatch, parse_batch
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.protocol.records.control import ControlType, TransactionMarker, encode_marker

ABORT, COMMIT = ControlType.ABORT, ControlType.COMMIT


def batch(offset: int, producer_id: int = -1) -> RecordBatch:
    """One record; transactional if there is a producer."""
    options = BatchOptions(
        base_offset=offset, producer_id=producer_id, is_transactional=producer_id >= 0
    )
    return parse_batch(encode_batch([(0, None, b"x", ())], options))


def marker(offset: int, producer_id: int, kind: ControlType) -> RecordBatch:
    """The end of a transaction."""
    return parse_batch(encode_marker(TransactionMarker(producer_id, 0, kind, 0), 0, offset))


def shown(batches: list[RecordBatch], aborted: list[Aborted] | None) -> list[int]:
    """Offsets of the visible batches."""
    return [found.base_offset for found, visible in visible_batches(batches, aborted) if visible]


@pytest.mark.requirement("FMT-29", "FMT-31")
def test_control_batches_are_never_shown() -> None:
    """Control batches take an offset and hold no user data."""
    batches = [batch(0), batch(1, 7), marker(2, 7, COMMIT), batch(3)]

    assert shown(batches, None) == [0, 1, 3]
    assert shown(batches, []) == [0, 1, 3]


def test_an_aborted_transaction_is_hidden_from_its_first_offset_to_its_marker() -> None:
    """Before and after, the same producer's records count."""
    batches = [
        batch(0, 7),
        marker(1, 7, COMMIT),
        batch(2, 7),
        batch(3),
        batch(4, 8),
        marker(5, 7, ABORT),
        batch(6, 7),
        marker(7, 7, COMMIT),
        marker(8, 8, COMMIT),
    ]

    assert shown(batches, [(7, 2)]) == [0, 3, 4, 6]
    assert shown(batches, None) == [0, 2, 3, 4, 6]


def test_a_producer_may_abort_several_times_in_one_fetch() -> None:
    """The list is taken in offset order, whatever order it came in."""
    batches = [
        batch(0, 7),
        marker(1, 7, ABORT),
        batch(2, 7),
        marker(3, 7, COMMIT),
        batch(4, 7),
        marker(5, 7, ABORT),
    ]

    assert shown(batches, [(7, 4), (7, 0)]) == [2]


def test_a_transaction_that_began_before_the_fetch_is_hidden_from_its_start() -> None:
    """The broker lists it because it overlaps the fetch."""
    assert shown([batch(10, 7), marker(11, 7, ABORT), batch(12)], [(7, 3)]) == [12]


def test_a_plain_record_of_a_hidden_producer_is_shown() -> None:
    """Only what belongs to the transaction is undone."""
    plain = parse_batch(
        encode_batch([(0, None, b"x", ())], BatchOptions(base_offset=1, producer_id=7))
    )

    assert shown([batch(0, 7), plain, marker(2, 7, ABORT)], [(7, 0)]) == [1]


def test_hidden_batches_are_passed_all_the_same() -> None:
    """The position has to pass them, or the consumer makes no progress."""
    batches = [batch(0, 7), marker(1, 7, ABORT)]

    assert [visible for _, visible in visible_batches(batches, [(7, 0)])] == [False, False]
