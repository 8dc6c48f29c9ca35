"""Transactions that are open in the partitions here, and how far they hold readers back.

A transaction that is open for longer than any producer may ask for will never end by itself:
``ottla transactions find-hanging`` names it (KIP-664).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metrics.exposition import GAUGE, Family, counter, gauge

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from ottla.broker.coordinating.txn_verification import Verification
    from ottla.broker.metrics.exposition import Sample
    from ottla.broker.partitions.partition import PartitionRuntime
    from ottla.broker.partitions.partitions import Partitions

_LABELS = ("topic", "partition")
# Beyond transaction.max.timeout.ms, what its coordinator may need to end it; Kafka's own margin.
LATE_MARGIN_MS = 5 * 60 * 1_000.0


def open_transaction_families(
    partitions: Partitions, verification: Verification, max_timeout_ms: float, now_ms: float
) -> Iterator[Family]:
    """Read anew for each family."""

    def age_ms(one: PartitionRuntime) -> float:
        return one.ages.oldest_ms(now_ms)

    yield Family(
        GAUGE,
        "kafka_cluster_partition_laststableoffsetlag",
        "Committed records that readers of committed transactions do not get yet.",
        _LABELS,
        _of_led(
            partitions, lambda one: one.replica.high_watermark - one.replica.last_stable_offset
        ),
    )
    yield Family(
        GAUGE,
        "ottla_oldest_open_transaction_seconds",
        "For how long the oldest open transaction has been known here; 0 if none is open.",
        _LABELS,
        _of_led(partitions, lambda one: age_ms(one) / 1_000),
    )
    late = sum(age_ms(one) > max_timeout_ms + LATE_MARGIN_MS for one in partitions)
    yield gauge(
        "kafka_server_replicamanager_partitionswithlatetransactionscount",
        "Partitions with a transaction that is open for longer than any may be.",
        late,
    )
    yield counter(
        "ottla_transaction_verification_failures_total",
        "Verification requests that coordinators did not confirm.",
        verification.failure_count,
    )


def _of_led(partitions: Partitions, read: Callable[[PartitionRuntime], float]) -> Iterator[Sample]:
    for one in partitions:
        if one.replica.is_leader:
            topic, index = one.partition
            yield (topic, str(index)), read(one)
