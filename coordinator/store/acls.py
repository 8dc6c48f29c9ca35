"""Access control lists in the store's tree, in the form of Kafka's AclAuthorizer.

One znode contains the rules of a pattern: ``/kafka-acl/Topic/orders`` for a literal name,
``/kafka-acl-extended/prefixed/Topic/orders-`` for a prefix. A sequential znode announces a change.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

from ottla.coordinator.store import znode
from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
    parse_word,
    spelled,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

ROOTS = {
    PatternType.LITERAL: "/kafka-acl",
    PatternType.PREFIXED: "/kafka-acl-extended/prefixed",
}
CHANGES = {
    PatternType.LITERAL: "/kafka-acl-changes",
    PatternType.PREFIXED: "/kafka-acl-extended-changes",
}
CHANGE_PREFIX = "acl_changes_"
RESOURCE_TYPES = tuple(one for one in AclResourceType if one > AclResourceType.ANY)

# Created by brokers with an authorizer, parents first.
PERMANENT_PATHS = (
    "/kafka-acl",
    "/kafka-acl-extended",
    "/kafka-acl-extended/prefixed",
    *CHANGES.values(),
    *(f"{root}/{spelled(kind)}" for root in ROOTS.values() for kind in RESOURCE_TYPES),
)
# A znode of ZooKeeper holds 1 MiB.
RULES_BYTES_MAX = 768 * 1024
# Characters that ZooKeeper accepts in no path, and the separator of paths.
_NOT_IN_A_NAME = re.compile(r"[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff/]")


def is_storable(name: str) -> bool:
    """Whether a resource of that name can have a znode."""
    return name not in ("", ".", "..") and _NOT_IN_A_NAME.search(name) is None


def folder(pattern_type: PatternType, resource_type: AclResourceType) -> str:
    """Return the parent of a resource type's znodes."""
    return f"{ROOTS[pattern_type]}/{spelled(resource_type)}"


def path_of(pattern: AclPattern) -> str:
    """Return the path of a pattern's rules."""
    return f"{folder(pattern.pattern_type, pattern.resource_type)}/{pattern.name}"


def build_rules(rules: Iterable[AclRule]) -> bytes:
    """Return the payload of a pattern's znode."""
    listed = [
        {
            "principal": rule.principal,
            "permissionType": spelled(rule.permission),
            "operation": spelled(rule.operation),
            "host": rule.host,
        }
        for rule in rules
    ]
    return znode.build({"version": 1, "acls": listed})


def parse_rules(pattern: AclPattern, data: bytes) -> tuple[AclRule, ...] | None:
    """Parse the rules of a pattern; None if they cannot be understood in full."""
    if not data:
        return ()
    try:
        value = json.loads(data)
        if value["version"] != 1:
            return None
        return tuple(dict.fromkeys(_rule(pattern, item) for item in value["acls"]))
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


def _rule(pattern: AclPattern, item: dict[str, object]) -> AclRule:
    operation = parse_word(Operation, str(item["operation"]))
    permission = parse_word(Permission, str(item["permissionType"]))
    principal, host = item["principal"], item["host"]
    if operation is None or permission is None or operation is Operation.ANY:
        raise ValueError("no operation or permission of a rule")
    if permission is Permission.ANY:
        raise ValueError("no permission of a rule")
    if not (isinstance(principal, str) and ":" in principal and isinstance(host, str)):
        raise ValueError("no principal or host")
    return AclRule(pattern, principal, host, operation, permission)


def change_path(pattern_type: PatternType) -> str:
    """Return the path of a change's announcement; the store appends a number."""
    return f"{CHANGES[pattern_type]}/{CHANGE_PREFIX}"


def build_change(pattern: AclPattern) -> bytes:
    """Return the announcement that the rules of a pattern have changed."""
    kind = pattern.resource_type.name
    if pattern.pattern_type is PatternType.LITERAL:
        return f"{kind}:{pattern.name}".encode()
    return znode.build(
        {
            "version": 1,
            "resourceType": kind,
            "name": pattern.name,
            "patternType": pattern.pattern_type.name,
        }
    )


def parse_change(pattern_type: PatternType, data: bytes) -> AclPattern | None:
    """Parse an announcement; None if it cannot be understood."""
    if pattern_type is PatternType.LITERAL:
        word, separator, name = data.decode("utf-8", "replace").partition(":")
        if not separator:
            return None
    else:
        value = znode.parse(data)
        word, name = str(value.get("resourceType")), str(value.get("name"))
    kind = parse_word(AclResourceType, word)
    if kind not in RESOURCE_TYPES or not is_storable(name):
        return None
    assert kind is not None
    return AclPattern(kind, name, pattern_type)
