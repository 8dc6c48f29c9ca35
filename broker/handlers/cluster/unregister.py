"""UnregisterBroker (64), version 0: the controller forgets a broker that will not come back.

A broker counts as registered while its process lives. After that the cluster keeps one thing for
it: the records of deleted topics whose directories it has not removed yet.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.unregister_broker import (
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

# The request has no time limit of its own.
TIMEOUT_MS = 30_000


async def handle(
    services: Services, context: RequestContext, request: UnregisterBrokerRequest
) -> UnregisterBrokerResponse:
    """Answer when the store has forgotten the broker."""
    if not services.authorizer.is_allowed(
        context, Operation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return _answer(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    try:
        result = await services.admin.partitions.unregister(request.broker_id, TIMEOUT_MS)
    except KafkaError as error:
        return _answer(error.code, error.message)
    return _answer(result.error_code, result.message)


def _answer(code: ErrorCode, message: str | None) -> UnregisterBrokerResponse:
    if code is ErrorCode.NONE:
        return UnregisterBrokerResponse(error_message=None)
    return UnregisterBrokerResponse(error_code=code, error_message=message or code.text)
