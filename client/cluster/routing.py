"""Chooses the broker for each request, and decides when a request may be repeated.

A request is repeated after a retriable answer, and after a lost connection if nothing of it was
sent or if it is idempotent. It is never repeated on a guess: a change whose outcome is unknown is
reported as exactly that.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from ottla.client.cluster.metadata import NEWS_MS
from ottla.client.records.arguments import partitions_of
from ottla.protocol.errors import ErrorCode
from ottla.wire.errors import ClientError, RequestRefused, TransportError

Request = TypeVar("Request")
Response = TypeVar("Response")
Result = TypeVar("Result")

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.api import RequestApi
    from ottla.wire.connection import Connection

    Answers: TypeAlias = Mapping[TopicPartition, "Result | ClientError"]
    Ask: TypeAlias = Callable[[Connection, list[TopicPartition]], Awaitable[Answers[Result]]]

# Codes after which the metadata is stale, besides those marked ``refresh_metadata``.
LOOK_AGAIN = frozenset({ErrorCode.NOT_CONTROLLER, ErrorCode.UNKNOWN_LEADER_EPOCH})
# Retriable by the table, for clients that wait for a topic to appear. A caller that asks for a
# topic by name has more likely mistyped it.
FINAL = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
# What brokers answer about a topic that was deleted, by its name and by its id.
DENIALS = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})


class Router:
    """Sends single requests for consumers and admins. Stateless apart from its cluster."""

    def __init__(self, cluster: ClusterClient) -> None:
        self.cluster = cluster

    async def to_any(
        self,
        api: RequestApi[Request, Response],
        request: Request,
        check: Callable[[Response, Connection], None],
    ) -> Response:
        """Send to any broker; ``check`` raises RequestRefused for its errors."""

        async def attempt() -> Response:
            connection = await self.cluster.any_connection()
            response = await connection.send(api, request)
            check(response, connection)
            return response

        return await self.repeated(attempt, is_repeatable=True)

    async def to_node(
        self, node_id: int, api: RequestApi[Request, Response], request: Request
    ) -> Response:
        """Send to one broker, once. Raises RequestRefused for an unknown broker."""
        if not self.cluster.pool.knows(node_id):
            known = ", ".join(map(str, sorted(self.cluster.metadata.brokers)))
            raise RequestRefused(
                ErrorCode.BROKER_ID_NOT_REGISTERED, f"there is no broker {node_id}, only {known}"
            )
        async with self.cluster.in_time():
            connection = await self.cluster.pool.connection(node_id)
            return await connection.send(api, request)

    async def to_controller(
        self,
        api: RequestApi[Request, Response],
        request: Request,
        check: Callable[[Response, Connection], None],
    ) -> Response:
        """Send a change to the controller; ``check`` raises RequestRefused for its errors.

        Raises TransportError if the connection is lost in between: the change may have been made,
        and a repetition could fail for that very reason."""

        async def attempt() -> Response:
            connection = await self._controller_connection()
            response = await connection.send(api, request)
            check(response, connection)
            return response

        return await self.repeated(attempt, is_repeatable=False)

    async def _controller_connection(self) -> Connection:
        cluster = self.cluster
        await cluster.refresh_if_stale()
        controller_id = cluster.metadata.controller_id
        if controller_id not in cluster.metadata.brokers:
            raise RequestRefused(
                ErrorCode.NOT_CONTROLLER, "the cluster has no controller at the moment"
            )
        return await cluster.pool.connection(controller_id)

    async def by_leader(
        self,
        partitions: Iterable[TopicPartition],
        ask: Ask[Result],
        *,
        is_repeatable: bool,
    ) -> dict[TopicPartition, Result | ClientError]:
        """Send to each partition's leader; all partitions of a leader share one request.

        Partitions with a retriable result are asked again, until the time of the call is over, or
        until their topic is known to be deleted. The result has every partition, with its answer
        or error."""
        left = partitions_of(partitions)
        results: dict[TopicPartition, Result | ClientError] = {}
        clock = self.cluster.environment.clock
        deadline_ms = clock.now_ms() + self.cluster.config.call_timeout_ms
        self.cluster.follow({partition.topic for partition in left})
        denials = _Denials(self.cluster)
        failures = 0
        while left:
            try:
                await self.repeated(
                    self.cluster.refresh_if_stale, is_repeatable=True, deadline_ms=deadline_ms
                )
            except TransportError:
                if results and clock.now_ms() >= deadline_ms:
                    # Some partitions may have answers, and the errors of the others are known.
                    break
                raise
            results.update(await self._ask_leaders(left, ask, deadline_ms))
            left = [
                partition
                for partition in left
                if self._may_repeat(results.get(partition), is_repeatable)
                and not denials.are_final(partition, results.get(partition))
            ]
            if not left or clock.now_ms() >= deadline_ms:
                break
            failures += 1
            self.cluster.mark_stale()
            await self.cluster.pause(failures, deadline_ms)
            if clock.now_ms() >= deadline_ms:
                break
        return results

    async def _ask_leaders(
        self,
        partitions: list[TopicPartition],
        ask: Ask[Result],
        deadline_ms: float,
    ) -> dict[TopicPartition, Result | ClientError]:
        results: dict[TopicPartition, Result | ClientError] = {}
        by_node: dict[int, list[TopicPartition]] = {}
        metadata = self.cluster.metadata
        for partition in partitions:
            leader = metadata.leader_of(partition)
            if leader is not None:
                by_node.setdefault(leader, []).append(partition)
                continue
            known = metadata.partition(partition)
            code = (
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
                if known is None
                else ErrorCode.LEADER_NOT_AVAILABLE
            )
            results[partition] = RequestRefused.for_partition(code, partition)

        async def ask_one(
            node_id: int, own: list[TopicPartition]
        ) -> dict[TopicPartition, Result | ClientError]:
            left_ms = deadline_ms - self.cluster.environment.clock.now_ms()
            try:
                async with self.cluster.in_time(left_ms):
                    connection = await self.cluster.pool.connection(node_id)
                    return {**await ask(connection, own)}
            except ClientError as error:
                return dict.fromkeys(own, error)

        answers = await asyncio.gather(*(ask_one(*item) for item in sorted(by_node.items())))
        for answer in answers:
            results.update(answer)
        return results

    def _may_repeat(self, result: object, is_repeatable: bool) -> bool:
        if isinstance(result, TransportError):
            return result.retriable and (is_repeatable or not result.was_sent)
        if not isinstance(result, RequestRefused):
            return False
        if result.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION and result.broker is None:
            # This client's own verdict, from fresh metadata: the name is wrong.
            return self.cluster.config.allow_auto_create
        return result.retriable

    async def repeated(
        self,
        attempt: Callable[[], Awaitable[Result]],
        *,
        is_repeatable: bool,
        deadline_ms: float | None = None,
    ) -> Result:
        """Retry until success, a final error, or the deadline (default: ``call_timeout_ms``).

        At the deadline an attempt in progress is abandoned. A cluster that has never been reached
        fails at once: its address is more likely wrong than all its brokers are restarting."""
        cluster = self.cluster
        clock = cluster.environment.clock
        now_ms = clock.now_ms()
        if deadline_ms is None:
            deadline_ms = now_ms + cluster.config.call_timeout_ms
        failures = 0
        failure: TransportError | RequestRefused | None = None
        while True:
            limit = cluster.in_time(deadline_ms - now_ms)
            try:
                async with limit:
                    return await attempt()
            except (TransportError, RequestRefused) as error:
                if isinstance(error, TransportError):
                    cluster.mark_stale()
                    may_repeat = error.retriable and (is_repeatable or not error.was_sent)
                else:
                    if error.code.refresh_metadata or error.code in LOOK_AGAIN:
                        cluster.mark_stale()
                    may_repeat = error.retriable and error.code not in FINAL
                unreached = cluster.metadata.updated_ms is None
                if limit.is_over and may_repeat and failure is not None:
                    # An earlier answer says more than this timeout.
                    raise failure from error
                if not may_repeat or unreached or clock.now_ms() >= deadline_ms:
                    raise
                failure = error
            failures += 1
            await cluster.pause(failures, deadline_ms)
            now_ms = clock.now_ms()
            if now_ms >= deadline_ms:
                raise failure


class _Denials:
    """Tells a deleted topic from one that brokers do not know yet, after a start or a creation.

    A topic is deleted when its leader and fresh metadata have both denied it for ``NEWS_MS``."""

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        # Since when each topic is denied by both.
        self._since_ms: dict[str, float] = {}

    def are_final(self, partition: TopicPartition, result: object) -> bool:
        """Take the result of a partition; return whether its topic is deleted."""
        view = self._cluster.metadata.topics.get(partition.topic)
        is_denied = (
            isinstance(result, RequestRefused)
            and result.code in DENIALS
            and result.broker is not None
            and view is not None
            and view.error in DENIALS
        )
        if not is_denied:
            self._since_ms.pop(partition.topic, None)
            return False
        now_ms = self._cluster.environment.clock.now_ms()
        return now_ms - self._since_ms.setdefault(partition.topic, now_ms) >= NEWS_MS
