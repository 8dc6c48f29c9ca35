"""How long transactions have been open: helps operators to find hanging ones."""

from __future__ import annotations

from ottla.broker.replica.transaction_ages import TransactionAges


def test_the_oldest_open_transaction_counts() -> None:
    """The oldest transaction is the one that holds readers back."""
    ages = TransactionAges()
    ages.look({1: 10}, 1_000)
    ages.look({1: 10, 2: 20}, 2_000)

    assert ages.oldest_ms(5_000) == 4_000
    ages.look({2: 20}, 3_000)
    assert ages.oldest_ms(5_000) == 3_000
    ages.look({}, 4_000)
    assert ages.oldest_ms(5_000) == 0
    assert ages.is_empty


def test_the_next_transaction_of_a_producer_is_another_one() -> None:
    """A busy producer has always one open; none of them hangs."""
    ages = TransactionAges()
    ages.look({1: 10}, 1_000)
    ages.look({1: 30}, 2_000)

    assert ages.oldest_ms(2_500) == 500
