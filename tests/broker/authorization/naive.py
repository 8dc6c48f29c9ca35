"""The meaning of rules written down as plainly as possible: the oracle of the other tests."""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING

from ottla.protocol.acls import AclResourceType, Operation, PatternType, Permission

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.protocol.acls import AclPattern, AclRule

IMPLIES = {
    Operation.DESCRIBE: {"READ", "WRITE", "DELETE", "ALTER"},
    Operation.DESCRIBE_CONFIGS: {"ALTER_CONFIGS"},
}


def _covers(pattern: AclPattern, kind: AclResourceType, name: str) -> bool:
    if pattern.resource_type != kind:
        return False
    if pattern.pattern_type == PatternType.LITERAL:
        return pattern.name == "*" or pattern.name == name
    return name.startswith(pattern.name)


def _is_from(host: str, address: str) -> bool:
    if host == "*":
        return True
    host = host.removeprefix("::ffff:")
    if "/" in host:
        network, found = ipaddress.ip_network(host), ipaddress.ip_address(address)
        return found.version == network.version and found in network
    return host == address


def _is_about(rule: AclRule, operation: Operation) -> bool:
    if rule.operation in (Operation.ALL, operation):
        return True
    implied = IMPLIES.get(operation, set())
    return rule.permission == Permission.ALLOW and rule.operation.name in implied


def naively_decided(
    rules: Iterable[AclRule],
    unreadable: Iterable[AclPattern],
    caller: tuple[str, str],
    operation: Operation,
    resource: tuple[AclResourceType, str],
    *,
    is_open: bool,
) -> bool:
    """Whether the caller may do this to the resource."""
    if any(_covers(pattern, *resource) for pattern in unreadable):
        return False
    about = [rule for rule in rules if _covers(rule.pattern, *resource)]
    if not about:
        return is_open
    mine = [
        rule
        for rule in about
        if rule.principal in (caller[0], "User:*")
        and _is_from(rule.host, caller[1])
        and _is_about(rule, operation)
    ]
    if any(rule.permission == Permission.DENY for rule in mine):
        return False
    return any(rule.permission == Permission.ALLOW for rule in mine)


def naively_any(
    rules: Iterable[AclRule],
    unreadable: Iterable[AclPattern],
    caller: tuple[str, str],
    operation: Operation,
    kind: AclResourceType,
    *,
    is_open: bool,
) -> bool:
    """Whether some resource of the type could be there to which the caller may do this.

    As Kafka: a rule that allows counts unless a literal or prefix that denies covers all of it."""
    mine = [
        rule
        for rule in rules
        if rule.pattern.resource_type == kind
        and rule.principal in (caller[0], "User:*")
        and _is_from(rule.host, caller[1])
        and rule.operation in (operation, Operation.ALL)
    ]
    denied = [rule.pattern for rule in mine if rule.permission == Permission.DENY]
    denied += [pattern for pattern in unreadable if pattern.resource_type == kind]
    if any(one.pattern_type == PatternType.LITERAL and one.name == "*" for one in denied):
        return False
    if is_open:
        return True

    def is_left(pattern: AclPattern) -> bool:
        prefixes = [one.name for one in denied if one.pattern_type == PatternType.PREFIXED]
        if pattern.pattern_type == PatternType.LITERAL:
            if pattern.name == "*":
                return True
            if pattern in denied:
                return False
        return not any(pattern.name.startswith(prefix) for prefix in prefixes)

    return any(is_left(rule.pattern) for rule in mine if rule.permission == Permission.ALLOW)
