"""Blocking Admin: ``client/admin.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin as AsyncAdmin
from ottla.client.cluster.topic_pages import PAGE_PARTITIONS
from ottla.client.settings.config import ClientConfig, Isolation
from ottla.client.settings.listing import lists_settings
from ottla.client.sync.acls import AclAdmin
from ottla.client.sync.brokers import BrokerAdmin
from ottla.client.sync.face import Face
from ottla.client.sync.features import FeatureAdmin
from ottla.client.sync.groups import GroupAdmin
from ottla.client.sync.placements import Placements
from ottla.client.sync.quotas import QuotaAdmin
from ottla.client.sync.tokens import TokenAdmin
from ottla.client.sync.transactions import TransactionAdmin
from ottla.client.sync.users import UserAdmin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Any, Self, Unpack

    from ottla.client.admin import ClusterDescription
    from ottla.client.administration.config_calls import ConfigCalls as AsyncConfigCalls
    from ottla.client.administration.topic_requests import NewTopic
    from ottla.client.cluster.config_requests import ConfigChange, ConfigEntry, ResourceType
    from ottla.client.cluster.metadata import BrokerView, TopicView
    from ottla.client.cluster.topic_pages import PartitionDetail
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.client.process.environment import Environment
    from ottla.client.settings.keywords import ClientSettings
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import ClientError, RequestRefused


class ConfigCalls(Face):
    """The calls of ``client.administration.config_calls``."""

    @property
    def _inner(self) -> AsyncConfigCalls:
        raise NotImplementedError

    def describe_configs(
        self,
        resource: ResourceType,
        name: str,
        keys: Sequence[str] | None = None,
        *,
        with_documentation: bool = False,
    ) -> list[ConfigEntry]:
        """Return the settings of a topic, a broker or a group.

        Args:
            resource: What kind of thing has the settings.
            name: The topic's name, the broker's id as text, or the group's name.
            keys: The names of the settings; None (default) for all.
            with_documentation: Also ask what each setting means (KIP-569); False by default.

        Returns:
            The settings by name.

        Raises:
            RequestRefused: The broker refused.
            UnsupportedByBroker: The broker is too old for ``with_documentation``.
        """
        return self._run(
            self._inner.describe_configs(
                resource, name, keys, with_documentation=with_documentation
            )
        )

    def list_metrics_subscriptions(self) -> list[str]:
        """Return the names of all subscriptions to metrics of clients (KIP-714).

        Their settings are those of resources of the type ``ResourceType.CLIENT_METRICS``.

        Returns:
            The names, sorted.

        Raises:
            RequestRefused: The broker refused.
            UnsupportedByBroker: The broker is older than Kafka 3.7.
        """
        return self._run(self._inner.list_metrics_subscriptions())

    def record_progress(
        self, topic: str, partition: int, offset: int
    ) -> dict[int, dict[str, Any] | None]:
        """Ask every broker what it remembers of a record's way to the replicas.

        Only brokers of Ottla with ``ottla.trace.interval.ms`` remember it, in marks of which each
        broker keeps 50,000.

        Args:
            topic: The topic's name.
            partition: The partition's number.
            offset: The record's offset.

        Returns:
            What each broker remembers from its time as the leader, by broker id; None if it
            remembers nothing of the partition. A broker that keeps no marks is left out.

        Raises:
            RequestRefused: A broker refused.
        """
        return self._run(self._inner.record_progress(topic, partition, offset))

    def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some settings and leave the others (KIP-339).

        Args:
            resource: What kind of thing has the settings.
            name: The topic's name, the broker's id as text (empty for all brokers), or the group's
                name.
            changes: The changes.
            validate_only: Only check the changes; False by default.

        Raises:
            RequestRefused: A change is invalid.
        """
        self._run(self._inner.alter_configs(resource, name, changes, validate_only=validate_only))

    def replace_configs(
        self,
        resource: ResourceType,
        name: str,
        values: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Set exactly these settings and reset all others to their defaults.

        For brokers older than Kafka 2.3, which cannot change single settings.

        Args:
            resource: What kind of thing has the settings.
            name: The topic's name, or the broker's id as text (empty for all brokers).
            values: The value of each setting by name.
            validate_only: Only check the settings; False by default.

        Raises:
            RequestRefused: A setting is invalid.
        """
        self._run(self._inner.replace_configs(resource, name, values, validate_only=validate_only))


@lists_settings(ClientConfig)
class Admin(ConfigCalls):
    """``ottla.Admin`` for blocking code; several threads may use it.

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
        with ottla.sync.Admin("127.0.0.1:9092") as admin:
            admin.create_topic(ottla.NewTopic("orders", partition_count=6))
    """

    def __init__(
        self,
        bootstrap: str,
        config: ClientConfig | None = None,
        environment: Environment | None = None,
        **settings: Unpack[ClientSettings],
    ) -> None:
        super().__init__()
        self._client = self._call(lambda: AsyncAdmin(bootstrap, config, environment, **settings))
        self.groups = GroupAdmin(self._client.groups, self._loop)
        self.placements = Placements(self._client.placements, self._loop)
        self.transactions = TransactionAdmin(self._client.transactions, self._loop)
        self.features = FeatureAdmin(self._client.features, self._loop)
        self.quotas = QuotaAdmin(self._client.quotas, self._loop)
        self.tokens = TokenAdmin(self._client.tokens, self._loop)
        self.users = UserAdmin(self._client.users, self._loop)
        self.brokers = BrokerAdmin(self._client.brokers, self._loop)
        self.acls = AclAdmin(self._client.acls, self._loop)

    @property
    def config(self) -> ClientConfig:
        """The settings."""
        return self._inner.config

    @property
    def _inner(self) -> AsyncAdmin:
        return self._client

    def __enter__(self) -> Self:
        self._run(self._inner.__aenter__())
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._run(self._inner.__aexit__(kind, error, traceback))

    def start(self) -> None:
        """Connect to the cluster. ``with`` calls it.

        Raises:
            TransportError: No broker answered; BrokerUnreachable for a wrong address.
        """
        self._run(self._inner.start())

    def close(self) -> None:
        """Close the connections."""
        self._call(lambda: self._inner.close())

    def describe_cluster(self) -> ClusterDescription:
        """Describe the cluster: its id, its controller and its live brokers."""
        return self._run(self._inner.describe_cluster())

    def unreachable(self, brokers: Iterable[BrokerView]) -> set[int]:
        """Find the brokers that accept no connection although the cluster lists them.

        The cluster lists a broker that died until its session ends.

        Args:
            brokers: The brokers to try, from ``describe_cluster``.

        Returns:
            The ids of the brokers that cannot be reached.
        """
        return self._run(self._inner.unreachable(brokers))

    def list_topics(self) -> list[TopicView]:
        """List all topics by name, including internal topics."""
        return self._run(self._inner.list_topics())

    def describe_topic(self, name: str) -> TopicView:
        """Describe one topic and its partitions.

        Args:
            name: The topic's name.

        Returns:
            The topic with its partitions, leaders and replicas.

        Raises:
            RequestRefused: The topic does not exist.
        """
        return self._run(self._inner.describe_topic(name))

    def list_offsets(
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
        return self._run(self._inner.list_offsets(times, isolation))

    def describe_partitions(
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
        return self._run(self._inner.describe_partitions(topics, page_partitions=page_partitions))

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicView | RequestRefused]:
        """Create topics.

        Args:
            topics: The topics to create.
            validate_only: Only check whether they could be created; False by default.

        Returns:
            For each name the created topic, or why it was not created.
        """
        return self._run(self._inner.create_topics(topics, validate_only=validate_only))

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> TopicView:
        """Create one topic.

        Args:
            topic: The topic to create.
            validate_only: Only check whether it could be created; False by default.

        Returns:
            The created topic.

        Raises:
            RequestRefused: The topic was not created.
        """
        return self._run(self._inner.create_topic(topic, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> dict[str, RequestRefused | None]:
        """Delete topics with all their records.

        Args:
            names: The topics' names.

        Returns:
            For each name None if it was deleted, or why it was not.
        """
        return self._run(self._inner.delete_topics(names))

    def create_partitions(self, topic: str, count: int) -> None:
        """Add partitions to a topic. Keys map to other partitions from then on.

        Args:
            topic: The topic's name.
            count: How many partitions the topic has afterwards.

        Raises:
            RequestRefused: The controller refused.
        """
        self._run(self._inner.create_partitions(topic, count))

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ClientError]:
        """Delete the records of partitions before an offset.

        Args:
            before: For each partition the first offset to keep; -1 deletes all records.

        Returns:
            For each partition its new log start offset, or the error.
        """
        return self._run(self._inner.delete_records(before))
