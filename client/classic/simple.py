"""The low-level consumer: one connection to one broker, without other state."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.classic.message_sets import (
    ByteBufferMessageSet,
    ClassicFetch,
    MessageAndOffset,
    MultiFetchResponse,
    refused,
    rounds,
)
from ottla.client.classic.owned import ClassicClient
from ottla.client.fetching.completed_fetch import CompletedFetch
from ottla.client.fetching.fetch_request import WantedPartition
from ottla.client.fetching.offsets import CONSUMER_REPLICA_ID, LIST_OFFSETS
from ottla.client.fetching.positions import EARLIEST_TIMESTAMP, LATEST_TIMESTAMP
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ConsumerConfig
from ottla.client.settings.security import security_from
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    PartitionData,
)
from ottla.protocol.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from ottla.protocol.ports import Address
from ottla.wire.api import declare
from ottla.wire.errors import ClientClosed
from ottla.wire.negotiation import connect

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ottla.wire.connection import Connection

# From version 13 on topics are named by ids, which a client without metadata does not know.
FETCH_BY_NAME = declare(ApiKey.FETCH, FetchRequest, FetchResponse, 4, 12)
LATEST_TIME = LATEST_TIMESTAMP
EARLIEST_TIME = EARLIEST_TIMESTAMP
WAIT_MS = 100
EVERY_MESSAGE = 2**31


class SimpleConsumer(ClassicClient):
    """Reads partitions of one broker, which has to lead them, from offsets that the caller keeps.

    Every request carries its offset: another ``SimpleConsumer`` can go on from any of them. Blocks,
    and may be used by one thread at a time.

    Args:
        host: The broker's host.
        port: The broker's port.
        so_timeout_ms: How long to wait for an answer, in milliseconds (default 30000).
        buffer_size: Taken for compatibility; without effect.
        client_id: The name that the broker sees.
        security: TLS and login, such as ``{"security.protocol": "SSL"}``; plaintext by default.

    Raises:
        ValueError: A setting of ``security`` is unknown or invalid.

    Example:
        consumer = ottla.classic.SimpleConsumer("127.0.0.1", 9092)
        messages = consumer.fetch(ottla.classic.FetchRequest("orders", 0, 0, 1_000_000))
    """

    def __init__(
        self,
        host: str,
        port: int,
        so_timeout_ms: int = 30_000,
        buffer_size: int = 65_536,
        client_id: str = "ottla-simple",
        security: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__()
        self._address = Address(host, port)
        self._config = ConsumerConfig(
            client_id=client_id,
            request_timeout_ms=so_timeout_ms,
            security=security_from(security or {}),
        )
        self._environment = real_environment()
        self._connection: Connection | None = None
        self._is_closed = False

    def fetch(self, request: ClassicFetch) -> ByteBufferMessageSet:
        """Return the messages of one partition from an offset on.

        Args:
            request: A ``FetchRequest``: topic, partition, offset, and the most bytes to return.

        Returns:
            The messages; empty if there are none within about 100 milliseconds.

        Raises:
            OutOfRange: The log does not hold the offset.
            RequestRefused: The broker does not lead the partition, or refused it.
            TransportError: The broker did not answer.
        """
        found = self._run(self._fetch([request]))[0]
        if found.error is not None:
            raise found.error
        return found

    def multifetch(self, requests: Sequence[ClassicFetch]) -> MultiFetchResponse:
        """Return the messages of several requests at once.

        Args:
            requests: Any number of ``FetchRequest``; a partition may be in several of them.

        Returns:
            One message set for each request, in order; one that failed raises when it is iterated.

        Raises:
            TransportError: The broker did not answer.
        """
        return MultiFetchResponse(self._run(self._fetch(list(requests))))

    def get_offsets_before(
        self, topic: str, partition: int, time: int, max_num_offsets: int = 1
    ) -> list[int]:
        """Return offsets from which reading is possible, before a time.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            time: Milliseconds since 1970; ``LATEST_TIME`` (-1) for the end of the log,
                ``EARLIEST_TIME`` (-2) for its beginning.
            max_num_offsets: At most so many offsets (default 1).

        Returns:
            The offsets, the newest first: the offset after the last message before the time, and
            the beginning of the log.

        Raises:
            RequestRefused: The broker does not lead the partition.
            TransportError: The broker did not answer.
        """
        if max_num_offsets < 1:
            raise ValueError(f"max_num_offsets is at least 1, not {max_num_offsets}")
        where = TopicPartition(topic, partition)
        return self._run(self._offsets_before(where, time))[:max_num_offsets]

    def close(self) -> None:
        """Close the connection. A second call does nothing."""
        self._is_closed = True
        connection, self._connection = self._connection, None
        if connection is not None:
            self._call(connection.close)

    getOffsetsBefore = get_offsets_before  # noqa: N815

    async def _connected(self) -> Connection:
        if self._is_closed:
            raise ClientClosed("the consumer was closed; create another one")
        if self._connection is None or self._connection.closed:
            net, clock, _ = self._environment
            self._connection = await connect(net, clock, self._address, self._config)
        return self._connection

    async def _fetch(self, requests: Sequence[ClassicFetch]) -> list[ByteBufferMessageSet]:
        connection = await self._connected()
        found: dict[int, ByteBufferMessageSet] = {}
        for indexes in rounds(requests):
            wanted = {
                TopicPartition(requests[index].topic, requests[index].partition): index
                for index in indexes
            }
            answer = await connection.send(
                FETCH_BY_NAME, _fetch_request([requests[index] for index in indexes])
            )
            for topic in answer.responses:
                for part in topic.partitions:
                    index = wanted[TopicPartition(topic.topic, part.partition_index)]
                    found[index] = self._message_set(requests[index], part)
        return [found[index] for index in range(len(requests))]

    def _message_set(self, request: ClassicFetch, part: PartitionData) -> ByteBufferMessageSet:
        where = TopicPartition(request.topic, request.partition)
        code = error_code(part.error_code)
        if code is not ErrorCode.NONE:
            return ByteBufferMessageSet((), 0, -1, refused(code, where, str(self._address)))
        data = part.records
        if not isinstance(data, memoryview) or not data:
            return ByteBufferMessageSet((), 0, part.high_watermark)
        want = WantedPartition(where, 0, request.offset, request.max_size)
        records = CompletedFetch(want, data, None, self._config).take(EVERY_MESSAGE)
        messages = [
            MessageAndOffset(one.offset, one.value, one.key, one.timestamp) for one in records
        ]
        return ByteBufferMessageSet(messages, len(data), part.high_watermark)

    async def _offsets_before(self, where: TopicPartition, time: int) -> list[int]:
        connection = await self._connected()
        earliest = await self._offset_at(connection, where, EARLIEST_TIME)
        if time == EARLIEST_TIME:
            return [earliest]
        latest = await self._offset_at(connection, where, time)
        if latest < 0:
            # All messages are older.
            latest = await self._offset_at(connection, where, LATEST_TIME)
        return [latest, earliest] if latest > earliest else [earliest]

    async def _offset_at(self, connection: Connection, where: TopicPartition, time: int) -> int:
        partition = ListOffsetsPartition(where.partition, -1, time)
        request = ListOffsetsRequest(
            CONSUMER_REPLICA_ID,
            topics=[ListOffsetsTopic(where.topic, [partition])],
            timeout_ms=int(self._config.request_timeout_ms),
        )
        answer = await connection.send(LIST_OFFSETS, request)
        part = answer.topics[0].partitions[0]
        code = error_code(part.error_code)
        if code is not ErrorCode.NONE:
            raise refused(code, where, str(self._address))
        return part.offset


def _fetch_request(requests: Sequence[ClassicFetch]) -> FetchRequest:
    topics: dict[str, FetchTopic] = {}
    for request in requests:
        topic = topics.setdefault(request.topic, FetchTopic(request.topic))
        topic.partitions.append(
            FetchPartition(
                request.partition,
                fetch_offset=request.offset,
                partition_max_bytes=request.max_size,
            )
        )
    return FetchRequest(max_wait_ms=WAIT_MS, min_bytes=1, topics=list(topics.values()))
