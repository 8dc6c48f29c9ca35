"""The public surface on one screen: every API that is served, in which versions, by whom.

This one table drives dispatch, header versions and the ApiVersions answer, so the answer cannot
lie. Handlers are named, not imported: a start loads only what its clients call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import API, ApiKey
from ottla.protocol.data_classes import dataclass
from ottla.protocol.messages.api_versions import ApiVersion

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.handlers.services import Straight


@dataclass(frozen=True, slots=True)
class Api:
    """One row. ``served_from`` lies above ``min_version`` where versions are advertised for the
    sake of clients that only test for them.

    ``waits``: what the handler suspends for is the cluster's answer, not its own ordered part, so
    it must hold neither a handler slot nor its connection's lane meanwhile. ``straight_name``: what
    makes the shorter way of the commonest requests of a version."""

    key: ApiKey
    min_version: int
    max_version: int
    handler_name: str
    served_from: int = 0
    waits: bool = False
    straight_name: str = ""

    def serves(self, version: int) -> bool:
        """Whether requests of that version are answered."""
        return max(self.min_version, self.served_from) <= version <= self.max_version

    @property
    def advertised(self) -> range:
        """The versions that ApiVersions names."""
        return range(self.min_version, self.max_version + 1)

    @property
    def handler(self) -> Callable[..., Any]:
        """The function, loaded now."""
        return _load(self.handler_name)

    def straight(self, version: int) -> Straight | None:
        """The shorter way of a version's commonest requests, if it has one."""
        made: Straight | None = _load(self.straight_name)(version) if self.straight_name else None
        return made

    @property
    def request(self) -> type[Any]:
        return API[self.key].request()

    @property
    def response(self) -> type[Any]:
        return API[self.key].response()


def _load(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(f"ottla.broker.{module}"), function)
    return found


TABLE: dict[int, Api] = {
    api.key: api
    for api in (
        Api(
            ApiKey.PRODUCE,
            0,
            13,
            "handlers.data.produce:handle",
            served_from=3,
            straight_name="handlers.data.produce_straight:straight",
        ),
        Api(
            ApiKey.FETCH,
            4,
            18,
            "handlers.data.fetch:handle",
            straight_name="handlers.data.fetch_straight:straight",
        ),
        Api(ApiKey.LIST_OFFSETS, 1, 10, "handlers.data.list_offsets:handle"),
        Api(ApiKey.METADATA, 0, 13, "handlers.cluster.metadata:handle"),
        Api(ApiKey.LEADER_AND_ISR, 5, 7, "handlers.cluster.control:handle", waits=True),
        Api(ApiKey.STOP_REPLICA, 3, 4, "handlers.cluster.control:handle", waits=True),
        Api(ApiKey.UPDATE_METADATA, 7, 8, "handlers.cluster.control:handle", waits=True),
        Api(
            ApiKey.CONTROLLED_SHUTDOWN, 3, 3, "handlers.cluster.control_shutdown:handle", waits=True
        ),
        Api(ApiKey.OFFSET_COMMIT, 2, 9, "handlers.groups.offset_commit:handle"),
        Api(ApiKey.OFFSET_FETCH, 1, 9, "handlers.groups.offset_fetch:handle"),
        Api(ApiKey.FIND_COORDINATOR, 0, 6, "handlers.groups.coordinators:find"),
        Api(ApiKey.JOIN_GROUP, 0, 9, "handlers.groups.group_membership:join"),
        Api(ApiKey.HEARTBEAT, 0, 4, "handlers.groups.group_membership:heartbeat"),
        Api(ApiKey.LEAVE_GROUP, 0, 5, "handlers.groups.group_membership:leave"),
        Api(ApiKey.SYNC_GROUP, 0, 5, "handlers.groups.group_membership:sync"),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, "handlers.groups.group_admin:describe"),
        Api(ApiKey.LIST_GROUPS, 0, 5, "handlers.groups.group_admin:list_all"),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, "handlers.security.sasl:handshake"),
        Api(ApiKey.API_VERSIONS, 0, 4, "api.api_versions:handle"),
        Api(ApiKey.CREATE_TOPICS, 2, 7, "handlers.cluster.topics:create", waits=True),
        Api(ApiKey.DELETE_TOPICS, 1, 6, "handlers.cluster.topics:delete", waits=True),
        Api(ApiKey.DELETE_RECORDS, 0, 2, "handlers.data.records:delete", waits=True),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 5, "handlers.transactions.producer_id:handle", waits=True),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 2, 4, "handlers.data.epochs:handle"),
        Api(
            ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, "handlers.transactions.transactions:add_partitions"
        ),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, "handlers.transactions.transactions:add_offsets"),
        Api(ApiKey.END_TXN, 0, 5, "handlers.transactions.transactions:end"),
        Api(ApiKey.WRITE_TXN_MARKERS, 0, 2, "handlers.transactions.txn_markers:handle"),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, "handlers.transactions.txn_offset_commit:handle"),
        Api(ApiKey.DESCRIBE_ACLS, 0, 3, "handlers.security.acls:describe"),
        Api(ApiKey.CREATE_ACLS, 0, 3, "handlers.security.acls:create"),
        Api(ApiKey.DELETE_ACLS, 0, 3, "handlers.security.acls:delete"),
        Api(ApiKey.DESCRIBE_CONFIGS, 1, 4, "handlers.cluster.configs:describe"),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, "handlers.cluster.configs:alter", waits=True),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, "handlers.cluster.log_dirs:alter", waits=True),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 1, 4, "handlers.cluster.log_dirs:describe"),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, "handlers.security.sasl:authenticate"),
        Api(
            ApiKey.CREATE_PARTITIONS, 0, 3, "handlers.cluster.topics:create_partitions", waits=True
        ),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, "handlers.security.delegation_tokens:create"),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, "handlers.security.delegation_tokens:renew"),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, "handlers.security.delegation_tokens:expire"),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, "handlers.security.delegation_tokens:describe"),
        Api(ApiKey.DELETE_GROUPS, 0, 2, "handlers.groups.group_admin:delete"),
        Api(ApiKey.ELECT_LEADERS, 0, 2, "handlers.cluster.elections:handle", waits=True),
        Api(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            0,
            1,
            "handlers.cluster.configs:incremental_alter",
            waits=True,
        ),
        Api(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            1,
            "handlers.cluster.reassignments:alter",
            waits=True,
        ),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, "handlers.cluster.reassignments:list_all"),
        Api(ApiKey.OFFSET_DELETE, 0, 0, "handlers.groups.group_admin:delete_offsets"),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, "handlers.cluster.features:update", waits=True),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, "handlers.cluster.cluster:describe"),
        Api(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            0,
            "handlers.cluster.cluster:describe_topic_partitions",
        ),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, "handlers.data.describe_producers:handle"),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, "handlers.transactions.transactions:describe"),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2, "handlers.transactions.transactions:list_all"),
        Api(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            0,
            1,
            "handlers.groups.group_membership:consumer_heartbeat",
        ),
        Api(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            0,
            1,
            "handlers.groups.group_admin:describe_consumer_groups",
        ),
    )
}


_ADVERTISED = [
    ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    for _key, api in sorted(TABLE.items())
]


def advertised_apis(_version: int) -> list[ApiVersion]:
    """The rows of the ApiVersions answer."""
    return _ADVERTISED
