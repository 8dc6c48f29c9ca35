"""Judging transactions that are open in a partition, with advice for the operator."""

from __future__ import annotations

import pytest

from ottla.client.administration.transaction_requests import ProducerView, TransactionView
from ottla.client.administration.transaction_search import (
    FoundTransaction,
    TransactionHealth,
    judge_standing,
)
from ottla.client.cli.transactions.transaction_text import advice, at, described, span
from ottla.protocol.ids import TopicPartition

HERE, ELSEWHERE = TopicPartition("t", 0), TopicPartition("t", 1)
NOW_MS = 1_700_000_000_000
PRODUCER = ProducerView(7, 3, 9, NOW_MS, -1, 5)


def known(state: str, age_ms: int | None = 0, where: TopicPartition = HERE) -> TransactionView:
    """The coordinator's description, with a timeout of one minute."""
    start_ms = None if age_ms is None else NOW_MS - age_ms
    return TransactionView("id", 2, state, 7, 3, 60_000, start_ms, (where,))


@pytest.mark.parametrize(
    ("transaction", "is_certain", "expected"),
    [
        (None, True, TransactionHealth.HANGING),
        (None, False, TransactionHealth.UNKNOWN),
        (known("Ongoing", where=ELSEWHERE), True, TransactionHealth.HANGING),
        (known("Empty", None, ELSEWHERE), True, TransactionHealth.HANGING),
        (known("PrepareCommit", 900_000), True, TransactionHealth.ENDING),
        (known("PrepareAbort"), True, TransactionHealth.ENDING),
        (known("Ongoing"), True, TransactionHealth.OPEN),
        (known("Ongoing", None), True, TransactionHealth.OPEN),
        (known("Ongoing", 60_001), True, TransactionHealth.OPEN),
        (known("Ongoing", 90_001), True, TransactionHealth.OVERDUE),
    ],
)
def test_only_a_transaction_that_no_coordinator_will_end_hangs(
    transaction: TransactionView | None, is_certain: bool, expected: TransactionHealth
) -> None:
    """A transaction reported as hanging by mistake would tempt an operator to abort it."""
    assert judge_standing(HERE, transaction, NOW_MS, is_certain=is_certain) is expected


@pytest.mark.parametrize(
    ("standing", "transaction", "expected"),
    [
        (TransactionHealth.HANGING, None, "'ottla transactions abort t:0 --first-offset 5' does"),
        (TransactionHealth.UNKNOWN, None, "'ottla cluster' shows who is missing"),
        (TransactionHealth.ENDING, known("PrepareCommit"), "'id' is being committed by broker 2"),
        (TransactionHealth.ENDING, known("PrepareAbort"), "'id' is being aborted by broker 2"),
        (TransactionHealth.OVERDUE, known("Ongoing", 90_001), "is __transaction_state in sync?"),
        (TransactionHealth.OPEN, known("Ongoing", 20_000), "its coordinator aborts it in 40 s"),
        (
            TransactionHealth.OPEN,
            known("Ongoing", None),
            "its coordinator aborts it; a new producer",
        ),
    ],
)
def test_every_standing_comes_with_what_to_do(
    standing: TransactionHealth, transaction: TransactionView | None, expected: str
) -> None:
    """An operator who runs this command is stuck and in a hurry, so the output names the next
    step."""
    one = FoundTransaction(HERE, 5, PRODUCER, transaction, standing)

    assert expected in advice(one, NOW_MS)


def test_what_is_not_known_is_left_out() -> None:
    """A transactional id without a transaction has no start."""
    text = described([known("Empty", None)], "text")

    assert "since" not in text
    assert "partitions        t:0" in text


def test_times_are_written_for_people() -> None:
    """With the zone, and lengths in one unit."""
    assert at(NOW_MS) == "2023-11-14 22:13:20.000Z"
    assert at(-1) is at(None) is None
    lengths = [-5, 1_500, 119_000, 120_000, 7_200_000, 200_000_000]
    assert [span(one) for one in lengths] == ["0 s", "1 s", "119 s", "2 min", "2 h", "2 d"]
