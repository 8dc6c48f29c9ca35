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
    """Administers the cluster's transactions; ``Admin.transactions``."""

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
        """List transactional ids of all coordinators, by name.

        Args:
            states: Only transactions in these states; all by default.
            producer_ids: Only transactions of these producers; all by default.
            longer_than_ms: Only transactions open for longer than this, in milliseconds; None
                (default) for all.
            pattern: Only ids that match this regular expression; None (default) for all.

        Returns:
            The transactional ids with their states.

        Raises:
            RequestRefused: A coordinator did not answer for its transactions.
            UnsupportedByBroker: A broker does not support a filter.
        """
        return self._run(
            self._inner.list_transactions(
                states, producer_ids, longer_than_ms=longer_than_ms, pattern=pattern
            )
        )

    def describe_transactions(
        self, transactional_ids: Iterable[str]
    ) -> dict[str, TransactionView | RequestRefused]:
        """Describe transactions as their coordinators see them.

        Args:
            transactional_ids: The transactional ids.

        Returns:
            For each id its transaction, or TRANSACTIONAL_ID_NOT_FOUND if its coordinator does not
            know it.

        Raises:
            RequestRefused: The first other error of any coordinator.
        """
        return self._run(self._inner.describe_transactions(transactional_ids))

    def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerView] | ClientError]:
        """List the recent producers of partitions, as the leaders remember them.

        Args:
            partitions: The partitions to ask for.

        Returns:
            For each partition its producers, or the error.
        """
        return self._run(self._inner.describe_producers(partitions))

    def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
    ) -> None:
        """Abort a producer's open transaction in one partition.

        Only for hanging transactions, which no coordinator will end: a transaction that a
        coordinator knows is no longer atomic afterwards. ``describe_producers`` reports the
        arguments.

        Args:
            partition: The partition.
            producer_id: The producer's id.
            producer_epoch: The producer's epoch.
            coordinator_epoch: The epoch of the coordinator that wrote the last marker; -1 (default)
                if there was none.

        Raises:
            ClientError: The leader did not answer, or refused: INVALID_PRODUCER_EPOCH if the
                producer has written since.
        """
        self._run(
            self._inner.abort_transaction(partition, producer_id, producer_epoch, coordinator_epoch)
        )
