"""Connects one member to its coordinator, over a connection of its own.

Answers on a connection come in order, and a join waits for a whole group.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from ottla.client.cluster.coordinators import Coordinators
from ottla.client.cluster.private_pool import OwnPool
from ottla.client.cluster.routing import Router
from ottla.protocol.apis import ApiKey
from ottla.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from ottla.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from ottla.protocol.messages.join_group import JoinGroupRequest, JoinGroupResponse
from ottla.protocol.messages.leave_group import LeaveGroupRequest, LeaveGroupResponse
from ottla.protocol.messages.sync_group import SyncGroupRequest, SyncGroupResponse
from ottla.wire.api import declare

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Coroutine, Mapping

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.wire.api import RequestApi
    from ottla.wire.connection import Connection

# Before version 2 the coordinator could not tell a join from a rejoin after a lost answer.
JOIN_GROUP = declare(ApiKey.JOIN_GROUP, JoinGroupRequest, JoinGroupResponse, 2)
SYNC_GROUP = declare(ApiKey.SYNC_GROUP, SyncGroupRequest, SyncGroupResponse, 1)
HEARTBEAT = declare(ApiKey.HEARTBEAT, HeartbeatRequest, HeartbeatResponse, 1)
LEAVE_GROUP = declare(ApiKey.LEAVE_GROUP, LeaveGroupRequest, LeaveGroupResponse, 1)
CONSUMER_GROUP_HEARTBEAT = declare(
    ApiKey.CONSUMER_GROUP_HEARTBEAT, ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
)
# From this version on one request can name several leaving members.
LEAVING_MEMBERS_VERSION = 3
REGEX_VERSION = 1

APIS: Mapping[type, RequestApi[Any, Any]] = MappingProxyType(
    {
        api.request: api
        for api in (JOIN_GROUP, SYNC_GROUP, HEARTBEAT, LEAVE_GROUP, CONSUMER_GROUP_HEARTBEAT)
    }
)


class OwnCoordinators(Coordinators):
    """As ``Coordinators``, over connections of its own; ``close`` them in the end."""

    def __init__(self, cluster: ClusterClient, name: str) -> None:
        pool = OwnPool(cluster, name)
        super().__init__(Router(cluster), pool=pool)
        self.close = pool.close


class MembershipLink:
    """Owned by one membership; ``close`` it in the end."""

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self._group_id = group_id
        self._coordinators = OwnCoordinators(cluster, "membership")
        self.close = self._coordinators.close

    def forget(self) -> None:
        """Drop the known coordinator: another broker may have taken over."""
        self._coordinators.forget(self._group_id)

    def connection(self) -> Coroutine[Any, Any, Connection]:
        """Return a connection to the coordinator. Raises RequestRefused or TransportError."""
        return self._coordinators.connection(self._group_id)

    @staticmethod
    def send(connection: Connection, request: Any, timeout_ms: float | None) -> asyncio.Future[Any]:
        """Send in the newest version both sides speak. Raises UnsupportedByBroker."""
        api = APIS[type(request)]
        version = connection.version_of(api)
        if isinstance(request, LeaveGroupRequest):
            if version < LEAVING_MEMBERS_VERSION:
                request.members = []
            else:
                request.member_id = ""
        return connection.send(api, request, timeout_ms=timeout_ms, version=version)
