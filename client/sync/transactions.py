"""Blocking TransactionAdmin: ``client/administration/transactions.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.sync.face import Face

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.administration.transaction_requests import (
        ProducerView,
        TransactionListing,
        TransactionView,
    )
    from ottla.client.administration.transactions import TransactionAdmin as AsyncTransactionAdmin
    from ottla.client.process.loop_thread import LoopThread
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import ClientError, RequestRefused


class TransactionAdmin(Face):
    """What an Admin does about transactions."""

    def __init__(self, inner: AsyncTransactionAdmin, loop: LoopThread) -> None:
        super().__init__(loop)
        self._inner = inner

    def list_transactions(
        self,
        states: Iterable[str] = (),
        producer_ids: Iterable[int] = (),
        *,
        longer_than_ms: int | None = None,
        pattern: str | None = None,
    ) -> list[TransactionListing]:
        """All transactional ids that some coordinator knows, by name; or those in some states, of
        some producers, with a transaction that is open for longer than that, or that match a
        regular expression."""
        return self._run(
            self._inner.list_transactions(
                states, producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionView | RequestRefused]:
        """Each as its coordinator sees it; TRANSACTIONAL_ID_NOT_FOUND for one that it does not
        know."""
        return self._run(self._inner.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerView] | ClientError]:
        """Who has written to each partition of late, as its leader remembers it."""
        return self._run(self._inner.describe_producers(partitions))

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
    ) -> None:
        """End a producer's open transaction in this partition alone, as its leader describes it."""
        self._run(
            self._inner.abort_transaction(partition, producer_id, producer_epoch, coordinator_epoch)
        )
