"""WriteTxnMarkers (key 27): transactions end in partitions led here. Versions 0-2.

From coordinators, on any listener, and from operators who end a transaction that no coordinator
will end (KIP-664). 2: the transaction's version, with which late markers are told from timely ones
(KIP-1228). Each partition has its own error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.write_txn_markers import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.engine.deferred import DeferredAnswer
    from ottla.broker.handlers.services import Services


def handle(
    services: Services, context: RequestContext, request: WriteTxnMarkersRequest
) -> DeferredAnswer[WriteTxnMarkersResponse] | WriteTxnMarkersResponse:
    """Answered when every in-sync replica has the markers, or that is not known in time."""
    cluster = AclResourceType.CLUSTER, CLUSTER_NAME
    if services.authorizer.may_see(
        context, Operation.ALTER, *cluster
    ) or services.authorizer.is_allowed(context, Operation.CLUSTER_ACTION, *cluster):
        return services.marker_writer.write(request)
    return _refused(request)


def _refused(request: WriteTxnMarkersRequest) -> WriteTxnMarkersResponse:
    error = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return WriteTxnMarkersResponse(
        markers=[
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=[
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=[
                            WritableTxnMarkerPartitionResult(index, error)
                            for index in topic.partition_indexes
                        ],
                    )
                    for topic in marker.topics
                ],
            )
            for marker in request.markers
        ]
    )
