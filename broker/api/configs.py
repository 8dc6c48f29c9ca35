"""DescribeConfigs (32), AlterConfigs (33), IncrementalAlterConfigs (44): settings by Kafka's names.

DescribeConfigs 1-4: 1 synonyms and sources, 3 types and documentation. AlterConfigs 0-2 replaces
all that is set for a resource; IncrementalAlterConfigs 0-1 changes single settings (KIP-339).
Resources: topics, and brokers by id or "" for all of them.

Not done here: broker loggers, client metrics and groups as resources.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.policy.door import CLUSTER_NAME, Operation, ResourceType
from ottla.broker.runtime.settings import BROKERS, EVERY_BROKER, TOPICS, ConfigTarget
from ottla.coordinator.metadata.config_changes import ConfigChange
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import alter_configs, describe_configs, incremental_alter_configs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.services import Services
    from ottla.coordinator.metadata.configs import ConfigEntry

TOPIC_RESOURCE = 2
BROKER_RESOURCE = 4
_DOCUMENTATION_VERSION = 3


def _target(services: Services, resource_type: int, name: str, *, asks: bool) -> ConfigTarget:
    """Whose settings a resource is. Raises KafkaError with a sentence."""
    if resource_type == TOPIC_RESOURCE:
        if services.metadata.topic(name) is None:
            raise KafkaError(services.metadata.error_for_missing_topic(name))
        return ConfigTarget(TOPICS, name)
    if resource_type == BROKER_RESOURCE:
        if name == "":
            return ConfigTarget(BROKERS, EVERY_BROKER)
        if asks and name != str(services.node_id):
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"ask broker {name} itself: this is broker {services.node_id}",
            )
        if not name.isdecimal():
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"{name!r} is no broker id")
        return ConfigTarget(BROKERS, name)
    raise KafkaError(
        ErrorCode.INVALID_REQUEST, f"resources of type {resource_type} have no settings here"
    )


def _require(
    services: Services, context: RequestContext, target: ConfigTarget, operation: Operation
) -> None:
    kind = ResourceType.TOPIC if target.is_topic else ResourceType.CLUSTER
    name = target.name if target.is_topic else CLUSTER_NAME
    if not services.door.is_allowed(context, operation, kind, name):
        raise KafkaError(
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
            if target.is_topic
            else ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        )


def describe(
    services: Services, context: RequestContext, request: describe_configs.DescribeConfigsRequest
) -> describe_configs.DescribeConfigsResponse:
    """Every setting of each resource, or those that are named."""
    response = describe_configs.DescribeConfigsResponse()
    for resource in request.resources:
        result = describe_configs.DescribeConfigsResult(
            error_message=None,
            resource_type=resource.resource_type,
            resource_name=resource.resource_name,
        )
        response.results.append(result)
        try:
            target = _target(services, resource.resource_type, resource.resource_name, asks=True)
            _require(services, context, target, Operation.DESCRIBE_CONFIGS)
            names = resource.configuration_keys
            result.configs = [
                _entry(context, request, entry)
                for entry in services.settings.describe(target)
                if not names or entry.name in names
            ]
        except KafkaError as error:
            result.error_code, result.error_message = error.code, error.message
    return response


def _entry(
    context: RequestContext,
    request: describe_configs.DescribeConfigsRequest,
    entry: ConfigEntry,
) -> describe_configs.DescribeConfigsResourceResult:
    described = describe_configs.DescribeConfigsResourceResult(
        name=entry.name,
        value=entry.value,
        read_only=entry.is_read_only,
        config_source=entry.source,
        is_sensitive=entry.is_sensitive,
    )
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


async def alter(
    services: Services, context: RequestContext, request: alter_configs.AlterConfigsRequest
) -> alter_configs.AlterConfigsResponse:
    """Replace all that is set for each resource."""
    response = alter_configs.AlterConfigsResponse()
    for resource in request.resources:
        wanted = {config.name: config.value for config in resource.configs}

        def replaced(
            target: ConfigTarget,
            _current: Mapping[str, str],
            wanted: dict[str, str | None] = wanted,
        ) -> dict[str, str]:
            return services.settings.replaced(target, wanted)

        error, text = await _change(
            services,
            context,
            (resource.resource_type, resource.resource_name),
            replaced,
            request.validate_only,
        )
        response.responses.append(
            alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return response


async def incremental_alter(
    services: Services,
    context: RequestContext,
    request: incremental_alter_configs.IncrementalAlterConfigsRequest,
) -> incremental_alter_configs.IncrementalAlterConfigsResponse:
    """Set, delete, append to or subtract from single settings of each resource."""
    response = incremental_alter_configs.IncrementalAlterConfigsResponse()
    for resource in request.resources:
        changes = [
            ConfigChange(config.name, config.config_operation, config.value)
            for config in resource.configs
        ]

        def changed(
            target: ConfigTarget,
            current: Mapping[str, str],
            changes: list[ConfigChange] = changes,
        ) -> dict[str, str]:
            return services.settings.changed(target, current, changes)

        error, text = await _change(
            services,
            context,
            (resource.resource_type, resource.resource_name),
            changed,
            request.validate_only,
        )
        response.responses.append(
            incremental_alter_configs.AlterConfigsResourceResponse(
                error_code=error,
                error_message=text,
                resource_type=resource.resource_type,
                resource_name=resource.resource_name,
            )
        )
    return response


async def _change(
    services: Services,
    context: RequestContext,
    resource: tuple[int, str],
    make: Callable[[ConfigTarget, Mapping[str, str]], dict[str, str]],
    validate_only: bool,
) -> tuple[ErrorCode, str | None]:
    try:
        target = _target(services, *resource, asks=False)
        _require(services, context, target, Operation.ALTER_CONFIGS)
        if validate_only:
            make(target, services.settings.stored(target))
        else:
            await services.admin.change_configs(
                target.entity_type, target.name, lambda current: make(target, current)
            )
    except KafkaError as error:
        return error.code, error.message
    return ErrorCode.NONE, None
