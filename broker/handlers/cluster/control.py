"""LeaderAndIsr, StopReplica, UpdateMetadata (keys 4-6): the controller's word over the wire.

The same way in as for a controller in this process: fenced by broker epoch, controller epoch, topic
topic id and leader epoch behind it (read ``partitions/control.py``). For brokers only
(CLUSTER_ACTION), and by their own listener. The first request of each controller epoch is compared
with the metadata store: the login of a broker does not make its holder the controller.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from ottla.broker.handlers.shared import is_from_broker
from ottla.broker.partitions.control import ControllerClaim
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from ottla.protocol.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from ottla.protocol.messages.update_metadata import UpdateMetadataResponse

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.broker.partitions.control import ControlRequest, ControlResponse

logger = logging.getLogger("ottla.security")


async def handle(
    services: Services, context: RequestContext, request: ControlRequest
) -> ControlResponse:
    """Carry it out; the answer comes when it has taken effect, one request after the other."""
    if not is_from_broker(services, context, request.controller_id):
        return _refused(request, ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    claim = ControllerClaim(request.controller_id, request.controller_epoch)
    if not await services.control.confirm(claim, services.session):
        logger.warning(
            "a request of %s names broker %d as the controller of epoch %d, which it is not",
            context.principal,
            *claim,
        )
        services.authorizer.refused(
            context, f"broker {claim.node_id} is not the controller of epoch {claim.epoch}"
        )
        return _refused(request, ErrorCode.STALE_CONTROLLER_EPOCH)
    return await services.control.apply(request)


def _refused(request: ControlRequest, error: ErrorCode) -> ControlResponse:
    match request:
        case LeaderAndIsrRequest():
            return LeaderAndIsrResponse(error_code=error)
        case StopReplicaRequest():
            return StopReplicaResponse(error_code=error)
        case _:
            return UpdateMetadataResponse(error_code=error)
