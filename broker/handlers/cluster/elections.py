"""ElectLeaders (43), versions 0-2: answered by the controller (KIP-460).

0 knows preferred leaders only; 1 adds unclean elections and an error for the whole request. A
request that names nothing is about every partition, and is answered for those that were changed or
could not be.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from ottla.broker.administration.partition_admin import PartitionResult as Outcome
from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services

PREFERRED, UNCLEAN = 0, 1


async def handle(
    services: Services, context: RequestContext, request: ElectLeadersRequest
) -> ElectLeadersResponse:
    """Elect, and answer when the leaders show."""
    named = request.topic_partitions
    items = None
    if named is not None:
        items = [TopicPartition(one.topic, index) for one in named for index in one.partitions]
    if not services.authorizer.is_allowed(
        context, Operation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return _refused(context, items, ErrorCode.CLUSTER_AUTHORIZATION_FAILED, None)
    if request.election_type not in (PREFERRED, UNCLEAN):
        text = f"there is no election of type {request.election_type}"
        return _refused(context, items, ErrorCode.INVALID_REQUEST, text)
    try:
        results = await services.admin.partitions.elect_leaders(
            items,
            allow_unclean=request.election_type == UNCLEAN,
            timeout_ms=request.timeout_ms,
        )
    except KafkaError as error:
        return _refused(context, items, error.code, error.message)
    return _answer(results)


def _refused(
    context: RequestContext,
    items: list[TopicPartition] | None,
    code: ErrorCode,
    message: str | None,
) -> ElectLeadersResponse:
    response = _answer(Outcome(item, code, message) for item in items or ())
    if context.api_version >= 1:
        # Version 0 has no error for the whole, only one for each partition.
        response.error_code = code
    return response


def _answer(results: Iterable[Outcome]) -> ElectLeadersResponse:
    by_topic: dict[str, list[PartitionResult]] = defaultdict(list)
    for result in results:
        by_topic[result.partition.topic].append(
            PartitionResult(result.partition.partition, result.error_code, result.message)
        )
    return ElectLeadersResponse(
        replica_election_results=[
            ReplicaElectionResult(topic, partitions) for topic, partitions in by_topic.items()
        ]
    )
