"""Access control lists (ACLs): their words, with Kafka's codes, their rules, and filters. Pure.

The meaning is Kafka's: a rule is about one resource, about all resources whose name begins with a
prefix, or, as a literal ``*``, about all resources of the type. A rule that denies beats every rule
that allows.
"""

from __future__ import annotations

import ipaddress
from enum import IntEnum
from functools import lru_cache
from typing import TypeVar

from ottla.protocol.named_tuples import NamedTuple


class Operation(IntEnum):
    """The operation of a request or a rule. ``ANY`` is for filters only."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14


class AclResourceType(IntEnum):
    """The type of a resource. ``ANY`` is for filters only."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How a rule matches names of resources. ``ANY`` and ``MATCH`` are for filters only."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Permission(IntEnum):
    """Whether a rule allows or denies. ``ANY`` is for filters only."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


CLUSTER_NAME = "kafka-cluster"
"""The only resource of type CLUSTER."""

WILDCARD = "*"
"""As the name of a literal rule all resources of the type; as its host all hosts."""

ANY_USER = "User:*"
"""The principal of rules for all users."""

# The operations of each resource type, for the bit fields in answers.
OPERATIONS = {
    AclResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    AclResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    AclResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
    AclResourceType.TRANSACTIONAL_ID: (Operation.DESCRIBE, Operation.WRITE),
    AclResourceType.DELEGATION_TOKEN: (Operation.DESCRIBE,),
    AclResourceType.USER: (Operation.CREATE_TOKENS, Operation.DESCRIBE_TOKENS),
}

# Rules that allow one of these allow Describe, or DescribeConfigs, too; rules that deny do not.
_IMPLYING_DESCRIBE = frozenset(
    {
        Operation.DESCRIBE,
        Operation.READ,
        Operation.WRITE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.ALL,
    }
)
_IMPLYING_DESCRIBE_CONFIGS = frozenset(
    {Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS, Operation.ALL}
)

Network = ipaddress.IPv4Network | ipaddress.IPv6Network


class AclPattern(NamedTuple):
    """The resources that a rule is about."""

    resource_type: AclResourceType
    name: str
    pattern_type: PatternType = PatternType.LITERAL

    def covers(self, resource_type: AclResourceType, name: str) -> bool:
        """Whether the pattern covers the resource of that type and name."""
        if self.resource_type is not resource_type:
            return False
        if self.pattern_type is PatternType.PREFIXED:
            return name.startswith(self.name)
        return self.name in (name, WILDCARD)


class AclRule(NamedTuple):
    """A principal is allowed or denied an operation, from a host, on what the pattern covers.

    ``host`` is an address, a network such as 10.1.0.0/16, or ``*``."""

    pattern: AclPattern
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def concerns(self, principal: str, host: str, operation: Operation) -> bool:
        """Whether the rule applies to this operation of that principal from that host.

        ``host`` is as ``plain_host`` makes it. The resource is not looked at."""
        return (
            self.principal in (principal, ANY_USER)
            and self.is_about(operation)
            and self._covers_host(host)
        )

    def _covers_host(self, host: str) -> bool:
        """A DENY whose host cannot be read denies from every host: a typing error in the metadata
        store must not let in the client that the rule was written against."""
        if matches_host(self.host, host):
            return True
        return self.permission is Permission.DENY and not is_readable_host(self.host)

    def is_about(self, operation: Operation) -> bool:
        """Whether the rule applies to the operation."""
        if self.permission is Permission.ALLOW:
            if operation is Operation.DESCRIBE:
                return self.operation in _IMPLYING_DESCRIBE
            if operation is Operation.DESCRIBE_CONFIGS:
                return self.operation in _IMPLYING_DESCRIBE_CONFIGS
        return self.operation in (operation, Operation.ALL)


class AclFilter(NamedTuple):
    """Selects rules; None and the members ``ANY`` select every value."""

    resource_type: AclResourceType = AclResourceType.ANY
    name: str | None = None
    pattern_type: PatternType = PatternType.ANY
    principal: str | None = None
    host: str | None = None
    operation: Operation = Operation.ANY
    permission: Permission = Permission.ANY

    def selects(self, rule: AclRule) -> bool:
        """Whether the filter matches the rule."""
        return (
            self.selects_pattern(rule.pattern)
            and self.principal in (None, rule.principal)
            and self.host in (None, rule.host)
            and self.operation in (Operation.ANY, rule.operation)
            and self.permission in (Permission.ANY, rule.permission)
        )

    def selects_pattern(self, pattern: AclPattern) -> bool:
        """Whether the filter can match rules of the pattern.

        MATCH selects all patterns that cover the name, ANY the patterns with this name.
        """
        if self.resource_type not in (AclResourceType.ANY, pattern.resource_type):
            return False
        if self.pattern_type in (PatternType.LITERAL, PatternType.PREFIXED):
            return self.pattern_type is pattern.pattern_type and self.name in (None, pattern.name)
        if self.name is None:
            return True
        if self.pattern_type is PatternType.MATCH:
            return pattern.covers(pattern.resource_type, self.name)
        return self.name == pattern.name


def matches_host(wanted: str, host: str) -> bool:
    """Whether a rule for the host ``wanted`` is about a caller from ``host``, a plain address."""
    if wanted in (WILDCARD, host):
        return True
    if "/" in wanted:
        network = network_of(wanted)
        address = _address(host)
        return network is not None and address is not None and address in network
    return plain_host(wanted) == host


def is_readable_host(host: str) -> bool:
    """Whether the text is a valid host of a rule: an address, a network, or ``*``."""
    return host == WILDCARD or _address(host) is not None or network_of(host) is not None


@lru_cache(maxsize=4096)
def plain_host(host: str) -> str:
    """The address in its shortest form: an IPv4 address that is written as IPv6 becomes IPv4.

    A text that is not an address is returned unchanged; host names are never resolved."""
    address = _address(host)
    return host if address is None else str(address)


@lru_cache(maxsize=4096)
def network_of(host: str) -> Network | None:
    """Return the network that a rule's host names; None if it is not a network."""
    try:
        network = ipaddress.ip_network(host, strict=False)
    except ValueError:
        return None
    mapped = getattr(network.network_address, "ipv4_mapped", None)
    if mapped is not None and network.prefixlen >= _MAPPED_BITS:
        return ipaddress.ip_network(f"{mapped}/{network.prefixlen - _MAPPED_BITS}", strict=False)
    return network


_MAPPED_BITS = 96


@lru_cache(maxsize=4096)
def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        address = ipaddress.ip_address(host.partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


Word = TypeVar("Word", AclResourceType, Operation, PatternType, Permission)


def spelled(word: AclResourceType | Operation | PatternType | Permission) -> str:
    """The word as Kafka's znodes and tools spell it, such as TransactionalId."""
    return "".join(part.capitalize() for part in word.name.split("_"))


def parse_word(kind: type[Word], text: str) -> Word | None:
    """Parse a word in any case, with or without separators; None if it is unknown."""
    plain = text.replace("_", "").replace("-", "").upper()
    for word in kind:
        if word.name.replace("_", "") == plain and word.value != 0:
            return word
    return None
