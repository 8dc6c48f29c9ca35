"""Topics that this broker needs made, wherever the controller is.

An administrator's request that reaches the wrong broker is refused, and his client finds the right
one. A client that merely asked about a topic, or a group that needs the offsets topic, cannot: this
broker asks the controller in their place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import TopicResult, TopicSpec
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, KafkaError, error_code
from ottla.protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.wire.api import declare
from ottla.wire.errors import ClientError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.administration.cluster_admin import ClusterAdmin
    from ottla.broker.membership.peers import Peers
    from ottla.broker.metadata.metadata import MetadataCache
    from ottla.coordinator.metadata.image import MetadataImage
    from ottla.protocol.ports import Clock

_CREATE_TOPICS = declare(ApiKey.CREATE_TOPICS, CreateTopicsRequest, CreateTopicsResponse, 7, 7)


class TopicCreation:
    """Owned by the server."""

    def __init__(
        self, admin: ClusterAdmin, peers: Peers, metadata: MetadataCache, clock: Clock
    ) -> None:
        self._admin = admin
        self._peers = peers
        self._metadata = metadata
        self._clock = clock

    async def make(self, specs: Sequence[TopicSpec], *, timeout_ms: float) -> list[TopicResult]:
        """Make topics, each named once; a topic that was made shows in this broker's metadata."""
        deadline_ms = self._clock.now_ms() + timeout_ms
        results = await self._admin.create_topics(specs, validate_only=False, timeout_ms=timeout_ms)
        elsewhere = [result for result in results if result.error_code is ErrorCode.NOT_CONTROLLER]
        if not elsewhere or self._metadata.controller_id in (-1, self._peers.node_id):
            return results
        try:
            answers = await self._ask_controller(specs, deadline_ms)
        except (KafkaError, ClientError) as error:
            return [
                TopicResult(spec.name, ErrorCode.REQUEST_TIMED_OUT, str(error)) for spec in specs
            ]
        made = {
            answer.topic_id for answer in answers if error_code(answer.error_code) is ErrorCode.NONE
        }
        await self._metadata.wait_for(_shows(made), deadline_ms - self._clock.now_ms())
        return [_result(answer) for answer in answers]

    async def _ask_controller(
        self, specs: Sequence[TopicSpec], deadline_ms: float
    ) -> list[CreatableTopicResult]:
        left_ms = max(1.0, deadline_ms - self._clock.now_ms())
        connection = await self._peers.connect(
            self._metadata.controller_id, purpose="topics", request_timeout_ms=left_ms
        )
        try:
            request = CreateTopicsRequest([_creatable(spec) for spec in specs], int(left_ms))
            return (await connection.send(_CREATE_TOPICS, request)).topics
        finally:
            connection.close()


def _creatable(spec: TopicSpec) -> CreatableTopic:
    return CreatableTopic(
        name=spec.name,
        num_partitions=spec.partition_count,
        replication_factor=spec.replication_factor,
        assignments=[
            CreatableReplicaAssignment(index, list(nodes))
            for index, nodes in (spec.assignment or {}).items()
        ],
        configs=[CreatableTopicConfig(name, value) for name, value in spec.configs.items()],
    )


def _result(answer: CreatableTopicResult) -> TopicResult:
    return TopicResult(
        answer.name,
        error_code(answer.error_code),
        answer.error_message,
        answer.topic_id,
        answer.num_partitions,
        answer.replication_factor,
    )


def _shows(topic_ids: set[bytes]) -> Callable[[MetadataImage], bool]:
    return lambda image: topic_ids <= image.names.keys()
