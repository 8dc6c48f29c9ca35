"""DescribeClientQuotas (48) and AlterClientQuotas (49): quotas of users, client ids and addresses.

Both 0-1; 1 is flexible (KIP-546). Quotas of addresses are those of KIP-612.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

from ottla.broker.quotas.changes import (
    FilterPart,
    QuotaChange,
    apply_changes,
    check_changes,
    check_filter,
    matches,
    named_entity,
    quotas_of,
    stored_entity,
)
from ottla.coordinator.store.entities import QUOTED_TYPES
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages import alter_client_quotas, describe_client_quotas

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.quotas.changes import NamedEntity

_CLUSTER = AclResourceType.CLUSTER


def describe(
    services: Services,
    context: RequestContext,
    request: describe_client_quotas.DescribeClientQuotasRequest,
) -> describe_client_quotas.DescribeClientQuotasResponse:
    """The quotas of all entities that match the filter."""
    response = describe_client_quotas.DescribeClientQuotasResponse()
    operation = Operation.DESCRIBE_CONFIGS
    try:
        if not services.authorizer.is_allowed(context, operation, _CLUSTER, CLUSTER_NAME):
            raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
        parts = [FilterPart(*one) for one in map(_part, request.components)]
        check_filter(parts)
    except KafkaError as error:
        response.error_code, response.error_message = error.code, error.message
        response.entries = None
        return response
    response.entries = []
    for entity, values in services.metadata.image.configs.items():
        if entity.entity_type not in QUOTED_TYPES:
            continue
        named, quotas = named_entity(entity), quotas_of(entity, values)
        if quotas and matches(named, parts, strict=request.strict):
            response.entries.append(_entry(named, quotas))
    return response


def _part(
    component: describe_client_quotas.ComponentData,
) -> tuple[str, int, str | None]:
    return component.entity_type, component.match_type, component.match


def _entry(named: NamedEntity, quotas: dict[str, float]) -> describe_client_quotas.EntryData:
    return describe_client_quotas.EntryData(
        entity=[
            describe_client_quotas.EntityData(entity_type=entity_type, entity_name=name)
            for entity_type, name in named
        ],
        values=[
            describe_client_quotas.ValueData(key=key, value=value) for key, value in quotas.items()
        ],
    )


async def alter(
    services: Services,
    context: RequestContext,
    request: alter_client_quotas.AlterClientQuotasRequest,
) -> alter_client_quotas.AlterClientQuotasResponse:
    """Set and remove quotas; each entity is answered by itself."""
    response = alter_client_quotas.AlterClientQuotasResponse()
    named = [
        tuple((part.entity_type, part.entity_name) for part in entry.entity)
        for entry in request.entries
    ]
    counts = Counter(frozenset(one) for one in named)
    operation = Operation.ALTER_CONFIGS
    allowed = services.authorizer.is_allowed(context, operation, _CLUSTER, CLUSTER_NAME)
    for entity, entry in zip(named, request.entries, strict=True):
        answer = alter_client_quotas.AlterClientQuotasResponseEntryData(
            error_message=None, entity=entry.entity
        )
        response.entries.append(answer)
        try:
            if not allowed:
                raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
            if counts[frozenset(entity)] > 1:
                # Which of the changes is meant is unknown: none is made.
                text = "the request names this entity more than once"
                raise KafkaError(ErrorCode.INVALID_REQUEST, text)
            await _alter_one(services, entity, entry, request.validate_only)
        except KafkaError as error:
            answer.error_code, answer.error_message = error.code, error.message
    return response


async def _alter_one(
    services: Services,
    named: NamedEntity,
    entry: alter_client_quotas.AlterClientQuotasRequestEntryData,
    validate_only: bool,
) -> None:
    """Raises KafkaError."""
    entity = stored_entity(named)
    changes = [QuotaChange(op.key, None if op.remove else op.value) for op in entry.ops]
    check_changes(entity, changes)
    if not validate_only:
        edit = partial(apply_changes, changes=changes)
        await services.admin.change_configs(entity.entity_type, entity.name, edit)
