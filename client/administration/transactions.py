"""Administration of transactions (KIP-664): who has one open, where it stands, and how to end one
that nobody else will end."""

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
    """What an Admin does about transactions."""

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
        """All transactional ids that some coordinator knows, by name; or those in some states, of
        some producers, with a transaction that is open for longer than that, or that match a
        regular expression.

        Raises RequestRefused when a broker does not answer for its own, and UnsupportedByBroker
        for a filter that a broker does not know."""
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
        """Each as its coordinator sees it; TRANSACTIONAL_ID_NOT_FOUND for one that it does not
        know. Raises other errors of the first that has one."""
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
        """Who has written to each partition of late, as its leader remembers it."""
        return await self._router.by_leader(partitions, views.ask_producers, is_repeatable=True)

    async def abort_transaction(
        self,
        partition: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        coordinator_epoch: int = -1,
    ) -> None:
        """End a producer's open transaction in this partition alone, as its leader describes it.

        For transactions that no coordinator will ever end: one that a coordinator knows is torn by
        this. Raises ClientError; INVALID_PRODUCER_EPOCH when the producer has gone on meanwhile."""
        marker = views.AbortMarker(producer_id, producer_epoch, max(0, coordinator_epoch))
        ask = partial(views.write_marker, marker)
        results = await self._router.by_leader([partition], ask, is_repeatable=True)
        result = results[partition]
        if isinstance(result, ClientError):
            raise result
