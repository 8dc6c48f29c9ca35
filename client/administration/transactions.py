"""Administers transactions (KIP-664): lists and describes them, and aborts hanging ones."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

from ottla.client.administration import transaction_requests as views
from ottla.client.cluster.coordinators import TRANSACTION, Coordinators
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.describe_transactions import DescribeTransactionsRequest
from ottla.protocol.messages.list_transactions import ListTransactionsRequest
from ottla.wire.errors import ClientError, RequestRefused, UnsupportedByBroker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.administration.transaction_requests import (
        ProducerView,
        TransactionListing,
        TransactionView,
    )
    from ottla.client.cluster.routing import Router
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.connection import Connection

DURATION_VERSION = 1
PATTERN_VERSION = 2


class TransactionAdmin:
    """Administers the cluster's transactions; ``Admin.transactions``."""

    def __init__(self, router: Router) -> None:
        self._router = router
        self._coordinators = Coordinators(router, TRANSACTION)

    async def list_transactions(
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
        cluster = self._router.cluster
        await cluster.describe([])
        request = ListTransactionsRequest(
            list(states),
            list(producer_ids),
            -1 if longer_than_ms is None else longer_than_ms,
            pattern,
        )

        async def ask(node_id: int) -> list[TransactionListing]:
            async def attempt() -> list[TransactionListing]:
                connection = await cluster.pool.connection(node_id)
                self._check_filters(connection, request)
                response = await connection.send(views.LIST_TRANSACTIONS, request)
                code = error_code(response.error_code)
                if code is not ErrorCode.NONE:
                    raise RequestRefused(code, broker=str(connection.address))
                return views.listings(response, node_id)

            return await self._router.repeated(attempt, is_repeatable=True)

        answers = await asyncio.gather(*map(ask, sorted(cluster.metadata.brokers)))
        return sorted(found for answer in answers for found in answer)

    def _check_filters(self, connection: Connection, request: ListTransactionsRequest) -> None:
        version = connection.version_of(views.LIST_TRANSACTIONS)
        for is_used, name, needed in (
            (request.duration_filter >= 0, "how long they are open", DURATION_VERSION),
            (request.transactional_id_pattern is not None, "a pattern", PATTERN_VERSION),
        ):
            if is_used and version < needed:
                raise UnsupportedByBroker(
                    f"the broker at {connection.address} cannot choose transactions by {name}"
                )

    async def describe_transactions(
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
        wanted = list(dict.fromkeys(transactional_ids))
        answers = await asyncio.gather(*map(self._describe, wanted))
        return dict(zip(wanted, answers, strict=True))

    async def _describe(self, transactional_id: str) -> TransactionView | RequestRefused:
        try:
            return await self._coordinators.ask(
                transactional_id,
                views.DESCRIBE_TRANSACTIONS,
                DescribeTransactionsRequest([transactional_id]),
                views.described,
            )
        except RequestRefused as error:
            if error.code is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
                return error
            raise

    async def describe_producers(
        self, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, list[ProducerView] | ClientError]:
        """List the recent producers of partitions, as the leaders remember them.

        Args:
            partitions: The partitions to ask for.

        Returns:
            For each partition its producers, or the error.
        """
        return await self._router.by_leader(partitions, views.ask_producers, is_repeatable=True)

    async def abort_transaction(
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
        marker = views.AbortMarker(producer_id, producer_epoch, max(0, coordinator_epoch))
        ask = partial(views.write_marker, marker)
        results = await self._router.by_leader([partition], ask, is_repeatable=True)
        result = results[partition]
        if isinstance(result, ClientError):
            raise result
