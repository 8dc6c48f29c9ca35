"""Access rules, quotas and names of users in a backup, and how they are restored.

The protocol gives no passwords: of users a backup has names and mechanisms, so that a person sees
whose passwords have to be set again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.protocol.acls import (
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
)

if TYPE_CHECKING:
    from ottla.client.admin import Admin
    from ottla.client.backup.manifest import BackupManifest

PARTS = ("acls", "quotas", "users")


async def described_parts(admin: Admin, parts: frozenset[str]) -> dict[str, Any]:
    """The wanted parts as plain values; None for the others. Raises ClientError."""
    found: dict[str, Any] = dict.fromkeys(PARTS)
    if "acls" in parts:
        found["acls"] = [rule_document(rule) for rule in await admin.acls.describe_acls()]
    if "quotas" in parts:
        found["quotas"] = [view._asdict() for view in await admin.quotas.describe_quotas()]
    if "users" in parts:
        found["users"] = [view._asdict() for view in await admin.users.describe_users()]
    return found


def rule_document(rule: AclRule) -> dict[str, Any]:
    """A rule as plain values."""
    return {
        "resource_type": rule.pattern.resource_type.name,
        "resource": rule.pattern.name,
        "pattern_type": rule.pattern.pattern_type.name,
        "principal": rule.principal,
        "host": rule.host,
        "operation": rule.operation.name,
        "permission": rule.permission.name,
    }


def read_rule(document: dict[str, Any]) -> AclRule:
    """The rule in plain values. Raises KeyError."""
    pattern = AclPattern(
        AclResourceType[document["resource_type"]],
        document["resource"],
        PatternType[document["pattern_type"]],
    )
    return AclRule(
        pattern,
        document["principal"],
        document["host"],
        Operation[document["operation"]],
        Permission[document["permission"]],
    )


async def restore_parts(admin: Admin, manifest: BackupManifest, parts: frozenset[str]) -> list[str]:
    """Restore rules and quotas; returns sentences about what a person has to do. Raises
    ClientError."""
    told = []
    if "acls" in parts and manifest.acls:
        results = await admin.acls.create_acls(map(read_rule, manifest.acls))
        told += [
            f"the rule {rule} was refused: {error}" for rule, error in results.items() if error
        ]
    if "quotas" in parts:
        for one in manifest.quotas or ():
            await admin.quotas.alter_quotas(one["entity"], one["quotas"])
    if "users" in parts and manifest.users:
        names = ", ".join(one["name"] for one in manifest.users)
        told.append(f"set the passwords of these users again, with 'ottla users create': {names}")
    return told
