"""The configuration in force on this broker: its file, what was set for brokers, and for topics.

Values come from the metadata image as texts and are typed once per change, not per request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metadata.topic_settings import TopicSettings, topic_settings
from ottla.coordinator.configs.config_changes import (
    ConfigAlteration,
    change_broker_configs,
    change_group_configs,
    change_topic_configs,
    check_broker_configs,
    check_group_configs,
    check_topic_configs,
)
from ottla.coordinator.configs.configs import (
    ConfigSources,
    EffectiveConfig,
    describe_broker,
    describe_topic,
    topic_config,
)
from ottla.coordinator.configs.group_configs import describe_group
from ottla.protocol.configs import ConfigSource
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from ottla.coordinator.configs.broker_configs import BrokerConfig
    from ottla.coordinator.configs.client_metrics import ClientMetricsRules

TOPICS = "topics"
BROKERS = "brokers"
GROUPS = "groups"
CLIENT_METRICS = "client-metrics"
EVERY_BROKER = "<default>"
# So many different settings of topics are kept.
SAME_MAX = 1_000


class ConfigTarget(NamedTuple):
    """Whose settings are meant: a type of Kafka's (topics, brokers, groups, client-metrics) and a
    name."""

    entity_type: str
    name: str

    @property
    def is_topic(self) -> bool:
        return self.entity_type == TOPICS

    @property
    def is_group(self) -> bool:
        return self.entity_type == GROUPS

    @property
    def is_client_metrics(self) -> bool:
        return self.entity_type == CLIENT_METRICS


class Settings:
    """Owned by the server. ``stored`` gives what was set for an entity, without defaults."""

    def __init__(
        self,
        config: BrokerConfig,
        node_id: int,
        stored: Callable[[str, str], Mapping[str, str]],
    ) -> None:
        self._static = config.static
        self._node_id = node_id
        self._stored = stored
        self._topics: dict[str, TopicSettings] = {}
        self._same: dict[frozenset[tuple[str, str]], TopicSettings] = {}

    @property
    def sources(self) -> ConfigSources:
        """What is set for brokers, strongest first."""
        return ConfigSources(
            self._stored(BROKERS, str(self._node_id)),
            self._stored(BROKERS, EVERY_BROKER),
            self._static,
        )

    def for_topic(self, topic: str) -> TopicSettings:
        """What counts for a topic now."""
        found = self._topics.get(topic)
        if found is None:
            own = self._stored(TOPICS, topic)
            # Most topics have the same settings, and working them out takes most of a millisecond.
            key = frozenset(own.items())
            found = self._same.get(key)
            if found is None:
                if len(self._same) >= SAME_MAX:
                    self._same.clear()
                found = self._same[key] = topic_settings(topic_config(own, self.sources))
            self._topics[topic] = found
        return found

    @property
    def verifies_transactions(self) -> bool:
        """transaction.partition.verification.enable, as it is now."""
        text = self.sources.text("transaction.partition.verification.enable")
        return text is None or text.strip().lower() != "false"

    def forget(self, topic: str | None = None) -> None:
        """The topic's settings have changed, or with None those of all (a broker's have)."""
        if topic is None:
            self._topics.clear()
            self._same.clear()
        else:
            self._topics.pop(topic, None)

    def describe(self, target: ConfigTarget) -> list[EffectiveConfig]:
        """Every setting with its value, source, synonyms and documentation."""
        if target.is_topic:
            return describe_topic(self._stored(TOPICS, target.name), self.sources)
        if target.is_group:
            return describe_group(self._stored(GROUPS, target.name), self.sources)
        if target.is_client_metrics:
            return _client_metrics_rules().describe(self.stored(target))
        if target.name == EVERY_BROKER:
            dynamic = self._stored(BROKERS, EVERY_BROKER)
            entries = describe_broker(ConfigSources(cluster_wide=dynamic))
            return [_without_default(entry) for entry in entries if entry.name in dynamic]
        return describe_broker(self.sources)

    def describe_new_topic(self, configs: Mapping[str, str]) -> list[EffectiveConfig]:
        """As ``describe`` for a topic that is being made with these settings."""
        return describe_topic(configs, self.sources)

    def replaced(self, target: ConfigTarget, wanted: Mapping[str, str | None]) -> dict[str, str]:
        """The settings that AlterConfigs asks for, checked. Raises KafkaError."""
        if target.is_topic:
            return check_topic_configs(wanted)
        if target.is_group:
            return check_group_configs(wanted, self.sources)
        if target.is_client_metrics:
            return _client_metrics_rules().check(wanted)
        return check_broker_configs(wanted, for_one_broker=target.name != EVERY_BROKER)

    def changed(
        self,
        target: ConfigTarget,
        current: Mapping[str, str],
        changes: Sequence[ConfigAlteration],
    ) -> dict[str, str]:
        """The settings after IncrementalAlterConfigs, checked. Raises KafkaError."""
        if target.is_topic:
            return change_topic_configs(current, changes)
        if target.is_group:
            return change_group_configs(current, changes, self.sources)
        if target.is_client_metrics:
            return _client_metrics_rules().change(current, changes)
        return change_broker_configs(current, changes, for_one_broker=target.name != EVERY_BROKER)

    def stored(self, target: ConfigTarget) -> Mapping[str, str]:
        """What was set for the target, without defaults."""
        return self._stored(target.entity_type, target.name)


def _client_metrics_rules() -> type[ClientMetricsRules]:
    """Loaded when a subscription to metrics of clients is looked at or changed."""
    from ottla.coordinator.configs.client_metrics import ClientMetricsRules

    return ClientMetricsRules


def _without_default(entry: EffectiveConfig) -> EffectiveConfig:
    """What is set for all brokers is shown alone."""
    synonyms = tuple(one for one in entry.synonyms if one.source is not ConfigSource.DEFAULT)
    return entry._replace(synonyms=synonyms)
