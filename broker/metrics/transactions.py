"""Transactional ids that are coordinated here, and the markers that their partitions still lack.

Kafka's exporter knows only markers that have nowhere to go; the others are ours.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import GAUGE, Family, gauge

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.broker.coordinating.transactions import TransactionCoordinator
    from ottla.broker.metrics.exposition import Sample

# Beside these some states are passed through only.
_STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort")


def transaction_families(transactions: TransactionCoordinator) -> Iterator[Family]:
    """What this coordinator has to do, and what of it waits for others."""
    owed = transactions.effects.markers.owed
    yield Family(
        GAUGE,
        "ottla_transactional_ids",
        "Transactional ids that are coordinated here, by state.",
        ("state",),
        _states(transactions),
    )
    yield gauge(
        "ottla_transactions_awaiting_markers",
        "Transactions that are decided and lack the marker of some partition.",
        owed.order_count,
    )
    yield gauge(
        "ottla_transaction_markers_pending",
        "Markers that are not confirmed yet.",
        owed.marker_count,
    )
    yield gauge(
        "kafka_coordinator_transaction_transactionmarkerchannelmanager_unknowndestinationqueuesize",
        "Partitions without a leader that wait for markers.",
        len(owed.homeless),
    )


def _states(transactions: TransactionCoordinator) -> Iterator[Sample]:
    counts = Counter(dict.fromkeys(_STATES, 0))
    counts.update(transactions.states())
    yield from (((state,), count) for state, count in counts.items())
