"""Creates topics that a client needs, above all the cluster's internal topics.

They are created at their first use (FindCoordinator, Metadata), with the settings of the broker's
configuration, never with a client's.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import TopicSpec
from ottla.coordinator.metadata.image import AUDIT_TOPIC, INTERNAL_TOPICS
from ottla.protocol.errors import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.broker.administration.cluster_admin import TopicResult
    from ottla.broker.administration.topic_creation import TopicCreation
    from ottla.broker.engine.tasks import Tasks
    from ottla.coordinator.configs.broker_configs import BrokerConfig

logger = logging.getLogger("ottla.coordinator")

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
# Another number of partitions would map every group to another coordinator, which lacks its state.
FIXED_TOPICS = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
# None of Kafka's tools has to write these topics.
_WITHOUT_TOOLS = frozenset({TRANSACTIONS_TOPIC, AUDIT_TOPIC})
# Client id of Kafka's admin tools, which may write what other clients may not.
ADMIN_CLIENT_ID = "__admin_client"
# Purpose of the brokers' connections for the audit topic; their client ids begin with it.
AUDIT_PURPOSE = "audit"
DEFAULT = -1
_CREATE_TIMEOUT_MS = 30_000
# Topics that could not be created, by name; limited, because clients choose the names.
_REMEMBERED_MAX = 1_000


def is_closed_to(client_id: str, topic: str) -> bool:
    """Whether that client must not produce to the topic: one stray record would be read as a
    commit, prevent a partition from loading, or forge a line of the audit log (TXN-07)."""
    is_tool = client_id == ADMIN_CLIENT_ID and topic not in _WITHOUT_TOOLS
    return topic in INTERNAL_TOPICS and not is_tool


def is_audit_writer(client_id: str) -> bool:
    """Whether the client id is the one of brokers that write the audit log."""
    return client_id.startswith(f"{AUDIT_PURPOSE}-")


def flaw_of(topic: str, configs: Mapping[str, str | None]) -> str | None:
    """Return why an administrator must not create an internal topic with these settings."""
    policy = configs.get("cleanup.policy")
    if topic in FIXED_TOPICS and policy is not None and policy.strip() != "compact":
        return f"{topic} has to be compacted: retention would delete what still counts"
    if topic == AUDIT_TOPIC and policy is not None and policy.strip() not in ("", "delete"):
        return f"{topic} must not be compacted: its lines have no keys"
    return None


def flaw_of_all(topic: str, configs: Mapping[str, str]) -> str | None:
    """Return why an internal topic must not have only these settings and defaults for the
    others."""
    return flaw_of(topic, {"cleanup.policy": configs.get("cleanup.policy", "")})


class InternalTopics:
    """Owned by the server; handlers request missing topics from it."""

    def __init__(self, config: BrokerConfig, making: TopicCreation, tasks: Tasks) -> None:
        self._config = config
        self._making = making
        self._tasks = tasks
        self._underway: set[str] = set()
        self._last_error: dict[str, str] = {}

    def spec(self, topic: str) -> TopicSpec:
        """How to create an internal topic at its first use."""
        config = self._config
        if topic == OFFSETS_TOPIC:
            return TopicSpec(
                topic,
                partition_count=config.offsets_topic_num_partitions,
                replication_factor=config.offsets_topic_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "producer",
                    "segment.bytes": str(config.offsets_topic_segment_bytes),
                },
            )
        if topic == TRANSACTIONS_TOPIC:
            return TopicSpec(
                topic,
                partition_count=config.transaction_state_log_num_partitions,
                replication_factor=config.transaction_state_log_replication_factor,
                configs={
                    "cleanup.policy": "compact",
                    "compression.type": "uncompressed",
                    "unclean.leader.election.enable": "false",
                    "min.insync.replicas": str(config.transaction_state_log_min_isr),
                    "segment.bytes": str(config.transaction_state_log_segment_bytes),
                },
            )
        if topic == AUDIT_TOPIC:
            return TopicSpec(
                topic,
                # One partition, so that readers see the lines of all brokers in one order.
                partition_count=1,
                replication_factor=config.audit_topic_replication_factor,
                configs={
                    "cleanup.policy": "delete",
                    "compression.type": "producer",
                    "retention.bytes": "-1",
                    "retention.ms": str(config.audit_topic_retention_ms),
                },
            )
        return TopicSpec(topic)

    def completed(self, spec: TopicSpec) -> TopicSpec:
        """Return an administrator's request, completed for an internal topic with our settings."""
        own = self.spec(spec.name)
        if spec.assignment is None:
            if spec.partition_count == DEFAULT:
                spec = replace(spec, partition_count=own.partition_count)
            if spec.replication_factor == DEFAULT:
                spec = replace(spec, replication_factor=own.replication_factor)
        return replace(spec, configs={**own.configs, **spec.configs}) if own.configs else spec

    def request(self, topics: Iterable[str]) -> None:
        """Request topics that are not being created yet; the clients that need them retry."""
        fresh = [topic for topic in topics if topic not in self._underway]
        if fresh:
            self._underway.update(fresh)
            self._tasks.spawn(f"make {', '.join(fresh)}", self._make(fresh))

    def is_underway(self, topic: str) -> bool:
        """Whether the topic is being created."""
        return topic in self._underway

    async def _make(self, topics: list[str]) -> None:
        try:
            results = await self._making.make(
                [self.spec(topic) for topic in topics], timeout_ms=_CREATE_TIMEOUT_MS
            )
        finally:
            self._underway.difference_update(topics)
        for result in results:
            self._tell(result)

    def _tell(self, result: TopicResult) -> None:
        """Warn the operator once per reason: clients ask many times a second."""
        topic, error = result.name, result.error_code
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            self._last_error.pop(topic, None)
            return
        reason = result.message or error.text
        if self._last_error.get(topic) == reason:
            return
        if len(self._last_error) >= _REMEMBERED_MAX:
            self._last_error.clear()
        self._last_error[topic] = reason
        logger.warning("%s cannot be created yet: %s", topic, reason)
