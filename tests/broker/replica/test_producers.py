"""Idempotence: what the table answers to each batch, and that it is a function of the log."""

from __future__ import annotations

import pytest

from ottla.broker.replica.producer import APPEND, AppendAction, AppendVerdict
from ottla.broker.replica.producers import ProducerTable
from ottla.protocol.errors import ErrorCode
from ottla.protocol.records.control import ControlType, TransactionMarker
from tests.broker.replica.support.batches import WALL_MS, data_batch, marker_batch, plain_batch

GAP = AppendVerdict(AppendAction.REFUSE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
OLD = AppendVerdict(AppendAction.REFUSE, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
FENCED = AppendVerdict(AppendAction.REFUSE, ErrorCode.INVALID_PRODUCER_EPOCH)
LAST_SEQUENCE = 2**31 - 1


def table_of(*batches: tuple[int, int], epoch: int = 0) -> ProducerTable:
    """A table that has seen batches of (sequence, count), one after the other from offset 100."""
    table = ProducerTable()
    offset = 100
    for sequence, count in batches:
        table.observe(data_batch(sequence, count=count, at=offset, epoch=epoch))
        offset += count
    return table


def marker(epoch: int, coordinator_epoch: int) -> TransactionMarker:
    """A commit that a coordinator wants written."""
    return TransactionMarker(4000, epoch, ControlType.COMMIT, coordinator_epoch)


def repeated(base_offset: int, last_offset: int, timestamp: int = WALL_MS) -> AppendVerdict:
    return AppendVerdict(
        AppendAction.DUPLICATE, ErrorCode.NONE, base_offset, last_offset, timestamp
    )


@pytest.mark.requirement("IDM-03", "IDM-04", "IDM-05", "IDM-06", "IDM-07", "IDM-08")
@pytest.mark.parametrize(
    ("sequence", "count", "epoch", "verdict"),
    [
        (70, 10, 0, APPEND),
        (71, 10, 0, GAP),
        (80, 10, 0, GAP),
        (60, 10, 0, repeated(160, 169)),
        (20, 10, 0, repeated(120, 129)),
        (10, 10, 0, OLD),
        (0, 10, 0, OLD),
        # The same first sequence with another length is another batch.
        (60, 9, 0, GAP),
        (61, 9, 0, GAP),
        (65, 10, 0, GAP),
        (0, 10, 1, APPEND),
        (0, 10, 5, APPEND),
        (70, 10, 1, GAP),
        (1, 10, 1, GAP),
    ],
)
def test_each_sequence_has_one_answer(
    sequence: int, count: int, epoch: int, verdict: AppendVerdict
) -> None:
    """A wrong answer here is a lost or a doubled record (T-01, T-02, T-08)."""
    table = table_of(*[(start, 10) for start in range(0, 70, 10)])

    assert table.judge(data_batch(sequence, count=count, epoch=epoch)) == verdict


def test_an_older_epoch_is_fenced() -> None:
    """The instance before this one must not write any more."""
    table = table_of((0, 10), epoch=3)

    assert table.judge(data_batch(10, epoch=2)) == FENCED
    assert table.judge(data_batch(10, epoch=3)) == APPEND


def test_an_unknown_producer_may_begin_anywhere() -> None:
    """Its records may have been deleted; refusing would stop it for good (T-05, KIP-360)."""
    assert ProducerTable().judge(data_batch(12345)) == APPEND


def test_sequences_before_an_unknown_beginning_are_a_gap_and_no_duplicate() -> None:
    """Batch 0 was refused, batch 5 came through: called a duplicate, batch 0 would be lost."""
    table = table_of((5, 5), (10, 5))

    assert table.judge(data_batch(0, count=5)) == GAP


def test_batches_without_a_producer_are_always_new() -> None:
    """Plain producers have no sequences to judge."""
    table = ProducerTable()
    table.observe(plain_batch(0))

    assert table.judge(plain_batch(1)) == APPEND
    assert len(table) == 0


@pytest.mark.requirement("IDM-11")
def test_another_producer_id_is_another_producer() -> None:
    """Idempotence ends with the session: a restarted producer's resend is a new record."""
    table = table_of((0, 10))

    assert table.judge(data_batch(0, count=10, producer_id=4001)) == APPEND


def test_sequences_wrap_to_zero() -> None:
    """After 2^31-1 comes 0, also in the middle of a batch (T-03, KAFKA-7692)."""
    table = table_of((LAST_SEQUENCE - 9, 5), (LAST_SEQUENCE - 4, 8), (3, 2))
    verdicts = [
        table.judge(data_batch(5)),
        table.judge(data_batch(LAST_SEQUENCE - 4, count=8)),
        table.judge(data_batch(LAST_SEQUENCE - 9, count=5)),
        table.judge(data_batch(LAST_SEQUENCE)),
        table.judge(data_batch(0)),
    ]

    assert verdicts == [APPEND, repeated(105, 112), repeated(100, 104), GAP, GAP]


def test_a_batch_that_ends_with_the_last_sequence_is_followed_by_zero() -> None:
    """The neighbour of the wrap within a batch."""
    table = table_of((LAST_SEQUENCE, 1))

    assert table.judge(data_batch(0)) == APPEND
    assert table.judge(data_batch(1)) == GAP


def test_old_sequences_stay_old_after_half_a_turn() -> None:
    """Two thousand million records later the beginning of the epoch is no longer comparable."""
    table = table_of(*[(start << 27, 1 << 27) for start in range(15)])

    assert table.judge(data_batch(9 << 27, count=1 << 27)) == OLD


@pytest.mark.requirement("IDM-10")
def test_a_batch_waits_for_the_one_before_it() -> None:
    """The first fails, the second is refused, both are retried: the log has them in order."""
    table = table_of((0, 10))
    refused = table.judge(data_batch(20, count=10))
    table.observe(data_batch(10, count=10, at=110))
    accepted = table.judge(data_batch(20, count=10))

    assert [refused, accepted] == [GAP, APPEND]


def test_judging_changes_nothing() -> None:
    """A sequence that is noted before the write makes the retry of a failed write a duplicate."""
    table = ProducerTable()
    before = table.snapshot()
    table.judge(data_batch(0))

    assert table.snapshot() == before
    assert table.judge(data_batch(0)) == APPEND


def test_a_new_producer_epoch_discards_the_earlier_sequences() -> None:
    """Sequence 0 of the new epoch must not match sequence 0 of the old one."""
    table = table_of((0, 1))
    table.observe(data_batch(0, at=101, epoch=1))

    assert table.judge(data_batch(1, epoch=1)) == APPEND
    assert table.judge(data_batch(0, epoch=1)) == repeated(101, 101)
    assert table.judge(data_batch(1, epoch=0)) == FENCED


def test_a_batch_of_a_finished_transaction_is_no_duplicate_for_the_next() -> None:
    """A client that reuses sequence 42 after an abort means another record (T-09)."""
    table = ProducerTable()
    table.observe(data_batch(42, at=100, transactional=True))
    while_open = table.judge(data_batch(42, transactional=True))
    table.observe(marker_batch(101, abort=True))
    after_abort = table.judge(data_batch(42, transactional=True))
    table.observe(data_batch(43, at=102, transactional=True))
    in_the_next = table.judge(data_batch(42, transactional=True))
    repeated_in_the_next = table.judge(data_batch(43, transactional=True))

    assert while_open == repeated(100, 100)
    assert [after_abort, in_the_next] == [GAP, GAP]
    assert repeated_in_the_next == repeated(102, 102)


def test_plain_batches_do_not_mix_into_an_open_transaction() -> None:
    """They would be committed or aborted with the transaction."""
    table = ProducerTable()
    table.observe(data_batch(0, at=0, transactional=True))

    verdict = table.judge(data_batch(1))
    assert verdict == AppendVerdict(AppendAction.REFUSE, ErrorCode.INVALID_TXN_STATE)


def test_a_marker_with_a_new_producer_epoch_fences_the_old_epoch() -> None:
    """A transaction that timed out is aborted with the next epoch; the old producer must notice."""
    table = ProducerTable()
    table.observe(data_batch(0, at=0, transactional=True))
    table.observe(marker_batch(1, abort=True, epoch=1))

    assert table.judge(data_batch(1, transactional=True)) == FENCED
    assert table.judge(data_batch(0, epoch=1, transactional=True)) == APPEND
    assert table.judge(data_batch(1, epoch=1, transactional=True)) == GAP


@pytest.mark.parametrize(
    ("epoch", "coordinator_epoch", "action", "error"),
    [
        (0, 7, AppendAction.APPEND, ErrorCode.NONE),
        (1, 7, AppendAction.APPEND, ErrorCode.NONE),
        (0, 8, AppendAction.APPEND, ErrorCode.NONE),
        (0, 6, AppendAction.REFUSE, ErrorCode.TRANSACTION_COORDINATOR_FENCED),
        (-1, 7, AppendAction.REFUSE, ErrorCode.INVALID_PRODUCER_EPOCH),
    ],
)
def test_markers_of_zombies_are_refused(
    epoch: int, coordinator_epoch: int, action: AppendAction, error: ErrorCode
) -> None:
    """A replaced coordinator must not abort what the next one has committed (T-15)."""
    table = ProducerTable()
    table.observe(data_batch(0, at=0, transactional=True))
    table.observe(marker_batch(1, coordinator_epoch=7))
    table.observe(data_batch(1, at=2, transactional=True))

    assert table.judge_marker(marker(epoch, coordinator_epoch)) == AppendVerdict(action, error)


def test_the_highest_coordinator_epoch_is_remembered() -> None:
    """A follower takes markers as they come; once it leads, the older coordinator is fenced."""
    table = ProducerTable()
    table.observe(marker_batch(0, coordinator_epoch=7))
    table.observe(marker_batch(1, coordinator_epoch=5))

    assert table.judge_marker(marker(0, 6)).error is ErrorCode.TRANSACTION_COORDINATOR_FENCED


def test_a_repeated_marker_is_answered_and_not_written() -> None:
    """After a failover a coordinator sends its markers again (T-16)."""
    table = ProducerTable()
    assert table.judge_marker(marker(0, 7)) == APPEND
    table.observe(data_batch(0, at=0, transactional=True))
    table.observe(marker_batch(1, coordinator_epoch=7))

    assert table.judge_marker(marker(0, 7)) == AppendVerdict(AppendAction.DUPLICATE)
    assert table.judge_marker(marker(0, 8)) == APPEND


def test_offsets_of_a_transaction_have_no_sequences() -> None:
    """Group coordinators write them for the producer, whose own sequences stay as they are."""
    table = ProducerTable()
    table.observe(data_batch(0, at=0, transactional=True))
    offsets = data_batch(-1, at=1, transactional=True)
    verdict = table.judge(offsets)
    table.observe(offsets)

    assert verdict == APPEND
    assert table.judge(data_batch(1, transactional=True)) == APPEND


def test_a_batch_that_is_seen_twice_counts_once() -> None:
    """The log may show again what a snapshot had already accounted for."""
    table = table_of((0, 10), (10, 10))
    before = table.snapshot()
    for batch in (data_batch(0, count=10, at=100), data_batch(10, count=10, at=110)):
        table.observe(batch)

    assert table.snapshot() == before


def test_producers_expire_after_their_time() -> None:
    """A table of all producers there ever were is a leak."""
    table = table_of((0, 1))
    day_ms = 86_400_000
    expired = [table.expire(now_ms, day_ms) for now_ms in (0, day_ms - 1, day_ms)]

    assert expired == [0, 0, 1]
    assert len(table) == 0


def test_any_write_restarts_the_expiry_of_a_producer() -> None:
    """Also a marker: after the expiry, an old coordinator epoch would be accepted again (T-06)."""
    table = table_of((0, 1))
    table.expire(0, 1_000)
    expired = []
    for at, write in ((101, data_batch(1, at=101)), (102, marker_batch(102))):
        table.observe(write)
        expired.append(table.expire(at * 10_000, 1_000))
    expired += [table.expire(1_020_000 + later, 1_000) for later in (999, 1_000)]

    assert expired == [0, 0, 0, 1]


def test_wrong_record_times_do_not_expire_a_producer() -> None:
    """A client that says 1970 must not lose its protection against duplicates (S-17)."""
    table = ProducerTable()
    table.observe(data_batch(0, timestamp=1))
    table.expire(0, 1_000)

    assert table.expire(500, 1_000) == 0


def test_an_open_transaction_does_not_expire() -> None:
    """Otherwise it could not be ended, and read_committed consumers would wait for ever."""
    table = ProducerTable()
    table.observe(data_batch(0, transactional=True))
    table.expire(0, 1_000)

    assert table.expire(10_000_000, 1_000) == 0


def test_an_end_that_is_not_replicated_does_not_expire() -> None:
    """A snapshot without its producer would say that nothing has ever ended here (T-17)."""
    table = ProducerTable()
    table.observe(data_batch(0, transactional=True))
    table.observe(marker_batch(1))
    table.expire(0, 1_000)
    expired = [table.expire(2_000, 1_000)]
    table.transactions.on_high_watermark(2)
    expired.append(table.expire(2_000, 1_000))

    assert expired == [0, 1]
