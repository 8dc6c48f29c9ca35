"""InitProducerId (key 22): a producer's id and epoch. Versions 0-5.

Without a transactional id any broker hands out a fresh id with epoch 0; with one, its coordinator
gives the same id with a raised epoch, and ends what an earlier producer has left open. 3: current
id and epoch (KIP-360); an idempotent producer that asks to bump gets a fresh id, which serves it as
well. 4: PRODUCER_FENCED allowed. 5: TRANSACTION_ABORTABLE allowed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.coordinating.groups import caller_of
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services


def handle(services: Services, context: RequestContext, request: InitProducerIdRequest) -> Any:
    """Give a producer its id, or ask the coordinator of its transactional id for it."""
    transactional_id = request.transactional_id
    error = _why_not_allowed(services, context, transactional_id)
    if error is not None:
        return _refused(error)
    is_half_known = (request.producer_id == -1) != (request.producer_epoch == -1)
    if transactional_id == "" or is_half_known:
        return _refused(ErrorCode.INVALID_REQUEST)
    if transactional_id is None:
        return _fresh(services)
    return services.transactions.handle_current(
        transactional_id, request, caller_of(context), _refused, context.peer
    )


def _why_not_allowed(
    services: Services, context: RequestContext, transactional_id: str | None
) -> ErrorCode | None:
    """Who may write to some topic may have a producer id for it (KIP-679)."""
    authorizer = services.authorizer
    if transactional_id is not None:
        if authorizer.is_allowed(
            context, Operation.WRITE, AclResourceType.TRANSACTIONAL_ID, transactional_id
        ):
            return None
        return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    if authorizer.may_on_any(
        context, Operation.WRITE, AclResourceType.TOPIC
    ) or authorizer.is_allowed(
        context, Operation.IDEMPOTENT_WRITE, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return None
    return ErrorCode.CLUSTER_AUTHORIZATION_FAILED


async def _fresh(services: Services) -> InitProducerIdResponse:
    """A producer id that no producer ever had."""
    try:
        return InitProducerIdResponse(producer_id=await services.admin.allocate_producer_id())
    except KafkaError:
        # Whatever keeps the store from giving ids, clients repeat this one and no other.
        return _refused(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)


def _refused(error: ErrorCode) -> InitProducerIdResponse:
    return InitProducerIdResponse(error_code=error, producer_id=-1, producer_epoch=-1)
