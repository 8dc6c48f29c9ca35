"""The one door that every request passes: may this caller do it, and is it due to wait.

Allow-all for now; handlers ask here and nowhere else, so that authorization and quotas arrive
without a handler changing.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Protocol


class Operation(IntEnum):
    """What a caller wants to do; Kafka's ACL operation codes."""

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


class AclResourceType(IntEnum):
    """What it is to be done to; Kafka's ACL resource type codes."""

    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5


CLUSTER_NAME = "kafka-cluster"

# The operations a response may be asked to list, as bit positions of Kafka's bit field.
_TOPIC_OPERATIONS = (
    Operation.READ,
    Operation.WRITE,
    Operation.CREATE,
    Operation.DELETE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_GROUP_OPERATIONS = (
    Operation.READ,
    Operation.DELETE,
    Operation.DESCRIBE,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
)
_CLUSTER_OPERATIONS = (
    Operation.CREATE,
    Operation.ALTER,
    Operation.DESCRIBE,
    Operation.CLUSTER_ACTION,
    Operation.DESCRIBE_CONFIGS,
    Operation.ALTER_CONFIGS,
    Operation.IDEMPOTENT_WRITE,
)


class RequestCaller(Protocol):
    """Who asks, from where, and over which listener: a request's context."""

    @property
    def principal(self) -> str: ...

    @property
    def client_host(self) -> str: ...

    @property
    def listener(self) -> str: ...


class Door:
    """Owned by the server; asked by handlers before they do anything."""

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        """Whether the caller may do this to that resource."""
        return True

    def throttle_ms(self, caller: RequestCaller, size_bytes: int) -> int:
        """How long the caller must be made to wait for what this request cost (KIP-219)."""
        return 0

    def topic_operations(self, caller: RequestCaller, topic: str) -> int:
        """Bit field of what the caller may do to the topic (Metadata 8+)."""
        return self._bits(caller, AclResourceType.TOPIC, topic, _TOPIC_OPERATIONS)

    def group_operations(self, caller: RequestCaller, group_id: str) -> int:
        """Bit field of what the caller may do to the group (KIP-430)."""
        return self._bits(caller, AclResourceType.GROUP, group_id, _GROUP_OPERATIONS)

    def cluster_operations(self, caller: RequestCaller) -> int:
        """Bit field of what the caller may do to the cluster (Metadata 8-10)."""
        return self._bits(caller, AclResourceType.CLUSTER, CLUSTER_NAME, _CLUSTER_OPERATIONS)

    def _bits(
        self,
        caller: RequestCaller,
        resource: AclResourceType,
        name: str,
        operations: tuple[Operation, ...],
    ) -> int:
        allowed = (op for op in operations if self.is_allowed(caller, op, resource, name))
        return sum(1 << operation for operation in allowed)
