"""Who may do what to one resource, and by which rule. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import ANY_USER, OPERATIONS, WILDCARD, Permission, plain_host
from ottla.protocol.named_tuples import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.acls import AclResourceType, AclRule, Operation


class AclVerdict(NamedTuple):
    """Whether a principal may do something from a host, and the rule that says so.

    ``rule`` is None where no rule decides."""

    principal: str
    host: str
    operation: Operation
    is_allowed: bool
    rule: AclRule | None


def explain(
    rules: Iterable[AclRule], resource_type: AclResourceType, name: str
) -> list[AclVerdict]:
    """Judge every principal and host that a rule names, for every operation that a rule is about.

    Args:
        rules: All rules of the cluster, or those that cover the resource.
        resource_type: Its type.
        name: Its name.
    """
    about = [rule for rule in rules if rule.pattern.covers(resource_type, name)]
    callers = sorted({(rule.principal, rule.host) for rule in about})
    verdicts = []
    for principal, host in callers:
        for operation in OPERATIONS[resource_type]:
            verdict = judge(about, (principal, host), operation)
            if verdict.rule is not None:
                verdicts.append(verdict)
    return verdicts


def judge(about: Iterable[AclRule], caller: tuple[str, str], operation: Operation) -> AclVerdict:
    """The verdict about one operation, by rules that cover the resource.

    A host of ``*`` stands for a host that no rule names, ``User:*`` for a user that no rule names.
    """
    principal, host = caller
    allowing = None
    for rule in about:
        if rule.principal not in (principal, ANY_USER) or not rule.is_about(operation):
            continue
        if not _is_from(rule, principal, host, operation):
            continue
        if rule.permission is Permission.DENY:
            return AclVerdict(principal, host, operation, False, rule)
        allowing = allowing or rule
    return AclVerdict(principal, host, operation, allowing is not None, allowing)


def _is_from(rule: AclRule, principal: str, host: str, operation: Operation) -> bool:
    if rule.host in (host, WILDCARD):
        return True
    if host == WILDCARD or "/" in host:
        return False
    return rule.concerns(principal, plain_host(host), operation)
