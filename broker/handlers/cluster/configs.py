"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44): settings by Kafka's names.

DescribeConfigs 1-4: 1 synonyms and sources, 3 types and documentation. AlterConfigs 0-2 replaces
all that is set for a resource; IncrementalAlterConfigs 0-1 changes single settings (KIP-339).
Resources: topics, of which brokers also tell what they remember of a record's way to the replicas
(``ottla.progress.PARTITION.OFFSET``); brokers by id or "" for all of them; groups, of which their
coordinator also tells what it remembers (``ottla.timeline``; both are asked for by name);
and subscriptions to metrics of clients (KIP-714). Broker loggers are in ``broker_loggers.py``.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from ottla.broker.coordinating.internal_topics import flaw_of_all
from ottla.broker.handlers.broker_loggers import change_loggers, describe_loggers
from ottla.broker.handlers.traces import NAME as TRACE
from ottla.broker.handlers.traces import traced
from ottla.broker.metadata.settings import (
    BROKERS,
    CLIENT_METRICS,
    EVERY_BROKER,
    GROUPS,
    TOPICS,
    ConfigTarget,
)
from ottla.coordinator.configs.config_changes import ConfigAlteration
from ottla.coordinator.metadata.image import KEEP_FORMAT, keeps_format
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.configs import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
    ConfigSource,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages import alter_configs, describe_configs, incremental_alter_configs
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.housekeeping.progress_watch import ProgressWatch
    from ottla.coordinator.configs.configs import EffectiveConfig

# JSON: a list of objects with time_ms, event, member_id, epoch, detail and text.
TIMELINE = "ottla.timeline"
# Each may look through 50,000 marks.
PROGRESS_MAX = 16
# With a partition and an offset behind it, of a topic: JSON, or null if nothing is remembered.
PROGRESS = re.compile(r"ottla\.progress\.(\d{1,10})\.(\d{1,19})", re.ASCII)
_DOCUMENTATION_VERSION = 3

_RIGHTS = {
    TOPIC_RESOURCE: (AclResourceType.TOPIC, ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    BROKER_RESOURCE: (AclResourceType.CLUSTER, ErrorCode.CLUSTER_AUTHORIZATION_FAILED),
    CLIENT_METRICS_RESOURCE: (
        AclResourceType.CLUSTER,
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ),
    GROUP_RESOURCE: (AclResourceType.GROUP, ErrorCode.GROUP_AUTHORIZATION_FAILED),
}

_Resource = alter_configs.AlterConfigsResource | incremental_alter_configs.AlterConfigsResource
_Result = TypeVar("_Result")


class _Wanted(NamedTuple):
    """One resource of a request; ``repetition`` says why its place there is none."""

    resource: _Resource
    repetition: str | None
    validate_only: bool


def _target(services: Services, resource_type: int, name: str, *, asks: bool) -> ConfigTarget:
    """Whose settings a resource is. Raises KafkaError with a sentence."""
    if resource_type == TOPIC_RESOURCE:
        if not name and not asks:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the topic name is empty")
        if services.metadata.topic(name) is None:
            raise KafkaError(services.metadata.error_for_missing_topic(name))
        return ConfigTarget(TOPICS, name)
    if resource_type == BROKER_RESOURCE:
        if name == "":
            return ConfigTarget(BROKERS, EVERY_BROKER)
        if name != str(services.node_id):
            text = f"ask broker {name} itself: this is broker {services.node_id}"
            if not name.isdecimal():
                text = f"{name!r} is no broker id"
            raise KafkaError(ErrorCode.INVALID_REQUEST, text)
        return ConfigTarget(BROKERS, name)
    if resource_type == GROUP_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the group id is empty")
        return ConfigTarget(GROUPS, name)
    if resource_type == CLIENT_METRICS_RESOURCE:
        if not name:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "the name of the subscription is empty")
        return ConfigTarget(CLIENT_METRICS, name)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resources of type {resource_type} have no settings here"
    )


def _require(
    services: Services, context: RequestContext, resource: tuple[int, str], operation: Operation
) -> None:
    """Before it is looked whether the resource exists. Raises KafkaError."""
    resource_type, name = resource
    if resource_type not in _RIGHTS:
        # The resource is refused for its type.
        return
    kind, error = _RIGHTS[resource_type]
    name = CLUSTER_NAME if kind is AclResourceType.CLUSTER else name
    if not services.authorizer.is_allowed(context, operation, kind, name):
        raise KafkaError(error)


def describe(
    services: Services, context: RequestContext, request: describe_configs.DescribeConfigsRequest
) -> describe_configs.DescribeConfigsResponse:
    """Every setting of each resource, or those that are named."""
    response = describe_configs.DescribeConfigsResponse()
    watch = services.progress
    asked, traces = _count(request, PROGRESS), _count(request, TRACE)
    for resource in request.resources:
        result = describe_configs.DescribeConfigsResult(
            error_message="",
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        response.results.append(result)
        try:
            if resource.resource_type == LOGGER_RESOURCE:
                result.configs = describe_loggers(
                    services, context, resource.resource_name, resource.configuration_keys
                )
                continue
            named = resource.resource_type, resource.resource_name
            _require(services, context, named, Operation.DESCRIBE_CONFIGS)
            target = _target(services, *named, asks=True)
            names = resource.configuration_keys
            result.configs = [
                _entry(context, request, entry)
                for entry in services.settings.describe(target)
                if not names or entry.name in names
            ]
            if target.is_group and TIMELINE in (names or ()):
                result.configs.append(_timeline(services, context, target.name))
            if resource.resource_type == BROKER_RESOURCE and names:
                result.configs += traced(services, context, names, traces)
            if target.is_topic and watch is not None and names:
                _check_progress_count(asked)
                result.configs += _progress(watch, target.name, names)
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return response


def _timeline(
    services: Services, context: RequestContext, group_id: str
) -> describe_configs.DescribeConfigsResourceResult:
    """What is remembered of a group. Raises KafkaError."""
    if not services.authorizer.is_allowed(
        context, Operation.DESCRIBE, AclResourceType.GROUP, group_id
    ):
        raise KafkaError(ErrorCode.GROUP_AUTHORIZATION_FAILED)
    value = json.dumps(services.groups.timeline(group_id))
    return describe_configs.DescribeConfigsResourceResult(
        name=TIMELINE, value=value, read_only=True, config_source=ConfigSource.GROUP
    )


def _count(request: describe_configs.DescribeConfigsRequest, form: re.Pattern[str]) -> int:
    """Return how many names of that form the request has."""
    return sum(
        form.fullmatch(name) is not None
        for resource in request.resources
        for name in resource.configuration_keys or ()
    )


def _check_progress_count(count: int) -> None:
    """Refuse a request that would keep the broker busy. Raises KafkaError."""
    if count > PROGRESS_MAX:
        text = f"a request may ask for the progress of {PROGRESS_MAX} records, not of {count}"
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)


def _progress(
    watch: ProgressWatch, topic: str, names: Sequence[str]
) -> Iterator[describe_configs.DescribeConfigsResourceResult]:
    """When this broker saw records on the replicas, for those that are asked for."""
    for name in names:
        found = PROGRESS.fullmatch(name)
        if found is None:
            continue
        marks = watch.of(TopicPartition(topic, int(found[1])), int(found[2]))
        value = None if marks is None else json.dumps(marks)
        yield describe_configs.DescribeConfigsResourceResult(
            name=name, value=value, read_only=True, config_source=ConfigSource.TOPIC
        )


def _entry(
    context: RequestContext,
    request: describe_configs.DescribeConfigsRequest,
    entry: EffectiveConfig,
) -> describe_configs.DescribeConfigsResourceResult:
    described = describe_configs.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
    )
    if context.api_version == 0:
        described.is_default = entry.is_default
    if request.include_synonyms:
        described.synonyms = [
            describe_configs.DescribeConfigsSynonym(
                name=synonym.name, value=synonym.value, source=synonym.source
            )
            for synonym in entry.synonyms
        ]
    if context.api_version >= _DOCUMENTATION_VERSION:
        described.config_type = entry.config_type
        described.documentation = entry.documentation if request.include_documentation else None
    return described


def _refuse_repetitions(resources: Sequence[_Resource]) -> list[str | None]:
    """Return an error for each resource that occurs twice, as Kafka does: neither entry is applied,
    since it is unknown which of them is meant."""
    counts = Counter((one.resource_type, one.resource_name) for one in resources)
    found: list[str | None] = []
    for one in resources:
        names = Counter(config.name for config in one.configs)
        twice = [name for name, count in names.items() if count > 1]
        if counts[one.resource_type, one.resource_name] > 1:
            found.append("the request names this resource more than once")
        elif twice:
            found.append(f"{min(twice)} occurs more than once")
        else:
            found.append(None)
    return found


async def _each(
    resources: Sequence[_Resource],
    make_result: Callable[..., _Result],
    change: Callable[[_Wanted], Awaitable[tuple[ErrorCode, str | None]]],
    *,
    validate_only: bool,
) -> list[_Result]:
    """Change the resources one after the other; return the result of each."""
    results = []
    for resource, repetition in zip(resources, _refuse_repetitions(resources), strict=True):
        error, text = await change(_Wanted(resource, repetition, validate_only))
        results.append(
            make_result(
                error_code=error,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return results


async def alter(
    services: Services, context: RequestContext, request: alter_configs.AlterConfigsRequest
) -> alter_configs.AlterConfigsResponse:
    """Replace all that is set for each resource."""

    async def change(wanted: _Wanted) -> tuple[ErrorCode, str | None]:
        configs = {config.name: config.value for config in wanted.resource.configs}
        return await _change(
            services,
            context,
            wanted,
            lambda target, _current: services.settings.replaced(target, configs),
        )

    results = await _each(
        request.resources,
        alter_configs.AlterConfigsResourceResponse,
        change,
        validate_only=request.validate_only,
    )
    return alter_configs.AlterConfigsResponse(responses=results)


async def incremental_alter(
    services: Services,
    context: RequestContext,
    request: incremental_alter_configs.IncrementalAlterConfigsRequest,
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """Set, delete, append to or subtract from single settings of each resource."""

    async def change(wanted: _Wanted) -> tuple[ErrorCode, str | None]:
        resource = wanted.resource
        assert isinstance(resource, incremental_alter_configs.AlterConfigsResource)
        if resource.resource_type == LOGGER_RESOURCE and wanted.repetition is None:
            return _change_loggers(services, context, resource, request.validate_only)
        changes = [
            ConfigAlteration(config.name, config.config_operation, config.value)
            for config in resource.configs
        ]
        return await _change(
            services,
            context,
            wanted,
            lambda target, current: services.settings.changed(target, current, changes),
        )

    results = await _each(
        request.resources,
        incremental_alter_configs.AlterConfigsResourceResponse,
        change,
        validate_only=request.validate_only,
    )
    return incremental_alter_configs.IncrementalAlterConfigsResponse(responses=results)


def _change_loggers(
    services: Services,
    context: RequestContext,
    resource: incremental_alter_configs.AlterConfigsResource,
    validate_only: bool,
) -> tuple[ErrorCode, str | None]:
    try:
        change_loggers(
            services,
            context,
            resource.resource_name,
            resource.configs,
            validate_only=validate_only,
        )
    except KafkaError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


async def _change(
    services: Services,
    context: RequestContext,
    wanted: _Wanted,
    make: Callable[[ConfigTarget, Mapping[str, str]], dict[str, str]],
) -> tuple[ErrorCode, str | None]:
    if wanted.repetition is not None:
        return ErrorCode.INVALID_REQUEST, wanted.repetition
    resource = wanted.resource
    try:
        named = resource.resource_type, resource.resource_name
        _require(services, context, named, Operation.ALTER_CONFIGS)
        target = _target(services, *named, asks=False)
        change = partial(_checked, target, make)
        if wanted.validate_only:
            change(services.settings.stored(target))
        else:
            await services.admin.change_configs(target.entity_type, target.name, change)
    except KafkaError as error:
        return error.code, error.message
    return ErrorCode.NONE, None


def _checked(
    target: ConfigTarget,
    make: Callable[[ConfigTarget, Mapping[str, str]], dict[str, str]],
    current: Mapping[str, str],
) -> dict[str, str]:
    """What will be set. Raises KafkaError."""
    made = make(target, current)
    text = flaw_of_all(target.name, made) if target.is_topic else None
    if target.is_topic and keeps_format(made) is not keeps_format(current):
        text = f"{KEEP_FORMAT} is set when a topic is created and cannot be changed afterwards"
    if text is not None:
        raise KafkaError(ErrorCode.INVALID_CONFIG, text)
    return made
