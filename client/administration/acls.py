"""Lists, adds and removes access rules (ACLs) of the cluster."""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, TypeVar

from ottla.protocol.acls import (
    AclFilter,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode, error_code
from ottla.protocol.messages.create_acls import (
    AclCreation,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilter,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.messages.describe_acls import DescribeAclsRequest, DescribeAclsResponse
from ottla.wire.api import declare
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.cluster.routing import Router
    from ottla.wire.connection import Connection

# From 1 on patterns may be prefixes.
_DESCRIBE = declare(ApiKey.DESCRIBE_ACLS, DescribeAclsRequest, DescribeAclsResponse, 1)
_CREATE = declare(ApiKey.CREATE_ACLS, CreateAclsRequest, CreateAclsResponse, 1)
_DELETE = declare(ApiKey.DELETE_ACLS, DeleteAclsRequest, DeleteAclsResponse, 1)

EVERY_RULE = AclFilter()


class AclAdmin:
    """Administers the cluster's access rules; ``Admin.acls``.

    The calls may be repeated: a rule that is there already is not added twice.
    """

    def __init__(self, router: Router) -> None:
        self._router = router

    async def describe_acls(self, wanted: AclFilter = EVERY_RULE) -> list[AclRule]:
        """List the rules that a filter selects.

        Args:
            wanted: What to list; every rule by default. With the pattern type MATCH, the rules that
                are in force for the resource of that name.

        Returns:
            The rules, sorted.

        Raises:
            RequestRefused: The broker refused; SECURITY_DISABLED if it has no authorizer.
        """
        request = DescribeAclsRequest(
            wanted.resource_type,
            wanted.name,
            wanted.pattern_type,
            wanted.principal,
            wanted.host,
            wanted.operation,
            wanted.permission,
        )
        response = await self._router.to_any(_DESCRIBE, request, check_described)
        return sorted(
            AclRule(
                _pattern(one.resource_type, one.resource_name, one.pattern_type),
                acl.principal,
                acl.host,
                _known(Operation, acl.operation),
                _known(Permission, acl.permission_type),
            )
            for one in response.resources
            for acl in one.acls
        )

    async def create_acls(self, rules: Iterable[AclRule]) -> dict[AclRule, RequestRefused | None]:
        """Add rules. Each of them is in force on all brokers within a second.

        Args:
            rules: The rules to add.

        Returns:
            The error of each rule; None for those that are in force.

        Raises:
            TransportError: No broker answered.
        """
        listed = list(dict.fromkeys(rules))
        creations = [
            AclCreation(
                rule.pattern.resource_type,
                rule.pattern.name,
                rule.pattern.pattern_type,
                rule.principal,
                rule.host,
                rule.operation,
                rule.permission,
            )
            for rule in listed
        ]
        response = await self._router.to_any(_CREATE, CreateAclsRequest(creations), check_nothing)
        return {
            rule: _error(result.error_code, result.error_message)
            for rule, result in zip(listed, response.results, strict=True)
        }

    async def delete_acls(self, filters: Iterable[AclFilter]) -> list[AclRule]:
        """Remove the rules that filters select.

        Args:
            filters: What to remove; a rule goes if one of them selects it.

        Returns:
            The rules that were removed, sorted.

        Raises:
            RequestRefused: The broker refused a filter, or could not remove a rule.
        """
        wanted = [
            DeleteAclsFilter(
                one.resource_type,
                one.name,
                one.pattern_type,
                one.principal,
                one.host,
                one.operation,
                one.permission,
            )
            for one in filters
        ]
        response = await self._router.to_any(_DELETE, DeleteAclsRequest(wanted), check_deleted)
        return sorted(
            AclRule(
                _pattern(one.resource_type, one.resource_name, one.pattern_type),
                one.principal,
                one.host,
                _known(Operation, one.operation),
                _known(Permission, one.permission_type),
            )
            for result in response.filter_results
            for one in result.matching_acls
        )


Word = TypeVar("Word", bound=IntEnum)


def _known(kind: type[Word], number: int) -> Word:
    """The word with that number, or UNKNOWN for one of a later broker."""
    try:
        return kind(number)
    except ValueError:
        return kind(0)


def _pattern(resource_type: int, name: str, pattern_type: int) -> AclPattern:
    return AclPattern(
        _known(AclResourceType, resource_type), name, _known(PatternType, pattern_type)
    )


def _error(number: int, message: str | None) -> RequestRefused | None:
    code = error_code(number)
    return None if code is ErrorCode.NONE else RequestRefused(code, message)


def check_described(response: DescribeAclsResponse, connection: Connection) -> None:
    """Raise RequestRefused if the response has an error."""
    code = error_code(response.error_code)
    if code is not ErrorCode.NONE:
        raise RequestRefused(code, response.error_message, broker=str(connection.address))


def check_nothing(_response: CreateAclsResponse, _connection: Connection) -> None:
    """Each rule has its own error."""


def check_deleted(response: DeleteAclsResponse, connection: Connection) -> None:
    """Raise RequestRefused for the first filter or rule with an error."""
    broker = str(connection.address)
    failures = [(one.error_code, one.error_message) for one in response.filter_results]
    failures += [
        (one.error_code, one.error_message)
        for result in response.filter_results
        for one in result.matching_acls
    ]
    for number, message in failures:
        code = error_code(number)
        if code is not ErrorCode.NONE:
            raise RequestRefused(code, message, broker=broker)
