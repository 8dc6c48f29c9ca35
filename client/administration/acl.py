"""Access rules in short: one sentence about a principal makes all the rules that say it. Pure."""

from __future__ import annotations

from ottla.protocol.acls import (
    CLUSTER_NAME,
    OPERATIONS,
    WILDCARD,
    AclPattern,
    AclResourceType,
    AclRule,
    Operation,
    PatternType,
    Permission,
    parse_word,
)
from ottla.protocol.named_tuples import NamedTuple

_USER = "User:"


class Acl(NamedTuple):
    """What a user may do, or with ``deny`` may not do; ``rules`` makes the rules of it.

    Args:
        user: The user, as ``"alice"`` or ``"User:alice"``; ``"*"`` for every user.
        operations: Kafka's words, separated by commas, such as ``"read,write"``; each counts for
            the named resources that know it.
        topic: The topic's name; ``"*"`` for all topics; None (default) for no rule about one.
        group: The group's id, likewise.
        transactional_id: The transactional id, likewise.
        cluster: Whether it is about the cluster itself, too; False by default.
        prefixed: Whether the names are beginnings of names; False by default.
        host: The client's address or network; ``"*"`` (default) for every host.
        deny: Whether it is denied; False by default.

    Example:
        Acl("alice", "read,write", topic="orders", group="billing")
    """

    user: str
    operations: str
    topic: str | None = None
    group: str | None = None
    transactional_id: str | None = None
    cluster: bool = False
    prefixed: bool = False
    host: str = WILDCARD
    deny: bool = False

    def rules(self) -> list[AclRule]:
        """Return a rule for each resource and each operation that the resource knows.

        Raises:
            ValueError: No resource is named, or an operation is of none of them.
        """
        patterns = self._patterns()
        if not patterns:
            raise ValueError("an Acl names a topic, a group, a transactional id or the cluster")
        found: list[AclRule] = []
        for word in filter(None, map(str.strip, self.operations.split(","))):
            operation = parse_word(Operation, word)
            about = [one for one in patterns if operation is not None and _fits(operation, one)]
            if operation is None or not about:
                raise ValueError(f"{word!r} is no operation of what {self} names")
            found += [self._rule(one, operation) for one in about]
        if not found:
            raise ValueError("an Acl names operations, such as 'read,write'")
        return found

    def _patterns(self) -> list[AclPattern]:
        kind = PatternType.PREFIXED if self.prefixed else PatternType.LITERAL
        named = {
            AclResourceType.TOPIC: self.topic,
            AclResourceType.GROUP: self.group,
            AclResourceType.TRANSACTIONAL_ID: self.transactional_id,
        }
        patterns = [AclPattern(one, name, kind) for one, name in named.items() if name is not None]
        if self.cluster:
            patterns.append(AclPattern(AclResourceType.CLUSTER, CLUSTER_NAME))
        return patterns

    def _rule(self, pattern: AclPattern, operation: Operation) -> AclRule:
        principal = self.user if self.user.startswith(_USER) else f"{_USER}{self.user}"
        permission = Permission.DENY if self.deny else Permission.ALLOW
        return AclRule(pattern, principal, self.host, operation, permission)


def _fits(operation: Operation, pattern: AclPattern) -> bool:
    return operation is Operation.ALL or operation in OPERATIONS[pattern.resource_type]
