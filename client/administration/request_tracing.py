"""One traced request: sent by this client, and told step by step by the brokers.

Only brokers of Ottla trace. They know the request by its client id, so each trace has its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import TYPE_CHECKING, Any

from ottla.client.cluster.config_requests import (
    DESCRIBE_CONFIGS,
    ResourceType,
    check_described,
    describe_request,
    entries_of,
)
from ottla.client.cluster.routing import Router
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.builder import encode_batch
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused, TransportError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.cluster.metadata import PartitionView
    from ottla.protocol.ids import TopicPartition

# The last versions that name topics instead of giving their ids.
PRODUCE = declare(ApiKey.PRODUCE, ProduceRequest, ProduceResponse, 3, 12)
FETCH = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 12)
# Round trips by which the clock of a broker is compared with this one's; the shortest counts.
LOOKS = 8
# How long replicas outside of the acknowledgement may take to have the record.
LATE_MS = 2_000.0
PAUSE_MS = 10.0


class ClockOffset(NamedTuple):
    """What to take from a broker's time to have this client's, and how far that may be wrong."""

    offset_ms: float
    within_ms: float


class SentRequest(NamedTuple):
    """A request that was answered; times are this client's, in milliseconds.

    ``offset`` is the record's, or the one at which the fetch began."""

    offset: int
    sent_ms: float
    answered_ms: float
    record_bytes: int = 0


class TracedWay(NamedTuple):
    """What the replicas of a partition tell of one request, by broker id."""

    sent: SentRequest
    clocks: dict[int, ClockOffset]
    told: dict[int, dict[str, Any]]


class RequestTraceClient:
    """Traces one request to one partition.

    Args:
        cluster: A started client of the cluster, with a client id of its own.
        where: The partition.
    """

    def __init__(self, cluster: ClusterClient, where: TopicPartition) -> None:
        self._cluster = cluster
        self._router = Router(cluster)
        self._clock = cluster.environment.clock
        self._where = where
        self._clocks: dict[int, ClockOffset] = {}

    async def begin(self) -> PartitionView:
        """Let the replicas begin to watch the partition. Raises ClientError.

        Brokers that do not trace requests, and followers that cannot be reached, are left out:
        metadata lists a dead broker until its session ends."""
        (topic,) = await self._cluster.describe([self._where.topic])
        if topic.error is not ErrorCode.NONE:
            raise RequestRefused(topic.error)
        view = topic.partitions.get(self._where.partition)
        if view is None:
            raise RequestRefused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        if view.leader_id < 0:
            raise RequestRefused(ErrorCode.LEADER_NOT_AVAILABLE)
        for node in view.replicas:
            if node in self._cluster.metadata.brokers:
                try:
                    await self._compare_clocks(node)
                except TransportError:
                    if node == view.leader_id:
                        raise
        return view

    async def _compare_clocks(self, node: int) -> None:
        best: ClockOffset | None = None
        for _ in range(LOOKS):
            before_ms = self._clock.now_ms()
            told = await self._ask(node, -1)
            after_ms = self._clock.now_ms()
            if told is None:
                return
            half_ms = (after_ms - before_ms) / 2
            if best is None or half_ms < best.within_ms:
                best = ClockOffset(told["now_ms"] - before_ms - half_ms, half_ms)
        assert best is not None
        self._clocks[node] = best

    async def _ask(self, node: int, offset: int) -> dict[str, Any] | None:
        name = f"ottla.trace.{self._where.partition}.{offset}.{self._where.topic}"
        request = describe_request(ResourceType.BROKER, str(node), [name])
        response = await self._router.to_node(node, DESCRIBE_CONFIGS, request)
        check_described(response)
        for entry in entries_of(response):
            told: dict[str, Any] = json.loads(entry.value or "{}")
            return told
        return None

    @property
    def traces(self) -> bool:
        """Whether any replica traces requests."""
        return bool(self._clocks)

    async def produce(
        self,
        view: PartitionView,
        record: tuple[bytes | None, bytes | None, tuple[tuple[str, bytes | None], ...]],
        acks: int,
        timeout_ms: int,
    ) -> SentRequest:
        """Send one record, of key, value and headers. Raises ClientError."""
        batch = encode_batch([(self._clock.wall_ms(), *record)])
        part = PartitionProduceData(self._where.partition, batch)
        topic = TopicProduceData(self._where.topic, partition_data=[part])
        request = ProduceRequest(None, acks, timeout_ms, [topic])
        connection = await self._cluster.pool.connection(view.leader_id)
        sent_ms = self._clock.now_ms()
        response = await connection.send(PRODUCE, request)
        answered_ms = self._clock.now_ms()
        answer = response.responses[0].partition_responses[0]
        if answer.error_code != ErrorCode.NONE:
            code = error_code(answer.error_code)
            raise RequestRefused(code, answer.error_message, broker=str(connection.address))
        return SentRequest(answer.base_offset, sent_ms, answered_ms, len(batch))

    async def fetch(
        self, view: PartitionView, offset: int, wait_ms: int, bytes_max: int
    ) -> SentRequest:
        """Send one fetch that waits for a record. Raises ClientError."""
        part = FetchPartition(
            self._where.partition, view.leader_epoch, offset, partition_max_bytes=bytes_max
        )
        topic = FetchTopic(self._where.topic, partitions=[part])
        request = FetchRequest(
            max_wait_ms=wait_ms, min_bytes=1, max_bytes=bytes_max, topics=[topic]
        )
        connection = await self._cluster.pool.connection(view.leader_id)
        sent_ms = self._clock.now_ms()
        response = await connection.send(FETCH, request)
        answered_ms = self._clock.now_ms()
        code = error_code(response.error_code)
        size = 0
        if code is ErrorCode.NONE:
            answer = response.responses[0].partitions[0]
            code = error_code(answer.error_code)
            size = len(answer.records or b"")
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, broker=str(connection.address))
        return SentRequest(offset, sent_ms, answered_ms, size)

    async def way(self, sent: SentRequest, awaited: Sequence[int] = ()) -> TracedWay:
        """Ask the replicas for their steps, again until those of ``awaited`` have the record and
        the leader knows it, for two seconds at most. Those that do not trace are not awaited."""
        awaited = [node for node in awaited if node in self._clocks]
        deadline_ms = self._clock.now_ms() + LATE_MS
        while True:
            told: dict[int, dict[str, Any]] = {}
            for node in self._clocks:
                with contextlib.suppress(TransportError):
                    found = await self._ask(node, sent.offset)
                    if found is not None:
                        told[node] = found
            if _is_whole(told, awaited) or self._clock.now_ms() >= deadline_ms:
                return TracedWay(sent, dict(self._clocks), told)
            await asyncio.sleep(PAUSE_MS / 1000)


def _is_whole(told: dict[int, dict[str, Any]], awaited: Sequence[int]) -> bool:
    """Whether each of these replicas has stored the record, and the leader has raised the high
    watermark and seen the others."""
    for node in awaited:
        steps = told[node]["steps"] if node in told else {}
        if "log end" not in steps:
            return False
        if told[node]["is_leader"]:
            others = {f"follower {other}" for other in awaited if other != node}
            if not {"high watermark", *others} <= steps.keys():
                return False
    return True
