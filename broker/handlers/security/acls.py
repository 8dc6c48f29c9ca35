"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): this broker has no authorizer.

Versions 0-3: 1 adds prefixed patterns, 2 is flexible, 3 adds users as resources. Each answer says
SECURITY_DISABLED, as Kafka's does when ``authorizer.class.name`` is not set. Tools such as
MirrorMaker 2 know that code and leave ACLs alone; an unknown API is an error to them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import CLUSTER_NAME, AclResourceType, Operation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.create_acls import (
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.messages.describe_acls import DescribeAclsResponse

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.describe_acls import DescribeAclsRequest


def describe(
    services: Services, context: RequestContext, _request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """One error for the whole answer."""
    error = _verdict(services, context, Operation.DESCRIBE)
    return DescribeAclsResponse(error_code=error, error_message=error.text)


def create(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """An error for each rule that the client wants."""
    error = _verdict(services, context, Operation.ALTER)
    return CreateAclsResponse(
        results=[AclCreationResult(error, error.text) for _ in request.creations]
    )


def delete(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """An error for each filter, which matches no rule."""
    error = _verdict(services, context, Operation.ALTER)
    return DeleteAclsResponse(
        filter_results=[DeleteAclsFilterResult(error, error.text) for _ in request.filters]
    )


def _verdict(services: Services, context: RequestContext, operation: Operation) -> ErrorCode:
    if not services.authorizer.is_allowed(
        context, operation, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        return ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    return ErrorCode.SECURITY_DISABLED
