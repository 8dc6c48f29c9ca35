"""What handlers ask before they do anything: may this caller do this to that resource."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.protocol.acls import CLUSTER_NAME, OPERATIONS, AclResourceType, Operation

if TYPE_CHECKING:
    from ottla.broker.engine.context import RequestCaller


class Authorizer:
    """Of a broker without ``authorizer.class.name``: every caller may do everything."""

    def is_allowed(
        self, caller: RequestCaller, operation: Operation, resource: AclResourceType, name: str
    ) -> bool:
        """Whether the caller may do this to that resource."""
        return True

    def topic_operations(self, caller: RequestCaller, topic: str) -> int:
        """Bit field of what the caller may do to the topic (Metadata 8+)."""
        return self._bits(caller, AclResourceType.TOPIC, topic)

    def group_operations(self, caller: RequestCaller, group_id: str) -> int:
        """Bit field of what the caller may do to the group (KIP-430)."""
        return self._bits(caller, AclResourceType.GROUP, group_id)

    def cluster_operations(self, caller: RequestCaller) -> int:
        """Bit field of what the caller may do to the cluster (Metadata 8-10)."""
        return self._bits(caller, AclResourceType.CLUSTER, CLUSTER_NAME)

    def _bits(self, caller: RequestCaller, resource: AclResourceType, name: str) -> int:
        allowed = (op for op in OPERATIONS[resource] if self.is_allowed(caller, op, resource, name))
        return sum(1 << operation for operation in allowed)
