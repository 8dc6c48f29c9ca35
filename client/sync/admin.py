"""Blocking Admin: ``client/admin.py`` on a shared loop thread.

Written by ``python -m tests.sync_faces``, not by hand.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.admin import Admin as AsyncAdmin
from ottla.client.cluster.topic_pages import PAGE_PARTITIONS
from ottla.client.settings.config import ClientConfig, Isolation
from ottla.client.sync.brokers import BrokerAdmin
from ottla.client.sync.face import Face
from ottla.client.sync.features import FeatureAdmin
from ottla.client.sync.groups import GroupAdmin
from ottla.client.sync.placements import Placements
from ottla.client.sync.transactions import TransactionAdmin

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType
    from typing import Self, Unpack

    from ottla.client.admin import ClusterDescription
    from ottla.client.administration.topic_requests import NewTopic
    from ottla.client.cluster.config_requests import ConfigChange, ConfigEntry, ResourceType
    from ottla.client.cluster.metadata import BrokerView, TopicView
    from ottla.client.cluster.topic_pages import PartitionDetail
    from ottla.client.fetching.offsets import OffsetAt
    from ottla.client.process.environment import Environment
    from ottla.client.settings.keywords import ClientSettings
    from ottla.protocol.ids import TopicPartition
    from ottla.wire.errors import ClientError, RequestRefused


class Admin(Face):
    """Use it as ``with ottla.sync.Admin("127.0.0.1:9092") as admin:``.

    It is ``ottla.Admin`` for programs that block, and may be used by several threads.
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
        self.brokers = BrokerAdmin(self._client.brokers, self._loop)

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
        """Reach the cluster."""
        self._run(self._inner.start())

    def close(self) -> None:
        """Close the connections."""
        self._call(lambda: self._inner.close())

    def describe_cluster(self) -> ClusterDescription:
        """Who is there."""
        return self._run(self._inner.describe_cluster())

    def unreachable(self, brokers: Iterable[BrokerView]) -> set[int]:
        """Which of them cannot be connected to now, though the cluster lists them: a broker that
        died is listed until its session ends."""
        return self._run(self._inner.unreachable(brokers))

    def list_topics(self) -> list[TopicView]:
        """All topics, internal ones too, by name."""
        return self._run(self._inner.list_topics())

    def describe_topic(self, name: str) -> TopicView:
        """One topic with its partitions."""
        return self._run(self._inner.describe_topic(name))

    def list_offsets(
        self, times: Mapping[TopicPartition, int], isolation: Isolation = Isolation.READ_UNCOMMITTED
    ) -> dict[TopicPartition, OffsetAt | ClientError]:
        """Offsets at times in ms; -1 stands for the end, -2 for the beginning, and -3 for the
        record with the highest timestamp, which brokers before Kafka 3.0 do not know."""
        return self._run(self._inner.list_offsets(times, isolation))

    def describe_configs(
        self, resource: ResourceType, name: str, keys: Sequence[str] | None = None
    ) -> list[ConfigEntry]:
        """The settings of a topic or broker, by name; all of them unless some are named."""
        return self._run(self._inner.describe_configs(resource, name, keys))

    def describe_partitions(
        self, topics: Iterable[str] | None = None, *, page_partitions: int = PAGE_PARTITIONS
    ) -> dict[TopicPartition, PartitionDetail]:
        """The partitions of these topics, or of all, with what only newer brokers tell
        (KIP-966)."""
        return self._run(self._inner.describe_partitions(topics, page_partitions=page_partitions))

    def create_topics(
        self, topics: Iterable[NewTopic], *, validate_only: bool = False
    ) -> dict[str, TopicView | RequestRefused]:
        """Create topics; a created one is described as the answer describes it."""
        return self._run(self._inner.create_topics(topics, validate_only=validate_only))

    def create_topic(self, topic: NewTopic, *, validate_only: bool = False) -> TopicView:
        """Create one topic."""
        return self._run(self._inner.create_topic(topic, validate_only=validate_only))

    def delete_topics(self, names: Iterable[str]) -> dict[str, RequestRefused | None]:
        """Delete topics with all their records; None means deleted."""
        return self._run(self._inner.delete_topics(names))

    def create_partitions(self, topic: str, count: int) -> None:
        """Make the topic have that many partitions."""
        self._run(self._inner.create_partitions(topic, count))

    def delete_records(
        self, before: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int | ClientError]:
        """Delete each partition's records before an offset, -1 for all; the values are the new
        first offsets."""
        return self._run(self._inner.delete_records(before))

    def alter_configs(
        self,
        resource: ResourceType,
        name: str,
        changes: Sequence[ConfigChange],
        *,
        validate_only: bool = False,
    ) -> None:
        """Change some settings and leave the others (KIP-339)."""
        self._run(self._inner.alter_configs(resource, name, changes, validate_only=validate_only))

    def replace_configs(
        self,
        resource: ResourceType,
        name: str,
        values: Mapping[str, str],
        *,
        validate_only: bool = False,
    ) -> None:
        """Have exactly these settings; all others go back to their defaults."""
        self._run(self._inner.replace_configs(resource, name, values, validate_only=validate_only))
