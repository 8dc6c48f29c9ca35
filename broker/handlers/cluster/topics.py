"""CreateTopics (19), DeleteTopics (20), CreatePartitions (37): answered by the controller.

CreateTopics 2-7: partition count and replication factor may be -1 (the broker's defaults) in every
version: Kafka's schema says so from 4 on, but clients send it earlier, and Kafka takes it. 5 the
answer tells both and the topic's settings; 7 the topic id. DeleteTopics 1-6: 3
TOPIC_DELETION_DISABLED, 6 by name or id. CreatePartitions 0-3: the count is the new total.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from ottla.broker.administration.cluster_admin import PartitionsSpec, TopicResult, TopicSpec
from ottla.broker.coordinating.internal_topics import FIXED_TOPICS, flaw_of
from ottla.broker.quotas.mutations import REFUSAL
from ottla.protocol.acls import AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreatePartitionsTopicResult,
)
from ottla.protocol.messages.create_topics import (
    CreatableTopic,
    CreatableTopicConfigs,
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from ottla.protocol.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.quotas.mutations import Mutations

_DELETION_DISABLED_VERSION = 3
# From these versions on, mutations above the quota are refused (KIP-599).
_STRICT_CREATION_VERSION = 6
_STRICT_DELETION_VERSION = 5
_STRICT_PARTITIONS_VERSION = 3
_FIXED = "the number of partitions determines the coordinators and cannot change"
_TWICE = "the request names this topic more than once"


async def create(
    services: Services, context: RequestContext, request: CreateTopicsRequest
) -> CreateTopicsResponse:
    """Create each topic, or say why not; one bad topic does not spoil the others."""
    counts = Counter(topic.name for topic in request.topics)
    mutations = services.quotas.mutations(context, strict_from=_STRICT_CREATION_VERSION)
    answers: dict[str, CreatableTopicResult] = {}
    specs = []
    for topic in request.topics:
        error, text = _check_create(services, context, topic, counts[topic.name])
        spec = services.internal_topics.completed(_spec(topic))
        count = _partition_count(services, spec)
        if error == ErrorCode.NONE and not (
            request.validate_only or mutations.allow(topic.name, count)
        ):
            error, text = ErrorCode.THROTTLING_QUOTA_EXCEEDED, REFUSAL
        if error == ErrorCode.NONE:
            specs.append(spec)
        else:
            answers[topic.name] = CreatableTopicResult(
                name=topic.name, error_code=error, error_message=text, configs=[]
            )
    results = await services.admin.create_topics(
        specs, validate_only=request.validate_only, timeout_ms=request.timeout_ms
    )
    described = _Described(services)
    for result in results:
        answers[result.name] = _created(described, result)
        _settle(mutations, result.name, result)
    _hide_configs(services, context, answers.values())
    return CreateTopicsResponse(
        throttle_time_ms=mutations.throttle_ms(), topics=[answers[name] for name in counts]
    )


def _settle(mutations: Mutations, topic: str, result: TopicResult) -> None:
    """Only what was done counts. What is unknown may have been done."""
    if result.error_code not in (ErrorCode.NONE, ErrorCode.REQUEST_TIMED_OUT):
        mutations.give_back(topic)


def _partition_count(services: Services, spec: TopicSpec) -> int:
    if spec.assignment:
        return len(spec.assignment)
    return services.config.num_partitions if spec.partition_count < 0 else spec.partition_count


def _check_create(
    services: Services, context: RequestContext, topic: CreatableTopic, count: int
) -> tuple[ErrorCode, str | None]:
    if count > 1:
        return ErrorCode.INVALID_REQUEST, _TWICE
    if not services.authorizer.may_create_topic(context, topic.name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.TOPIC_AUTHORIZATION_FAILED.text
    if topic.assignments and (topic.num_partitions != -1 or topic.replication_factor != -1):
        return (
            ErrorCode.INVALID_REQUEST,
            "give either an assignment or a partition count and replication factor, not both",
        )
    text = flaw_of(topic.name, {config.name: config.value for config in topic.configs})
    if text is not None:
        return ErrorCode.INVALID_CONFIG, text
    indexes = Counter(part.partition_index for part in topic.assignments)
    twice = [index for index, count in indexes.items() if count > 1]
    if twice:
        text = f"partition {min(twice)} is assigned more than once"
        return ErrorCode.INVALID_REPLICA_ASSIGNMENT, text
    return ErrorCode.NONE, None


def _hide_configs(
    services: Services, context: RequestContext, answers: Iterable[CreatableTopicResult]
) -> None:
    """To create a topic is one right, to see what came of it another one (KIP-525)."""
    for answer in answers:
        if not services.authorizer.may_see(
            context, Operation.DESCRIBE_CONFIGS, AclResourceType.TOPIC, answer.name
        ):
            answer.topic_config_error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            answer.num_partitions = answer.replication_factor = -1
            answer.configs = []


def _spec(topic: CreatableTopic) -> TopicSpec:
    return TopicSpec(
        name=topic.name,
        partition_count=topic.num_partitions,
        replication_factor=topic.replication_factor,
        assignment={part.partition_index: part.broker_ids for part in topic.assignments} or None,
        configs={config.name: config.value for config in topic.configs},
    )


class _Described:
    """The settings of new topics, each different set of them worked out once."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._known: dict[frozenset[tuple[str, str]], list[CreatableTopicConfigs]] = {}

    def of(self, configs: Mapping[str, str]) -> list[CreatableTopicConfigs]:
        """All settings of a topic that was made with these; not to be changed."""
        key = frozenset(configs.items())
        if key not in self._known:
            self._known[key] = [
                CreatableTopicConfigs(
                    name=entry.name,
                    value=None if entry.is_sensitive else entry.value,
                    read_only=entry.is_read_only,
                    config_source=entry.source,
                    is_sensitive=entry.is_sensitive,
                )
                for entry in self._services.settings.describe_new_topic(configs)
            ]
        return self._known[key]


def _created(described: _Described, result: TopicResult) -> CreatableTopicResult:
    answer = CreatableTopicResult(
        name=result.name,
        topic_id=result.topic_id,
        error_code=result.error_code,
        error_message=result.message,
        configs=[],
    )
    if result.error_code == ErrorCode.NONE:
        answer.num_partitions = result.partition_count
        answer.replication_factor = result.replication_factor
        answer.configs = described.of(result.configs)
    return answer


async def delete(
    services: Services, context: RequestContext, request: DeleteTopicsRequest
) -> DeleteTopicsResponse:
    """Delete each topic by name or id; its records are gone when this answers."""
    wanted = request.topics or [DeleteTopicState(name=name) for name in request.topic_names]
    response = DeleteTopicsResponse()
    mutations = services.quotas.mutations(context, strict_from=_STRICT_DELETION_VERSION)
    found: dict[str, DeletableTopicResult] = {}
    names = [_name_to_delete(services, topic) for topic in wanted]
    counts = Counter(names)
    for topic, name in zip(wanted, names, strict=True):
        answer = DeletableTopicResult(name=name, topic_id=topic.topic_id)
        response.responses.append(answer)
        answer.error_code, answer.error_message = _check_delete(
            services, context, topic, name, counts
        )
        if _is_hidden(services, context, topic, name):
            # Who asks by id is not told the name.
            answer.name = None
            answer.error_code, answer.error_message = ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
        if answer.error_code == ErrorCode.NONE and name is not None:
            image = services.metadata.topic(name)
            if mutations.allow(name, 0 if image is None else len(image.partitions)):
                found[name] = answer
            else:
                answer.error_code = ErrorCode.THROTTLING_QUOTA_EXCEEDED
                answer.error_message = REFUSAL
    # By id where the client says so: by the time its turn comes, the name may be another's.
    doomed = [
        answer.topic_id if answer.topic_id != ZERO_UUID else name for name, answer in found.items()
    ]
    results = await services.admin.delete_topics(doomed, timeout_ms=request.timeout_ms)
    for (name, answer), result in zip(found.items(), results, strict=True):
        answer.error_code, answer.error_message = result.error_code, result.message
        answer.topic_id = result.topic_id
        _settle(mutations, name, result)
    response.throttle_time_ms = mutations.throttle_ms()
    return response


def _name_to_delete(services: Services, topic: DeleteTopicState) -> str | None:
    if topic.topic_id != ZERO_UUID and topic.name is None:
        return services.metadata.topic_name(topic.topic_id)
    return topic.name


def _is_hidden(
    services: Services, context: RequestContext, topic: DeleteTopicState, name: str | None
) -> bool:
    return (
        topic.name is None
        and name is not None
        and not services.authorizer.may_see(
            context, Operation.DESCRIBE, AclResourceType.TOPIC, name
        )
    )


def _check_delete(
    services: Services,
    context: RequestContext,
    topic: DeleteTopicState,
    name: str | None,
    counts: Counter[str | None],
) -> tuple[ErrorCode, str | None]:
    if topic.name is not None and topic.topic_id != ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "name the topic or give its id, not both"
    if topic.name is None and topic.topic_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "name the topic or give its id"
    if name is None:
        return ErrorCode.UNKNOWN_TOPIC_ID, "no topic has this id"
    if counts[name] > 1:
        # A client that names a topic twice may have meant another one: neither entry is applied.
        return ErrorCode.INVALID_REQUEST, _TWICE
    if not services.config.delete_topic_enable:
        if context.api_version < _DELETION_DISABLED_VERSION:
            return ErrorCode.INVALID_REQUEST, None
        return ErrorCode.TOPIC_DELETION_DISABLED, "delete.topic.enable is false"
    if not services.authorizer.is_allowed(context, Operation.DELETE, AclResourceType.TOPIC, name):
        return ErrorCode.TOPIC_AUTHORIZATION_FAILED, None
    return ErrorCode.NONE, None


async def create_partitions(
    services: Services, context: RequestContext, request: CreatePartitionsRequest
) -> CreatePartitionsResponse:
    """Raise each topic's number of partitions to the given total."""
    counts = Counter(topic.name for topic in request.topics)
    mutations = services.quotas.mutations(context, strict_from=_STRICT_PARTITIONS_VERSION)
    answers: dict[str, CreatePartitionsTopicResult] = {}
    specs = []
    for topic in request.topics:
        if counts[topic.name] > 1:
            error, text = ErrorCode.INVALID_REQUEST, _TWICE
        elif not services.authorizer.is_allowed(
            context, Operation.ALTER, AclResourceType.TOPIC, topic.name
        ):
            error, text = ErrorCode.TOPIC_AUTHORIZATION_FAILED, ""
        elif topic.name in FIXED_TOPICS:
            error, text = ErrorCode.INVALID_PARTITIONS, _FIXED
        elif not (
            request.validate_only or mutations.allow(topic.name, _added_count(services, topic))
        ):
            error, text = ErrorCode.THROTTLING_QUOTA_EXCEEDED, REFUSAL
        else:
            specs.append(_partitions_spec(topic))
            continue
        answers[topic.name] = CreatePartitionsTopicResult(
            name=topic.name, error_code=error, error_message=text or None
        )
    results = await services.admin.create_partitions(
        specs, validate_only=request.validate_only, timeout_ms=request.timeout_ms
    )
    for result in results:
        answers[result.name] = CreatePartitionsTopicResult(
            name=result.name, error_code=result.error_code, error_message=result.message
        )
        _settle(mutations, result.name, result)
    return CreatePartitionsResponse(
        throttle_time_ms=mutations.throttle_ms(), results=[answers[name] for name in counts]
    )


def _added_count(services: Services, topic: CreatePartitionsTopic) -> int:
    image = services.metadata.topic(topic.name)
    return 0 if image is None else topic.count - len(image.partitions)


def _partitions_spec(topic: CreatePartitionsTopic) -> PartitionsSpec:
    assignments = topic.assignments
    return PartitionsSpec(
        name=topic.name,
        total_count=topic.count,
        assignment=None if assignments is None else [part.broker_ids for part in assignments],
    )
