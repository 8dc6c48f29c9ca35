"""Finds open transactions in partitions, and whether they will ever end (KIP-664).

A partition's leader knows producers by id, a coordinator knows transactional ids; a transaction
that is open at the leader and unknown to every coordinator hangs: it never ends, and readers of
committed records never get past it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.client.administration.transaction_requests import ProducerView, TransactionView
    from ottla.client.administration.transactions import TransactionAdmin
    from ottla.protocol.ids import TopicPartition

# Coordinators look for overdue transactions this often, and end them a little later.
OVERDUE_GRACE_MS = 30_000
ENDING = frozenset({"PrepareCommit", "PrepareAbort", "PrepareEpochFence"})


class TransactionHealth(Enum):
    """HANGING: no coordinator will end it. OPEN: its producer or the coordinator's timeout will.

    OVERDUE: the timeout is over and it is still open. ENDING: its end is decided and has not
    reached the partition. UNKNOWN: a coordinator that may know it cannot be asked."""

    HANGING = "hanging"
    OPEN = "open"
    OVERDUE = "overdue"
    ENDING = "ending"
    UNKNOWN = "unknown"


class FoundTransaction(NamedTuple):
    """An open transaction in one partition; ``transaction`` is None if it is unknown."""

    partition: TopicPartition
    first_offset: int
    producer: ProducerView
    transaction: TransactionView | None
    standing: TransactionHealth


class Search(NamedTuple):
    """The result of a search, in order; ``unasked`` has the errors of unanswered partitions."""

    found: list[FoundTransaction]
    unasked: dict[TopicPartition, ClientError]


def judge_standing(
    partition: TopicPartition,
    transaction: TransactionView | None,
    wall_ms: int,
    *,
    is_certain: bool,
) -> TransactionHealth:
    """Return the health of an open transaction; ``is_certain``: every coordinator was asked."""
    if transaction is None:
        return TransactionHealth.HANGING if is_certain else TransactionHealth.UNKNOWN
    if partition not in transaction.partitions:
        return TransactionHealth.HANGING
    if transaction.state in ENDING:
        return TransactionHealth.ENDING
    if transaction.start_time_ms is None:
        return TransactionHealth.OPEN
    end_ms = transaction.start_time_ms + transaction.timeout_ms
    return (
        TransactionHealth.OVERDUE if wall_ms > end_ms + OVERDUE_GRACE_MS else TransactionHealth.OPEN
    )


async def find_open(
    admin: TransactionAdmin, partitions: Iterable[TopicPartition], wall_ms: int
) -> Search:
    """Find all open transactions in these partitions, by partition and first offset.

    A transaction that ends during the search is not taken for a hanging one: the leader is asked
    again after the coordinators, and by then a transaction that they have ended is gone."""
    producers = await admin.describe_producers(partitions)
    unasked = {where: one for where, one in producers.items() if isinstance(one, ClientError)}
    opened = {where: _open_ones(one) for where, one in producers.items()}
    opened = {where: ones for where, ones in opened.items() if ones}
    ids = {producer.producer_id for ones in opened.values() for producer in ones}
    try:
        known = await _transactions_of(admin, ids)
        is_certain = True
    except ClientError:
        known, is_certain = {}, False
    again = await admin.describe_producers(opened)
    found = []
    for where, ones in sorted(opened.items()):
        later = {(one.producer_id, one.first_offset) for one in _open_ones(again[where])}
        for producer in ones:
            assert producer.first_offset is not None
            if (producer.producer_id, producer.first_offset) in later:
                transaction = known.get(producer.producer_id)
                standing = judge_standing(where, transaction, wall_ms, is_certain=is_certain)
                found.append(
                    FoundTransaction(where, producer.first_offset, producer, transaction, standing)
                )
    found.sort(key=lambda one: (one.partition, one.first_offset))
    return Search(found, unasked)


def _open_ones(producers: list[ProducerView] | ClientError) -> list[ProducerView]:
    if isinstance(producers, ClientError):
        return []
    return [producer for producer in producers if producer.first_offset is not None]


async def _transactions_of(
    admin: TransactionAdmin, producer_ids: Iterable[int]
) -> Mapping[int, TransactionView]:
    """Return what coordinators know, by producer id. Raises ClientError if one cannot be asked."""
    wanted = sorted(producer_ids)
    if not wanted:
        return {}
    listed = await admin.list_transactions(producer_ids=wanted)
    views = await admin.describe_transactions([one.transactional_id for one in listed])
    return {view.producer_id: view for view in views.values() if not isinstance(view, ClientError)}
