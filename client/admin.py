"""Administers a cluster: topics, partitions, records and configurations.

``Admin`` has parts: ``groups``, ``placements`` (replicas and leaders), ``transactions``,
``features``, ``quotas``, ``users``, ``tokens`` (delegation tokens), ``acls`` (access rules) and
``brokers``. Calls about several things return a result for each, so that one refusal does not hide
the successes; calls about one thing raise. If the connection is lost before the answer to a change
arrives, the call raises TransportError and does not repeat the change, because it may have been
made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.administration import topic_requests as requests
from ottla.client.administration.acls import AclAdmin
from ottla.client.administration.brokers import BrokerAdmin
from ottla.client.administration.config_calls import ConfigCalls
from ottla.client.administration.features import FeatureAdmin
from ottla.client.administration.placements import Placements
from ottla.client.administration.quotas import QuotaAdmin
from ottla.client.administration.transactions import TransactionAdmin
from ottla.client.administration.users import UserAdmin
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.routing import Router
from ottla.client.cluster.topic_pages import PAGE_PARTITIONS, PartitionDetail, describe_partitions
from ottla.client.fetching.offsets import OffsetAt, check_times, list_offsets
from ottla.client.group.administration import GroupAdmin
from ottla.client.process.environment import Environment, real_environment
from ottla.client.process.unclosed import warn_unclosed
from ottla.client.records.arguments import INT32_MAX, by_partition, check_text, texts, whole
from ottla.client.settings.config import ClientConfig, Isolation, parse_addresses
from ottla.client.settings.keywords import configured
from ottla.client.settings.listing import lists_settings
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from ottla.client.administration.tokens import TokenAdmin
    from ottla.client.administration.topic_requests import NewTopic
    from ottla.client.cluster.metadata import BrokerView, TopicView
    from ottla.client.settings.keywords import ClientSettings
    from ottla.protocol.ids import TopicPartition


class ClusterDescription(NamedTuple):
    """The cluster as one broker sees it.

    Attributes:
        cluster_id: The cluster's id; None from very old brokers.
        controller_id: The id of the controller; -1 if there is none.
        brokers: The live brokers.
    """

    cluster_id: str | None
    controller_id: int
    brokers: list[BrokerView]


def _token_admin() -> type[TokenAdmin]:
    """Loaded when it is first needed: it takes four APIs of its own."""
    from ottla.client.administration.tokens import TokenAdmin

    return TokenAdmin


@lists_settings(ClientConfig)
class Admin(ConfigCalls):
    """Administers a cluster, from one event loop.

    Args:
        bootstrap: Addresses of some brokers, as ``"host:port,host:port"``; the port defaults to
            9092.
        config: Settings as an object; the defaults of ``ClientConfig`` if None.
        environment: Clock, network and random source; the real ones if None. For simulations.
        settings: Single settings, which override those of ``config``.

    Raises:
        ValueError: A setting has an invalid value, or settings contradict each other.
        TypeError: A setting is unknown or has the wrong type.

    Example:
        async with ottla.Admin("127.0.0.1:9092") as admin:
            await admin.create_topic(ottla.NewTopic("orders", partition_count=6))
    """

    # Started and not closed, for ``__del__``, which also runs if ``__init__`` has failed.
    _is_open = False

    def __init__(
        self,
        bootstrap: str,
        config: ClientConfig | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        self.config = configured(config or ClientConfig(), settings)
        world = environment or real_environment()
        self._cluster = ClusterClient(world, parse_addresses(bootstrap), self.config)
        self._router = Router(self._cluster)
        self.acls = AclAdmin(self._router)
        self.brokers = BrokerAdmin(self._router)
        self.groups = GroupAdmin(self._router)
        self.placements = Placements(self._router, self._timeout_ms)
        self.transactions = TransactionAdmin(self._router)
        self.features = FeatureAdmin(self._router, self._timeout_ms)
        self.quotas = QuotaAdmin(self._router)
        self.users = UserAdmin(self._router)

    @property
    def tokens(self) -> TokenAdmin:
        """Administers delegation tokens."""
        return _token_admin()(self._router)

    async def start(self) -> None:
        """Connect to the cluster. ``async with`` calls it.

        Raises:
            TransportError: No broker answered; BrokerUnreachable for a wrong address.
        """
        try:
            await self._cluster.refresh()
        except BaseException:
            self._cluster.close()
            raise
        self._is_open = True

    def close(self) -> None:
        """Close the connections."""
        self._is_open = False
        self._cluster.close()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def __del__(self) -> None:
        if self._is_open:
            warn_unclosed(self)

    # Reading.

    async def describe_cluster(self) -> ClusterDescription:
        """Describe the cluster: its id, its controller and its live brokers."""
        await self._cluster.describe([])
        metadata = self._cluster.metadata
        brokers = [metadata.brokers[node_id] for node_id in sorted(metadata.brokers)]
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, brokers)

    async def unreachable(self, brokers: Iterable[BrokerView]) -> set[int]:
        """Find the brokers that accept no connection although the cluster lists them.

        The cluster lists a broker that died until its session ends.

        Args:
            brokers: The brokers to try, from ``describe_cluster``.

        Returns:
            The ids of the brokers that cannot be reached.
        """
        found: set[int] = set()

        async def reach(node_id: int) -> None:
            try:
                async with self._cluster.in_time():
                    await self._cluster.pool.connection(node_id)
            except (ClientError, KeyError):
                # KeyError: it has left the cluster meanwhile.
                found.add(node_id)

        await asyncio.gather(*(reach(broker.node_id) for broker in brokers))
        return found

    async def list_topics(self) -> list[TopicView]:
        """List all topics by name, including internal topics."""
        return await self._cluster.describe(None)

    async def describe_topic(self, name: str) -> TopicView:
        """Describe one topic and its partitions.

        Args:
            name: The topic's name.

        Returns:
            The topic with its partitions, leaders and replicas.

        Raises:
            RequestRefused: The topic does not exist.
        """
        check_text("a topic", name)
        (view,) = await self._cluster.describe([name])
        if view.error is not ErrorCode.NONE:
            raise RequestRefused(view.error, topic=name)
        return view

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAt | ClientError]:
        """Find for each partition the first record at or after a time.

        Args:
            times: A time in milliseconds since 1970 for each partition. -1 means the end, -2 the
                beginning, and -3 the record with the highest timestamp (brokers from Kafka 3.0 on).
            isolation: READ_COMMITTED ends before the first open transaction; READ_UNCOMMITTED
                (default) at the high watermark.

        Returns:
            The offset, or the error, of each partition.
        """
        check_times(times)
        if not isinstance(isolation, Isolation):
            raise TypeError(f"isolation is an Isolation, not {isolation!r}")
        return await list_offsets(self._router, times, isolation)

    async def describe_partitions(
        self, topics: Iterable[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[TopicPartition, PartitionDetail]:
        """Describe partitions with their eligible leader replicas (KIP-966).

        Args:
            topics: Names of topics; None (default) for all.
            page_partitions: How many partitions one request asks for.

        Returns:
            The details of each partition.

        Raises:
            RequestRefused: A topic does not exist.
            UnsupportedByBroker: The broker is older than Kafka 3.8.
        """
        names = None if topics is None else texts("topics", topics)
        return await describe_partitions(self._router, names, page_partitions)

    # Changing.

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicView | RequestRefused]:
        """Create topics.

        Args:
            topics: The topics to create.
            validate_only: Only check whether they could be created; False by default.

        Returns:
            For each name the created topic, or why it was not created.
        """
        if not isinstance(topics, Iterable):
            raise TypeError(f"topics to create are a list of NewTopic, not {topics!r}")
        request = requests.create_request(list(topics), self._timeout_ms, validate_only)
        response = await self._router.to_controller(
            requests.CREATE_TOPICS, request, requests.check_created
        )
        # Learn the partitions of a new topic at once.
        self._cluster.mark_stale()
        return requests.created_topics(response)

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> TopicView:
        """Create one topic.

        Args:
            topic: The topic to create.
            validate_only: Only check whether it could be created; False by default.

        Returns:
            The created topic.

        Raises:
            RequestRefused: The topic was not created.
        """
        results = await self.create_topics([topic], validate_only=validate_only)
        result = results[topic.name]
        if isinstance(result, RequestRefused):
            raise result
        return result

    async def delete_topics(self, names: Iterable[str]) -> dict[str, RequestRefused | None]:
        """Delete topics with all their records.

        Args:
            names: The topics' names.

        Returns:
            For each name None if it was deleted, or why it was not.
        """
        request = requests.delete_request(texts("topics", names), self._timeout_ms)
        response = await self._router.to_controller(
            requests.DELETE_TOPICS, request, requests.check_deleted
        )
        deleted = requests.deleted_topics(response)
        self._cluster.unfollow(deleted)
        return deleted

    async def create_partitions(self, topic: str, count: int) -> None:
        """Add partitions to a topic. Keys map to other partitions from then on.

        Args:
            topic: The topic's name.
            count: How many partitions the topic has afterwards.

        Raises:
            RequestRefused: The controller refused.
        """
        check_text("a topic", topic)
        count = whole("the number of partitions", count, 1, INT32_MAX)
        request = requests.partitions_request(topic, count, self._timeout_ms)
        await self._router.to_controller(
            requests.CREATE_PARTITIONS, request, requests.check_partitions
        )
        self._cluster.mark_stale()

    async def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ClientError]:
        """Delete the records of partitions before an offset.

        Args:
            before: For each partition the first offset to keep; -1 deletes all records.

        Returns:
            For each partition its new log start offset, or the error.
        """
        for offset in by_partition("offsets to delete before", before).values():
            whole("an offset to delete before", offset, -1)
        ask = partial(requests.delete_records, before, self._timeout_ms)
        return await self._router.by_leader(before, ask, is_repeatable=True)

    @property
    def _timeout_ms(self) -> int:
        # The controller times out before the connection does.
        return int(self.config.request_timeout_ms * 0.9)
