"""Open, ended and settled transactions, and where read_committed readers stop."""

from __future__ import annotations

from ottla.broker.replica.transactions import CompletedTransaction, PartitionTransactions


def test_the_earliest_open_transaction_holds_the_readers() -> None:
    """What comes after it may be aborted, or stand in front of what is."""
    transactions = PartitionTransactions()
    without = transactions.last_stable_offset(100)
    transactions.begin(1, 40)
    transactions.begin(2, 20)

    assert without == 100
    assert transactions.first_unstable_offset == 20
    assert [transactions.last_stable_offset(mark) for mark in (10, 30, 100)] == [10, 20, 20]


def test_an_ended_transaction_holds_until_its_marker_is_replicated() -> None:
    """The marker at 50 is settled when the watermark, exclusive, has passed it (T-17)."""
    transactions = PartitionTransactions()
    transactions.begin(1, 40)
    transactions.end(1, 50, is_aborted=False)
    stable = []
    for mark in (45, 50, 51, 60):
        transactions.on_high_watermark(mark)
        stable.append(transactions.last_stable_offset(mark))

    assert stable == [40, 40, 51, 60]


def test_each_marker_is_settled_by_itself() -> None:
    """Two ended transactions, and a watermark between their markers."""
    transactions = PartitionTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    transactions.end(1, 30, is_aborted=False)
    transactions.end(2, 31, is_aborted=False)
    moved = transactions.on_high_watermark(31)

    assert moved
    assert transactions.first_unstable_offset == 20
    assert transactions.on_high_watermark(32)
    assert transactions.first_unstable_offset is None


def test_an_abort_stores_the_last_stable_offset_in_the_transaction_index() -> None:
    """A fetch stops searching at the first entry whose stable offset covers it (T-18)."""
    transactions = PartitionTransactions()
    transactions.begin(1, 10)
    transactions.begin(2, 20)
    first = transactions.end(1, 30, is_aborted=True)
    second = transactions.end(2, 31, is_aborted=True)

    assert first == CompletedTransaction(1, 10, 30, True, 20)
    assert second == CompletedTransaction(2, 20, 31, True, 32)


def test_a_marker_without_a_transaction_ends_nothing() -> None:
    """Coordinators repeat their markers (T-16)."""
    transactions = PartitionTransactions()
    transactions.begin(1, 10)

    assert transactions.end(2, 30, is_aborted=True) is None
    assert transactions.open_transactions == {1: 10}


def test_clear_removes_all_transactions() -> None:
    """The log restores them after a truncation."""
    transactions = PartitionTransactions()
    transactions.begin(1, 10)
    transactions.end(1, 11, is_aborted=False)
    transactions.begin(1, 12)
    transactions.clear()

    assert transactions.first_unstable_offset is None
    assert transactions.open_transactions == {}
