"""ListConfigResources (74), versions 0-1: which resources may have settings.

0 lists the subscriptions to metrics of clients (KIP-714), 1 also topics, brokers, their loggers and
the groups with settings (KIP-1142).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.metadata.settings import CLIENT_METRICS, GROUPS
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.configs import (
    BROKER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
    LOGGER_RESOURCE,
    TOPIC_RESOURCE,
)
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.list_config_resources import (
    ListConfigResourcesRequest,
    ListConfigResourcesResponse,
    ListedConfigResource,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

_TYPES = (
    TOPIC_RESOURCE,
    BROKER_RESOURCE,
    LOGGER_RESOURCE,
    CLIENT_METRICS_RESOURCE,
    GROUP_RESOURCE,
)


def handle(
    services: Services, context: RequestContext, request: ListConfigResourcesRequest
) -> ListConfigResourcesResponse:
    """The names of the resources of the wanted types, or of all types."""
    if not services.authorizer.is_allowed(
        context, Operation.DESCRIBE_CONFIGS, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return ListConfigResourcesResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    wanted = request.resource_types if context.api_version > 0 else [CLIENT_METRICS_RESOURCE]
    if any(one not in _TYPES for one in wanted):
        return ListConfigResourcesResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    return ListConfigResourcesResponse(
        config_resources=[
            ListedConfigResource(name, one)
            for one in _TYPES
            if one in (wanted or _TYPES)
            for name in _names(services, context, one)
        ]
    )


def _names(services: Services, context: RequestContext, resource_type: int) -> list[str]:
    if resource_type == TOPIC_RESOURCE:
        return services.metadata.topic_names()
    if resource_type in (BROKER_RESOURCE, LOGGER_RESOURCE):
        return [str(one.node_id) for one in services.metadata.endpoints(context.listener)]
    entity_type = GROUPS if resource_type == GROUP_RESOURCE else CLIENT_METRICS
    image = services.metadata.image
    return sorted(
        name for (kind, name), values in image.configs.items() if kind == entity_type and values
    )
