"""Finds the coordinator of a group or transactional id, and sends requests to it.

Brokers that support KIP-699 are asked in its form."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.records.arguments import check_text
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.find_coordinator import (
    Coordinator,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
)
from ottla.protocol.ports import Address
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused, TransportError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from ottla.client.cluster.private_pool import OwnPool
    from ottla.client.cluster.routing import Router
    from ottla.wire.api import RequestApi
    from ottla.wire.connection import Connection
    from ottla.wire.pool import Pool

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")

FIND_COORDINATOR = declare(
    ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, 0, 5
)
# The first version with other keys than groups.
FIND_TRANSACTION_COORDINATOR = declare(
    ApiKey.FIND_COORDINATOR, FindCoordinatorRequest, FindCoordinatorResponse, 1, 5
)
GROUP, TRANSACTION = 0, 1
# From this version on one request can have several keys.
BATCHED_VERSION = 4
MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})


class Coordinators:
    """Caches coordinators until ``forget``.

    The keys are group ids, or transactional ids with the ``key_type`` TRANSACTION."""

    def __init__(
        self, router: Router, key_type: int = GROUP, *, pool: Pool | OwnPool | None = None
    ) -> None:
        """``pool``: the connections to coordinators; by default those of the cluster."""
        self._router = router
        self._pool = router.cluster.pool if pool is None else pool
        self._key_type = key_type
        self._api = FIND_COORDINATOR if key_type == GROUP else FIND_TRANSACTION_COORDINATOR
        self._known: dict[str, int] = {}
        # The broker that named each coordinator, and those whose answers were useless: a broker
        # that misses elections would name the former coordinator for ever.
        self._told_by: dict[str, int] = {}
        self._doubted: dict[str, set[int]] = {}

    def forget(self, key: str) -> None:
        """Drop the known coordinator, and ask another broker next time."""
        self._known.pop(key, None)
        teller = self._told_by.pop(key, None)
        if teller is not None:
            self._doubt(key, teller)

    def _doubt(self, key: str, node_id: int) -> None:
        doubted = self._doubted.setdefault(key, set())
        doubted.add(node_id)
        if doubted.issuperset(self._router.cluster.metadata.brokers):
            # No broker gave a useful answer: start again.
            del self._doubted[key]

    async def find(self, key: str) -> int:
        """Return the coordinator's node id, which the pool knows. Raises RequestRefused."""
        known = self._known.get(key)
        if known is not None:
            return known
        check_text("a group" if self._key_type == GROUP else "a transaction", key)
        return await self._router.repeated(partial(self._ask_broker, key), is_repeatable=True)

    async def _ask_broker(self, key: str) -> int:
        cluster = self._router.cluster
        connection = await cluster.any_connection(self._doubted.get(key, ()))
        teller = cluster.pool.node_of(connection)
        batched = connection.version_of(self._api) >= BATCHED_VERSION
        request = FindCoordinatorRequest(
            key="" if batched else key,
            key_type=self._key_type,
            coordinator_keys=[key] if batched else [],
        )
        answer = _the_answer(await connection.send(self._api, request))
        code = error_code(answer.error_code)
        if code is not ErrorCode.NONE:
            if code in MOVED and teller is not None:
                self._doubt(key, teller)
            raise RequestRefused(code, answer.error_message, broker=str(connection.address))
        cluster.pool.set_address(answer.node_id, Address(answer.host, answer.port))
        self._known[key] = answer.node_id
        if teller is not None:
            self._told_by[key] = teller
        return answer.node_id

    async def connection(self, key: str) -> Connection:
        """Return a connection to the coordinator. Raises RequestRefused or TransportError."""
        node_id = await self.find(key)
        try:
            return await self._pool.connection(node_id)
        except KeyError:
            # It has left the cluster since it was found.
            self.forget(key)
            return await self._connect(await self.find(key))

    async def _connect(self, node_id: int) -> Connection:
        try:
            return await self._pool.connection(node_id)
        except KeyError:
            raise RequestRefused(
                ErrorCode.COORDINATOR_NOT_AVAILABLE, "the coordinator has left the cluster"
            ) from None

    def ask(
        self,
        key: str,
        api: RequestApi[Request, Response],
        request: Request,
        read: Callable[[Response, int, Connection], Result],
        *,
        is_repeatable: bool = True,
    ) -> Coroutine[Any, Any, Result]:
        """Send a request to the coordinator; ``read`` raises RequestRefused for its errors.

        Retriable errors are retried, at the new coordinator if it has moved."""

        async def attempt() -> Result:
            node_id = await self.find(key)
            try:
                connection = await self._connect(node_id)
                response = await connection.send(api, request)
                return read(response, node_id, connection)
            except (TransportError, asyncio.CancelledError):
                # If the call's time limit cut it short, the coordinator may be silent for good.
                self.forget(key)
                raise
            except RequestRefused as error:
                if error.code in MOVED:
                    self.forget(key)
                raise

        return self._router.repeated(attempt, is_repeatable=is_repeatable)


def _the_answer(response: FindCoordinatorResponse) -> Coordinator:
    if response.coordinators:
        return response.coordinators[0]
    return Coordinator(
        "",
        response.node_id,
        response.host,
        response.port,
        response.error_code,
        response.error_message,
    )
