"""InitProducerId (key 22): a producer id for an idempotent producer. Versions 0-5.

Without a transactional id any broker hands out a fresh id with epoch 0. 3: current id and epoch
(KIP-360); a producer that asks to bump gets a fresh id, which serves it as well. 4:
PRODUCER_FENCED allowed.

Not done here: transactional ids; they are answered with COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse

if TYPE_CHECKING:
    from ottla.broker.context import RequestContext
    from ottla.broker.runtime.services import Services


async def handle(
    services: Services, context: RequestContext, request: InitProducerIdRequest
) -> InitProducerIdResponse:
    """Hand out a producer id that no producer ever had."""
    response = InitProducerIdResponse(producer_id=-1, producer_epoch=-1)
    if request.transactional_id == "":
        response.error_code = ErrorCode.INVALID_REQUEST
    elif request.transactional_id is not None:
        response.error_code = ErrorCode.COORDINATOR_NOT_AVAILABLE
    elif (request.producer_id == -1) != (request.producer_epoch == -1):
        response.error_code = ErrorCode.INVALID_REQUEST
    else:
        try:
            response.producer_id = await services.admin.allocate_producer_id()
            response.producer_epoch = 0
        except KafkaError:
            # Whatever keeps the store from giving ids, clients repeat this one and no other.
            response.error_code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    return response
