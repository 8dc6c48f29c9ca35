"""DescribeAcls (29), CreateAcls (30), DeleteAcls (31): the access rules of the cluster.

Versions 0-3: 1 adds prefixed patterns, 2 is flexible, 3 adds users as resources. Every broker
answers; a change is in the store when it is answered, and all brokers hear of it.

Without ``authorizer.class.name`` each answer says SECURITY_DISABLED. Tools such as MirrorMaker 2
know that code and leave ACLs alone; an unknown API is an error to them.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from ottla.coordinator.store.acls import is_storable
from ottla.protocol.acls import (
    CLUSTER_NAME,
    AclFilter,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
    network_of,
)
from ottla.protocol.errors import ErrorCode, KafkaError
from ottla.protocol.messages.create_acls import (
    AclCreation,
    AclCreationResult,
    CreateAclsRequest,
    CreateAclsResponse,
)
from ottla.protocol.messages.delete_acls import (
    DeleteAclsFilterResult,
    DeleteAclsMatchingAcl,
    DeleteAclsRequest,
    DeleteAclsResponse,
)
from ottla.protocol.messages.describe_acls import (
    AclDescription,
    DescribeAclsResource,
    DescribeAclsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from ottla.broker.authorization.store import AclStore
    from ottla.broker.engine.context import RequestContext
    from ottla.broker.handlers.services import Services
    from ottla.protocol.messages.describe_acls import DescribeAclsRequest

_UNKNOWN_WORD = "a resource type, pattern type, operation or permission is unknown"
_ONLY_LITERAL = "version 0 knows literal patterns only"


def describe(
    services: Services, context: RequestContext, request: DescribeAclsRequest
) -> DescribeAclsResponse:
    """The rules that the filter selects, by pattern."""
    try:
        store = _store(services, context, Operation.DESCRIBE)
        wanted = _filter(context, request)
    except KafkaError as error:
        return DescribeAclsResponse(error_code=error.code, error_message=error.message)
    found: dict[AclPattern, list[AclDescription]] = defaultdict(list)
    for rule in store.index.rules():
        if wanted.selects(rule):
            found[rule.pattern].append(
                AclDescription(rule.principal, rule.host, rule.operation, rule.permission)
            )
    return DescribeAclsResponse(
        error_message=None,
        resources=[
            DescribeAclsResource(
                pattern.resource_type, pattern.name, pattern.pattern_type, acls=acls
            )
            for pattern, acls in found.items()
        ],
    )


async def create(
    services: Services, context: RequestContext, request: CreateAclsRequest
) -> CreateAclsResponse:
    """Add each rule; one that is there already is a success."""
    results = [AclCreationResult(error_message=None) for _ in request.creations]
    wanted: dict[AclPattern, dict[int, AclRule]] = defaultdict(dict)
    try:
        store = _store(services, context, Operation.ALTER)
        _check_words(context, request.creations)
        for index, creation in enumerate(request.creations):
            try:
                rule = _rule(creation)
            except KafkaError as error:
                results[index] = AclCreationResult(error.code, error.message)
            else:
                wanted[rule.pattern][index] = rule
        errors = await store.change(
            {pattern: _adding(list(rules.values())) for pattern, rules in wanted.items()}
        )
    except KafkaError as error:
        return CreateAclsResponse(
            results=[AclCreationResult(error.code, error.message) for _ in request.creations]
        )
    for pattern, failed in errors.items():
        if failed is not None:
            for index in wanted[pattern]:
                results[index] = AclCreationResult(failed.code, failed.message)
    return CreateAclsResponse(results=results)


async def delete(
    services: Services, context: RequestContext, request: DeleteAclsRequest
) -> DeleteAclsResponse:
    """Remove what each filter selects. A rule that several filters select is the first one's."""
    try:
        store = _store(services, context, Operation.ALTER)
        filters = [_filter(context, wanted) for wanted in request.filters]
        deletion = _Deletion(store, filters)
        errors = await store.change(deletion.edits())
    except KafkaError as error:
        return DeleteAclsResponse(
            filter_results=[
                DeleteAclsFilterResult(error.code, error.message) for _ in request.filters
            ]
        )
    results = [DeleteAclsFilterResult(error_message=None) for _ in filters]
    for rule, index in deletion.found.items():
        results[index].matching_acls.append(_matching(rule, errors[rule.pattern]))
    return DeleteAclsResponse(filter_results=results)


def _store(services: Services, context: RequestContext, operation: Operation) -> AclStore:
    """Raises KafkaError when the caller may not, or there is no authorizer."""
    if not services.authorizer.is_allowed(
        context, operation, AclResourceType.CLUSTER, CLUSTER_NAME
    ):
        raise KafkaError(ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    if services.acls is None:
        raise KafkaError(ErrorCode.SECURITY_DISABLED)
    return services.acls


class _Deletion:
    """Which rules the filters of a request select, and who removes them."""

    def __init__(self, store: AclStore, filters: Sequence[AclFilter]) -> None:
        self._filters = filters
        patterns = {pattern for pattern, _rules in store.index}
        # Rules of another broker that have not arrived here are removed too, where the filter says
        # which pattern it means.
        patterns.update(named for wanted in filters for named in _named_patterns(wanted))
        self._patterns = [
            pattern
            for pattern in patterns
            if any(wanted.selects_pattern(pattern) for wanted in filters)
        ]
        self.found: dict[AclRule, int] = {}

    def edits(self) -> dict[AclPattern, Callable[[tuple[AclRule, ...]], tuple[AclRule, ...]]]:
        """The change of each pattern."""
        return dict.fromkeys(self._patterns, self._without_selected)

    def _without_selected(self, rules: tuple[AclRule, ...]) -> tuple[AclRule, ...]:
        kept = []
        for rule in rules:
            index = next((n for n, one in enumerate(self._filters) if one.selects(rule)), None)
            if index is None:
                kept.append(rule)
            else:
                self.found.setdefault(rule, index)
        return tuple(kept)


def _named_patterns(wanted: AclFilter) -> list[AclPattern]:
    if wanted.name is None or not is_storable(wanted.name):
        return []
    if wanted.resource_type is AclResourceType.ANY or wanted.pattern_type is PatternType.MATCH:
        return []
    kinds = [wanted.pattern_type]
    if wanted.pattern_type is PatternType.ANY:
        kinds = [PatternType.LITERAL, PatternType.PREFIXED]
    return [AclPattern(wanted.resource_type, wanted.name, kind) for kind in kinds]


def _adding(rules: Sequence[AclRule]) -> Callable[[tuple[AclRule, ...]], tuple[AclRule, ...]]:
    return lambda before: tuple(dict.fromkeys([*before, *rules]))


def _rule(creation: AclCreation) -> AclRule:
    """Raises KafkaError with a sentence about what is wrong with it."""
    pattern = AclPattern(
        AclResourceType(creation.resource_type),
        creation.resource_name,
        PatternType(creation.resource_pattern_type),
    )
    rule = AclRule(
        pattern,
        creation.principal,
        creation.host,
        Operation(creation.operation),
        Permission(creation.permission_type),
    )
    text = _flaw(rule)
    if text is not None:
        raise KafkaError(ErrorCode.INVALID_REQUEST, text)
    return rule


def _flaw(rule: AclRule) -> str | None:
    """One sentence about a rule that cannot be kept."""
    kind, name, pattern_type = rule.pattern
    if kind is AclResourceType.ANY or pattern_type not in (
        PatternType.LITERAL,
        PatternType.PREFIXED,
    ):
        return "ANY and MATCH are for filters only: name a resource type, and a pattern type"
    if rule.operation is Operation.ANY or rule.permission is Permission.ANY:
        return "ANY is for filters only: name an operation and a permission"
    if kind is AclResourceType.CLUSTER and name != CLUSTER_NAME:
        return f"the only valid name of a cluster is {CLUSTER_NAME}"
    if not name:
        return "the name of the resource is empty"
    if not is_storable(name):
        return f"{name!r} cannot be stored: use a prefix without slashes and control characters"
    user_type, separator, user = rule.principal.partition(":")
    if not (user_type and separator and user):
        return f"a principal is written type:name, such as User:alice, and not {rule.principal!r}"
    if not rule.host:
        return "the host is empty: * means all hosts"
    if "/" in rule.host and network_of(rule.host) is None:
        return f"{rule.host!r} is no network: write it as 10.1.0.0/16"
    return None


def _check_words(context: RequestContext, creations: Sequence[AclCreation]) -> None:
    """Raises KafkaError for the whole request, as Kafka does."""
    if context.api_version == 0 and any(
        one.resource_pattern_type != PatternType.LITERAL for one in creations
    ):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _ONLY_LITERAL)
    for one in creations:
        try:
            AclResourceType(one.resource_type or -1)
            PatternType(one.resource_pattern_type or -1)
            Operation(one.operation or -1)
            Permission(one.permission_type or -1)
        except ValueError:
            raise KafkaError(ErrorCode.INVALID_REQUEST, _UNKNOWN_WORD) from None


def _filter(context: RequestContext, wanted: Any) -> AclFilter:
    """Of a DescribeAcls request, or one of DeleteAcls. Raises KafkaError."""
    try:
        found = AclFilter(
            AclResourceType(wanted.resource_type_filter or -1),
            wanted.resource_name_filter,
            PatternType(wanted.pattern_type_filter or -1),
            wanted.principal_filter,
            wanted.host_filter,
            Operation(wanted.operation or -1),
            Permission(wanted.permission_type or -1),
        )
    except ValueError:
        raise KafkaError(ErrorCode.INVALID_REQUEST, _UNKNOWN_WORD) from None
    if context.api_version > 0:
        return found
    if found.pattern_type not in (PatternType.ANY, PatternType.LITERAL):
        raise KafkaError(ErrorCode.UNSUPPORTED_VERSION, _ONLY_LITERAL)
    return found._replace(pattern_type=PatternType.LITERAL)


def _matching(rule: AclRule, error: KafkaError | None) -> DeleteAclsMatchingAcl:
    kind, name, pattern_type = rule.pattern
    return DeleteAclsMatchingAcl(
        error_code=ErrorCode.NONE if error is None else error.code,
        error_message=None if error is None else error.message,
        resource_type=kind,
        resource_name=name,
        pattern_type=pattern_type,
        principal=rule.principal,
        host=rule.host,
        operation=rule.operation,
        permission_type=rule.permission,
    )
