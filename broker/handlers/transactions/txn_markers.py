"""WriteTxnMarkers (key 27): transactions end in partitions led here. Versions 0-2.

From coordinators, on any listener, and from operators who end a transaction that no coordinator
will end (KIP-664). 2: the transaction's version, with which late markers are told from timely ones
(KIP-1228). Each partition has its own error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.broker.handlers.shared import is_principal_of_any
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
    if _may_end_transactions(services, context):
        return services.marker_writer.write(request)
    return _refused(request)


def _may_end_transactions(services: Services, context: RequestContext) -> bool:
    """Operators may by Alter. Brokers may by ClusterAction and, where their principals are bound to
    their ids, only while a broker of that principal is registered: the request names no broker."""
    authorizer, cluster = services.authorizer, (AclResourceType.CLUSTER, CLUSTER_NAME)
    if authorizer.may_see(context, Operation.ALTER, *cluster):
        return True
    return authorizer.is_allowed(
        context, Operation.CLUSTER_ACTION, *cluster
    ) and is_principal_of_any(services, context)


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
