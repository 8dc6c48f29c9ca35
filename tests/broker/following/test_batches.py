"""What of a leader's answer is written: whole, sound batches in order, from the log's end on."""

from __future__ import annotations

import pytest

from ottla.broker.following.batches import AppendLimits, runs_of
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.records.builder import BatchOptions, encode_batch

MANY = 1 << 30


def batch(at: int, count: int = 2, *, epoch: int = 1, size: int = 10) -> bytes:
    options = BatchOptions(base_offset=at, leader_epoch=epoch)
    return encode_batch([(1000, None, b"v" * size, ())] * count, options)


def offsets(records: bytes, end: int = 0, *, epoch: int = 1, run_bytes: int = MANY) -> list[object]:
    runs = runs_of(records, AppendLimits(end, epoch, run_bytes))
    return [[(one.base_offset, one.last_offset) for one in run] for run in runs]


def test_all_batches_are_one_run() -> None:
    """So that they are one write."""
    assert offsets(batch(0) + batch(2) + batch(4)) == [[(0, 1), (2, 3), (4, 5)]]


def test_no_records_are_no_runs() -> None:
    """The usual answer of an idle partition."""
    assert offsets(b"") == []


def test_batches_that_the_log_has_are_skipped() -> None:
    """A leader that begins with the batch before is not wrong, and nothing is written twice."""
    records = batch(0) + batch(2) + batch(4)
    assert offsets(records, 2) == [[(2, 3), (4, 5)]]
    assert offsets(records, 6) == []


def test_gaps_are_taken_as_they_are() -> None:
    """Compaction leaves gaps, also before the first batch."""
    assert offsets(batch(7) + batch(30), 3) == [[(7, 8), (30, 31)]]


def test_a_torn_batch_at_the_end_is_left_for_the_next_fetch() -> None:
    """KIP-74: a limit may cut the answer anywhere."""
    whole, torn = batch(0), batch(2)
    for size in (0, 1, 11, 12, 60, 61, len(torn) - 1):
        assert offsets(whole + torn[:size]) == [[(0, 1)]]
    assert offsets(torn[:40]) == []


def test_a_run_fits_a_segment() -> None:
    """One answer may be larger than a small segment."""
    size = len(batch(0))
    records = b"".join(batch(at) for at in range(0, 10, 2))
    assert offsets(records, run_bytes=2 * size) == [
        [(0, 1), (2, 3)],
        [(4, 5), (6, 7)],
        [(8, 9)],
    ]
    assert [len(run) for run in runs_of(records, AppendLimits(0, 1, 10))] == [1] * 5


def test_a_run_spans_no_more_offsets_than_a_segment_can() -> None:
    """Positions in a segment are relative offsets of 31 bits; compacted logs leap."""
    far = (1 << 31) + 5
    assert offsets(batch(0) + batch(far) + batch(far + 2)) == [
        [(0, 1)],
        [(far, far + 1), (far + 2, far + 3)],
    ]


def refused(records: bytes, end: int = 0, *, epoch: int = 1) -> str:
    with pytest.raises(KafkaError) as caught:
        runs_of(records, AppendLimits(end, epoch, MANY))
    assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    return caught.value.message


def test_one_flipped_bit_is_noticed() -> None:
    """What a network or a memory has spoiled must not become a second version of a record."""
    records = bytearray(batch(0) + batch(2))
    records[-3] ^= 0x10
    assert "checksum" in refused(bytes(records))


def test_order_is_checked() -> None:
    """A log whose offsets go back cannot be read."""
    assert "follows offset" in refused(batch(4) + batch(2))
    assert "follows offset" in refused(batch(0) + batch(1))


def test_epochs_never_go_back_nor_beyond_the_leaders() -> None:
    """R-10: the follower rejects records of another lineage, even from its leader."""
    assert "epoch" in refused(batch(0, epoch=3) + batch(2, epoch=2), epoch=5)
    assert "epoch" in refused(batch(0, epoch=6), epoch=5)
    assert "epoch" in refused(batch(0, epoch=-2), epoch=5)


def test_a_length_that_cannot_be_is_refused() -> None:
    """Lengths come from a peer: none may lead backwards or around in circles."""
    for length in (-12, -1, 0, 48, -(1 << 31)):
        records = bytearray(batch(0) + batch(2))
        records[8:12] = length.to_bytes(4, signed=True)
        assert f"its size is {12 + length} " in refused(bytes(records))


def test_the_first_batch_may_reach_over_the_end() -> None:
    """A leader's log may start in the middle of a batch, which then comes whole."""
    assert offsets(batch(0, 10), 5) == [[(0, 9)]]
