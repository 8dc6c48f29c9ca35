"""Asks single brokers for the requests they support and for their log directories."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, TypeVar

from ottla.client.administration.replica_ends import READERS, ask_replica_ends
from ottla.client.records.arguments import INT32_MAX, whole
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
    AlterReplicaLogDirTopic,
)
from ottla.protocol.messages.describe_cluster import (
    DescribeClusterRequest,
    DescribeClusterResponse,
)
from ottla.protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
    DescribeLogDirsResponse,
)
from ottla.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.ports import Address
from ottla.wire.api import declare
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping

    from ottla.client.cluster.routing import Router
    from ottla.protocol.messages.describe_log_dirs import DescribeLogDirsResult
    from ottla.wire.api import VersionRange
    from ottla.wire.connection import Connection

# From 2 on the response has fenced brokers, too (KIP-1073).
DESCRIBE_CLUSTER = declare(ApiKey.DESCRIBE_CLUSTER, DescribeClusterRequest, DescribeClusterResponse)
FENCED_VERSION = 2
UNREGISTER_BROKER = declare(
    ApiKey.UNREGISTER_BROKER, UnregisterBrokerRequest, UnregisterBrokerResponse
)
DESCRIBE_LOG_DIRS = declare(
    ApiKey.DESCRIBE_LOG_DIRS, DescribeLogDirsRequest, DescribeLogDirsResponse, 1
)

ALTER_REPLICA_LOG_DIRS = declare(
    ApiKey.ALTER_REPLICA_LOG_DIRS, AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
)

Answer = TypeVar("Answer")


class ReplicaSize(NamedTuple):
    """The size of one replica on disk.

    Attributes:
        partition: The replica's partition.
        size_bytes: Its size.
        lag: How many offsets it is behind its leader's high watermark.
        is_future: Whether it is being copied to this directory (KIP-113).
    """

    partition: TopicPartition
    size_bytes: int
    lag: int
    is_future: bool


class RegisteredBroker(NamedTuple):
    """A registered broker. A fenced broker leads no partition, and clients do not see it."""

    node_id: int
    address: Address
    rack: str | None
    is_fenced: bool


class LogDirView(NamedTuple):
    """One log directory of one broker.

    ``total_bytes`` and ``usable_bytes`` are -1 if the broker does not report them (KIP-827).
    ``error`` is None, or the reason why a failed directory is unknown."""

    broker_id: int
    path: str
    total_bytes: int
    usable_bytes: int
    replicas: tuple[ReplicaSize, ...]
    error: RequestRefused | None


class BrokerAdmin:
    """Asks brokers one by one; ``Admin.brokers``. Without ids it asks all live brokers."""

    def __init__(self, router: Router) -> None:
        self._router = router

    async def api_versions(
        self, brokers: Iterable[int] | None = None
    ) -> dict[int, dict[int, VersionRange] | ClientError]:
        """Return the request versions that brokers support.

        Args:
            brokers: The ids of the brokers; None (default) for all.

        Returns:
            For each broker its version ranges by API key, or the error.
        """

        async def ask(_: int, connection: Connection) -> dict[int, VersionRange]:
            return dict(connection.versions)

        return await self._each(brokers, ask)

    async def registered(self) -> list[RegisteredBroker]:
        """List all registered brokers by id, fenced ones too if the broker supports it (KIP-1073).

        Raises:
            RequestRefused: The broker refused.
        """
        cluster = self._router.cluster
        async with cluster.in_time():
            connection = await cluster.any_connection()
        version = connection.version_of(DESCRIBE_CLUSTER)
        request = DescribeClusterRequest(include_fenced_brokers=version >= FENCED_VERSION)
        response = await self._router.to_any(DESCRIBE_CLUSTER, request, check_cluster)
        return sorted(
            RegisteredBroker(one.broker_id, Address(one.host, one.port), one.rack, one.is_fenced)
            for one in response.brokers
        )

    async def log_dirs(
        self, brokers: Iterable[int] | None = None, topics: Iterable[str] | None = None
    ) -> dict[int, list[LogDirView] | ClientError]:
        """Describe the log directories of brokers.

        Args:
            brokers: The ids of the brokers; None (default) for all.
            topics: Only replicas of these topics; None (default) for all.

        Returns:
            For each broker its directories with their replicas, or the error.

        Raises:
            RequestRefused: A topic does not exist.
        """
        wanted = None
        if topics is not None:
            views = await self._router.cluster.describe(sorted(topics))
            for view in views:
                if view.error is not ErrorCode.NONE:
                    raise RequestRefused(view.error, topic=view.name)
            wanted = [DescribableLogDirTopic(view.name, sorted(view.partitions)) for view in views]

        async def ask(node_id: int, connection: Connection) -> list[LogDirView]:
            request = DescribeLogDirsRequest(wanted)
            response = await connection.send(DESCRIBE_LOG_DIRS, request)
            code = error_code(response.error_code)
            if code is not ErrorCode.NONE:
                raise RequestRefused(code, broker=str(connection.address))
            broker = str(connection.address)
            return [directory_of(node_id, broker, found) for found in response.results]

        return await self._each(brokers, ask)

    async def replica_ends(
        self, replicas: Mapping[int, Collection[TopicPartition]], *, reader: str | None = None
    ) -> dict[int, dict[TopicPartition, int] | ClientError]:
        """Find out where the logs of replicas end, those of followers included.

        Each broker is asked once, without repetitions.

        Args:
            replicas: The partitions to ask each broker for, by its id.
            reader: None (default) for the ends of the logs; ``"uncommitted"`` for the high
                watermarks and ``"committed"`` for the last stable offsets, which only leaders tell.

        Returns:
            For each broker the log end offsets, or the error. A replica that a broker does not
            tell about is left out.

        Raises:
            ValueError: There is no such reader.
        """
        if reader not in READERS:
            raise ValueError(f"reader is one of {', '.join(map(repr, READERS))}, not {reader!r}")
        timeout_ms = int(self._router.cluster.config.request_timeout_ms)

        async def ask(node_id: int, connection: Connection) -> dict[TopicPartition, int]:
            return await ask_replica_ends(connection, replicas[node_id], reader, timeout_ms)

        return await self._each(replicas, ask)

    async def move_replicas(
        self, broker_id: int, directories: Mapping[TopicPartition, str]
    ) -> dict[TopicPartition, RequestRefused | None]:
        """Move replicas of one broker to other log directories of that broker (KIP-113).

        The replicas can be read and written during the move; ``log_dirs`` reports its progress. The
        replica's present directory as the target cancels a move. For a replica that the broker does
        not have yet the broker refuses, but creates it later in that directory.

        Args:
            broker_id: The broker's id.
            directories: The path of the target directory for each partition.

        Returns:
            For each partition None if its move has begun, or why it has not.

        Raises:
            ClientError: The broker did not answer, or refused the whole request.
        """
        by_path: dict[str, dict[str, list[int]]] = {}
        for partition, path in sorted(directories.items()):
            topics = by_path.setdefault(path, {})
            topics.setdefault(partition.topic, []).append(partition.partition)
        request = AlterReplicaLogDirsRequest(
            [
                AlterReplicaLogDir(
                    path, [AlterReplicaLogDirTopic(*topic) for topic in topics.items()]
                )
                for path, topics in by_path.items()
            ]
        )

        async def ask(
            _: int, connection: Connection
        ) -> dict[TopicPartition, RequestRefused | None]:
            response = await connection.send(ALTER_REPLICA_LOG_DIRS, request)
            return moves_of(response, str(connection.address))

        answer = (await self._each([broker_id], ask))[broker_id]
        if isinstance(answer, ClientError):
            raise answer
        return answer

    async def unregister(self, broker_id: int) -> None:
        """Make the cluster forget a broker that will not come back.

        The controller drops what the cluster still keeps for the broker: the records of deleted
        topics whose directories the broker has not removed. If the broker comes back all the same,
        it keeps these directories and names them in a warning. Move its replicas to other brokers
        with ``Admin.placements`` before or after that.

        Args:
            broker_id: The broker's id. The broker must be stopped.

        Raises:
            RequestRefused: The broker is running (DUPLICATE_BROKER_REGISTRATION), or the cluster
                keeps nothing for it (BROKER_ID_NOT_REGISTERED).
            ClientError: The controller did not answer.
        """
        request = UnregisterBrokerRequest(whole("a broker", broker_id, 0, INT32_MAX))
        await self._router.to_controller(UNREGISTER_BROKER, request, check_cluster)

    async def _each(
        self,
        brokers: Iterable[int] | None,
        ask: Callable[[int, Connection], Awaitable[Answer]],
    ) -> dict[int, Answer | ClientError]:
        cluster = self._router.cluster
        if not cluster.metadata.brokers or cluster.is_stale:
            await cluster.describe([])
        known = cluster.metadata.brokers

        async def ask_one(node_id: int) -> Answer | ClientError:
            if node_id not in known:
                return RequestRefused(
                    ErrorCode.BROKER_NOT_AVAILABLE, f"the cluster lists no broker {node_id}"
                )
            try:
                async with cluster.in_time():
                    return await ask(node_id, await cluster.pool.connection(node_id))
            except ClientError as error:
                return error

        wanted = sorted(known) if brokers is None else list(brokers)
        answers = await asyncio.gather(*map(ask_one, wanted))
        return dict(zip(wanted, answers, strict=True))


def check_cluster(
    response: DescribeClusterResponse | UnregisterBrokerResponse, connection: Connection
) -> None:
    """Raise RequestRefused if the response has an error."""
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, response.error_message, broker=str(connection.address))


def moves_of(
    response: AlterReplicaLogDirsResponse, broker: str
) -> dict[TopicPartition, RequestRefused | None]:
    """Read the result of each requested move; None if the move has begun."""
    moves: dict[TopicPartition, RequestRefused | None] = {}
    for topic in response.results:
        for part in topic.partitions:
            code = error_code(part.error_code)
            where = TopicPartition(topic.topic_name, part.partition_index)
            moves[where] = None
            if code is not ErrorCode.NONE:
                moves[where] = RequestRefused(
                    code, broker=broker, topic=where.topic, partition=where.partition
                )
    return moves


def directory_of(node_id: int, broker: str, found: DescribeLogDirsResult) -> LogDirView:
    """Read one directory of a response."""
    code = error_code(found.error_code)
    replicas = tuple(
        ReplicaSize(
            TopicPartition(topic.name, part.partition_index),
            part.partition_size,
            part.offset_lag,
            part.is_future_key,
        )
        for topic in found.topics
        for part in topic.partitions
    )
    error = None if code is ErrorCode.NONE else RequestRefused(code, broker=broker)
    return LogDirView(
        node_id,
        found.log_dir,
        found.total_bytes,
        found.usable_bytes,
        tuple(sorted(replicas)),
        error,
    )
