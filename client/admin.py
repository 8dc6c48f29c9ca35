"""Administration: topics, partitions, records, configurations; as ``groups`` groups, as
``placements`` replicas and leaders, as ``transactions`` those, as ``features`` what is switched on,
as ``brokers`` what single brokers tell of themselves.

Calls over several things return one result for each, so that one refusal does not hide the
successes; calls over one thing raise. A change whose connection was lost before the answer raises
the TransportError and is not repeated: it may have been made.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from functools import partial
from typing import TYPE_CHECKING, Self, Unpack

from ottla.client.administration import topic_requests as requests
from ottla.client.administration.brokers import BrokerAdmin
from ottla.client.administration.features import FeatureAdmin
from ottla.client.administration.placements import Placements
from ottla.client.administration.transactions import TransactionAdmin
from ottla.client.cluster.cluster import Cluster
from ottla.client.cluster.config_requests import (
    ALTER_CONFIGS,
    DESCRIBE_CONFIGS,
    INCREMENTAL_ALTER_CONFIGS,
    ConfigChange,
    ConfigEntry,
    ResourceType,
    alter_request,
    check_altered,
    check_described,
    describe_request,
    entries_of,
    node_of,
    replace_request,
)
from ottla.client.cluster.routing import Router
from ottla.client.cluster.topic_pages import PAGE_PARTITIONS, PartitionDetail, describe_partitions
from ottla.client.fetching.offsets import OffsetAt, check_times, list_offsets
from ottla.client.group.administration import GroupAdmin
from ottla.client.process.environment import Environment, real_environment
from ottla.client.process.unclosed import warn_unclosed
from ottla.client.records.arguments import INT32_MAX, by_partition, check_text, texts, whole
from ottla.client.settings.config import ClientConfig, Isolation, parse_addresses
from ottla.client.settings.keywords import configured
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError, RequestRefused

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from ottla.client.administration.topic_requests import NewTopic
    from ottla.client.cluster.metadata import BrokerView, TopicView
    from ottla.client.settings.keywords import ClientSettings
    from ottla.protocol.ids import TopicPartition


class ClusterDescription(NamedTuple):
    """The cluster as one broker sees it; ``controller_id`` is -1 while there is none."""

    cluster_id: str | None
    controller_id: int
    brokers: list[BrokerView]


class Admin:
    """Use it as ``async with Admin("127.0.0.1:9092") as admin:``."""

    # Started and not closed, for ``__del__``, which also comes where ``__init__`` has failed.
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
        self._cluster = Cluster(world, parse_addresses(bootstrap), self.config)
        self._router = Router(self._cluster)
        self.brokers = BrokerAdmin(self._router)
        self.groups = GroupAdmin(self._router)
        self.placements = Placements(self._router, self._timeout_ms)
        self.transactions = TransactionAdmin(self._router)
        self.features = FeatureAdmin(self._router, self._timeout_ms)

    async def start(self) -> None:
        """Reach the cluster. Raises TransportError; a wrong address is BrokerUnreachable."""
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

    # Looking.

    async def describe_cluster(self) -> ClusterDescription:
        """Who is there."""
        await self._cluster.describe([])
        metadata = self._cluster.metadata
        brokers = [metadata.brokers[node_id] for node_id in sorted(metadata.brokers)]
        return ClusterDescription(metadata.cluster_id, metadata.controller_id, brokers)

    async def unreachable(self, brokers: Iterable[BrokerView]) -> set[int]:
        """Which of them cannot be connected to now, though the cluster lists them: a broker that
        died is listed until its session ends."""
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
        """All topics, internal ones too, by name."""
        return await self._cluster.describe(None)

    async def describe_topic(self, name: str) -> TopicView:
        """One topic with its partitions. Raises RequestRefused for an unknown one."""
        check_text("a topic", name)
        (view,) = await self._cluster.describe([name])
        if view.error is not ErrorCode.NONE:
            raise RequestRefused(view.error, topic=name)
        return view

    async def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAt | ClientError]:
        """Offsets at times in ms; -1 stands for the end, -2 for the beginning, and -3 for the
        record with the highest timestamp, which brokers before Kafka 3.0 do not know."""
        check_times(times)
        if not isinstance(isolation, Isolation):
            raise TypeError(f"isolation is an Isolation, not {isolation!r}")
        return await list_offsets(self._router, times, isolation)

    async def describe_configs(
        self, resource: ResourceType, name: str, keys: Sequence[str] | None = None
    ) -> list[ConfigEntry]:
        """The settings of a topic or broker, by name; all of them unless some are named.

        Raises RequestRefused."""
        request = describe_request(resource, name, keys)
        if resource is ResourceType.BROKER and name:
            response = await self._router.to_node(node_of(name), DESCRIBE_CONFIGS, request)
            check_described(response)
        else:
            response = await self._router.to_any(DESCRIBE_CONFIGS, request, check_described)
        return entries_of(response)

    async def describe_partitions(
        self, topics: Iterable[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[TopicPartition, PartitionDetail]:
        """The partitions of these topics, or of all, with what only newer brokers tell (KIP-966).

        Raises RequestRefused, and UnsupportedByBroker before Kafka 3.8."""
        names = None if topics is None else texts("topics", topics)
        return await describe_partitions(self._router, names, page_partitions)

    # Changing.

    async def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicView | RequestRefused]:
        """Create topics; a created one is described as the answer describes it."""
        if not isinstance(topics, Iterable):
            raise TypeError(f"topics to create are a list of NewTopic, not {topics!r}")
        request = requests.create_request(list(topics), self._timeout_ms, validate_only)
        response = await self._router.to_controller(
            requests.CREATE_TOPICS, request, requests.check_created
        )
        # The partitions of a new topic are worth knowing at once.
        self._cluster.mark_stale()
        return requests.created_topics(response)

    async def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> TopicView:
        """Create one topic. Raises RequestRefused."""
        results = await self.create_topics([topic], validate_only=validate_only)
        result = results[topic.name]
        if isinstance(result, RequestRefused):
            raise result
        return result

    async def delete_topics(self, names: Iterable[str]) -> dict[str, RequestRefused | None]:
        """Delete topics with all their records; None means deleted."""
        request = requests.delete_request(texts("topics", names), self._timeout_ms)
        response = await self._router.to_controller(
            requests.DELETE_TOPICS, request, requests.check_deleted
        )
        deleted = requests.deleted_topics(response)
        self._cluster.unfollow(deleted)
        return deleted

    async def create_partitions(self, topic: str, count: int) -> None:
        """Make the topic have that many partitions. Raises RequestRefused.

        Keys map to other partitions from then on."""
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
        """Delete each partition's records before an offset, -1 for all; the values are the new
        first offsets."""
        for offset in by_partition("offsets to delete before", before).values():
            whole("an offset to delete before", offset, -1)
        ask = partial(requests.delete_records, before, self._timeout_ms)
        return await self._router.by_leader(before, ask, is_repeatable=True)

    async def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some settings and leave the others (KIP-339). Raises RequestRefused."""
        request = alter_request(resource, name, changes, validate_only)
        if resource is ResourceType.BROKER and name:
            response = await self._router.to_node(node_of(name), INCREMENTAL_ALTER_CONFIGS, request)
            check_altered(response)
        else:
            await self._router.to_controller(INCREMENTAL_ALTER_CONFIGS, request, check_altered)

    async def replace_configs(
        self,
        resource: ResourceType,
        name: str,
        values: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Have exactly these settings; all others go back to their defaults. For brokers before
        2.3, which know no single changes. Raises RequestRefused."""
        request = replace_request(resource, name, values, validate_only)
        if resource is ResourceType.BROKER and name:
            response = await self._router.to_node(node_of(name), ALTER_CONFIGS, request)
            check_altered(response)
        else:
            await self._router.to_controller(ALTER_CONFIGS, request, check_altered)

    @property
    def _timeout_ms(self) -> int:
        # The controller gives up before the connection does.
        return int(self.config.request_timeout_ms * 0.9)
