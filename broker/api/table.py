"""The public surface on one screen: every API that is served, in which versions, by whom.

This one table drives dispatch, header versions and the ApiVersions answer, so the answer cannot
lie. A row holds the function that loads its handler: a start loads only what its clients call.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.broker.api import handlers, rare_handlers
from ottla.broker.api.rights import RIGHTS
from ottla.protocol.apis import ApiKey
from ottla.protocol.data_classes import dataclass
from ottla.protocol.messages.api_versions import ApiVersion
from ottla.wire.messages import request_of, response_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from ottla.broker.api.handlers import Handler, MakeStraight
    from ottla.broker.api.rights import Right
    from ottla.broker.handlers.services import Straight


@dataclass(frozen=True, slots=True)
class Api:
    """One row. ``old_handler``: loads what serves versions before ``old_until``, those of Kafka
    before 0.11, where they are another matter.

    ``waits``: what the handler suspends for is the cluster's answer, not its own ordered part, so
    it must hold neither a handler slot nor its connection's lane meanwhile. ``load_straight``:
    loads what makes the shorter way of the commonest requests of a version. ``load_many``: what
    that way leaves large requests to, loaded with the first of them."""

    key: ApiKey
    min_version: int
    max_version: int
    load_handler: Callable[[], Handler]
    waits: bool = False
    load_straight: Callable[[], Callable[..., Straight | None]] | None = None
    load_many: Callable[[], MakeStraight] | None = None
    old_until: int = 0
    load_old: Callable[[], Handler] | None = None

    def serves(self, version: int) -> bool:
        """Whether requests of that version are answered."""
        return self.min_version <= version <= self.max_version

    def handler(self, version: int) -> Handler:
        """The function for requests of that version, loaded now."""
        if self.load_old is not None and version < self.old_until:
            return self.load_old()
        return self.load_handler()

    def straight(self, version: int) -> Straight | None:
        """The shorter way of a version's commonest requests, if it has one."""
        if self.load_straight is None:
            return None
        make = self.load_straight()
        return make(version) if self.load_many is None else make(version, self.load_many)

    @property
    def rights(self) -> tuple[Right, ...]:
        """What the handler asks of callers. Raises KeyError where nothing is declared."""
        return RIGHTS[self.key]

    @property
    def request(self) -> type[Any]:
        return request_of(self.key)

    @property
    def response(self) -> type[Any]:
        return response_of(self.key)


TABLE: dict[int, Api] = {
    api.key: api
    for api in (
        Api(
            ApiKey.PRODUCE,
            0,
            13,
            handlers.produce,
            load_straight=handlers.produce_straight,
            old_until=3,
            load_old=rare_handlers.produce,
        ),
        Api(
            ApiKey.FETCH,
            0,
            18,
            handlers.fetch,
            load_straight=handlers.fetch_straight,
            load_many=rare_handlers.fetch_many,
            old_until=4,
            load_old=rare_handlers.fetch,
        ),
        Api(
            ApiKey.LIST_OFFSETS,
            0,
            10,
            handlers.list_offsets,
            old_until=1,
            load_old=rare_handlers.list_offsets,
        ),
        Api(ApiKey.METADATA, 0, 13, handlers.metadata),
        Api(ApiKey.LEADER_AND_ISR, 5, 7, handlers.leader_and_isr, waits=True),
        Api(ApiKey.STOP_REPLICA, 3, 4, handlers.stop_replica, waits=True),
        Api(ApiKey.UPDATE_METADATA, 7, 8, handlers.update_metadata, waits=True),
        Api(ApiKey.CONTROLLED_SHUTDOWN, 3, 3, handlers.controlled_shutdown, waits=True),
        Api(
            ApiKey.OFFSET_COMMIT,
            0,
            9,
            handlers.offset_commit,
            old_until=1,
            load_old=rare_handlers.offset_commit,
        ),
        Api(
            ApiKey.OFFSET_FETCH,
            0,
            9,
            handlers.offset_fetch,
            old_until=1,
            load_old=rare_handlers.offset_fetch,
        ),
        Api(ApiKey.FIND_COORDINATOR, 0, 6, handlers.find_coordinator),
        Api(ApiKey.JOIN_GROUP, 0, 9, handlers.join_group),
        Api(ApiKey.HEARTBEAT, 0, 4, handlers.heartbeat),
        Api(ApiKey.LEAVE_GROUP, 0, 5, handlers.leave_group),
        Api(ApiKey.SYNC_GROUP, 0, 5, handlers.sync_group),
        Api(ApiKey.DESCRIBE_GROUPS, 0, 6, handlers.describe_groups),
        Api(ApiKey.LIST_GROUPS, 0, 5, handlers.list_groups),
        Api(ApiKey.SASL_HANDSHAKE, 0, 1, handlers.sasl_handshake),
        Api(ApiKey.API_VERSIONS, 0, 5, handlers.api_versions),
        Api(ApiKey.CREATE_TOPICS, 0, 7, handlers.create_topics, waits=True),
        Api(ApiKey.DELETE_TOPICS, 0, 6, handlers.delete_topics, waits=True),
        Api(ApiKey.DELETE_RECORDS, 0, 2, handlers.delete_records, waits=True),
        Api(ApiKey.INIT_PRODUCER_ID, 0, 5, handlers.init_producer_id, waits=True),
        Api(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, handlers.offset_for_leader_epoch),
        Api(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, handlers.add_partitions_to_txn),
        Api(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, handlers.add_offsets_to_txn),
        Api(ApiKey.END_TXN, 0, 5, handlers.end_txn),
        Api(ApiKey.WRITE_TXN_MARKERS, 0, 2, handlers.write_txn_markers),
        Api(ApiKey.TXN_OFFSET_COMMIT, 0, 5, handlers.txn_offset_commit),
        Api(ApiKey.DESCRIBE_ACLS, 0, 3, handlers.describe_acls),
        Api(ApiKey.CREATE_ACLS, 0, 3, handlers.create_acls),
        Api(ApiKey.DELETE_ACLS, 0, 3, handlers.delete_acls),
        Api(ApiKey.DESCRIBE_CONFIGS, 0, 4, handlers.describe_configs),
        Api(ApiKey.ALTER_CONFIGS, 0, 2, handlers.alter_configs, waits=True),
        Api(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, handlers.alter_replica_log_dirs, waits=True),
        Api(ApiKey.DESCRIBE_LOG_DIRS, 0, 4, handlers.describe_log_dirs),
        Api(ApiKey.SASL_AUTHENTICATE, 0, 2, handlers.sasl_authenticate),
        Api(ApiKey.CREATE_PARTITIONS, 0, 3, handlers.create_partitions, waits=True),
        Api(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, handlers.create_delegation_token),
        Api(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, handlers.renew_delegation_token),
        Api(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, handlers.expire_delegation_token),
        Api(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, handlers.describe_delegation_token),
        Api(ApiKey.DELETE_GROUPS, 0, 2, handlers.delete_groups),
        Api(ApiKey.ELECT_LEADERS, 0, 2, handlers.elect_leaders, waits=True),
        Api(
            ApiKey.INCREMENTAL_ALTER_CONFIGS,
            0,
            1,
            handlers.incremental_alter_configs,
            waits=True,
        ),
        Api(
            ApiKey.ALTER_PARTITION_REASSIGNMENTS,
            0,
            1,
            handlers.alter_partition_reassignments,
            waits=True,
        ),
        Api(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, handlers.list_partition_reassignments),
        Api(ApiKey.OFFSET_DELETE, 0, 0, handlers.offset_delete),
        Api(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, handlers.describe_client_quotas),
        Api(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, handlers.alter_client_quotas, waits=True),
        Api(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, handlers.describe_scram_users),
        Api(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, handlers.alter_scram_users, waits=True),
        Api(ApiKey.UPDATE_FEATURES, 0, 2, handlers.update_features, waits=True),
        Api(ApiKey.DESCRIBE_CLUSTER, 0, 2, handlers.describe_cluster),
        Api(ApiKey.UNREGISTER_BROKER, 0, 0, handlers.unregister_broker, waits=True),
        Api(
            ApiKey.DESCRIBE_TOPIC_PARTITIONS,
            0,
            0,
            handlers.describe_topic_partitions,
        ),
        Api(ApiKey.DESCRIBE_PRODUCERS, 0, 0, handlers.describe_producers),
        Api(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, handlers.describe_transactions),
        Api(ApiKey.LIST_TRANSACTIONS, 0, 2, handlers.list_transactions),
        Api(
            ApiKey.CONSUMER_GROUP_HEARTBEAT,
            0,
            1,
            handlers.consumer_group_heartbeat,
        ),
        Api(
            ApiKey.CONSUMER_GROUP_DESCRIBE,
            0,
            1,
            handlers.consumer_group_describe,
        ),
        Api(
            ApiKey.GET_TELEMETRY_SUBSCRIPTIONS,
            0,
            0,
            rare_handlers.get_telemetry_subscriptions,
        ),
        Api(ApiKey.PUSH_TELEMETRY, 0, 0, rare_handlers.push_telemetry),
        Api(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, rare_handlers.list_config_resources),
    )
}

_UNDECLARED = [api.key.name for api in TABLE.values() if api.key not in RIGHTS]
if _UNDECLARED:
    raise LookupError(f"say in rights.py what these APIs ask of their callers: {_UNDECLARED}")


_TELEMETRY = (ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, ApiKey.PUSH_TELEMETRY)
_WITH_TELEMETRY = [
    ApiVersion(api_key=api.key, min_version=api.min_version, max_version=api.max_version)
    for _key, api in sorted(TABLE.items())
]
_ADVERTISED = [one for one in _WITH_TELEMETRY if one.api_key not in _TELEMETRY]


def advertised_apis(_version: int) -> list[ApiVersion]:
    """The rows of the ApiVersions answer. Clients push metrics as soon as they see that a broker
    takes them, so a broker that takes none does not list these APIs."""
    return _ADVERTISED


def advertised_with_telemetry(_version: int) -> list[ApiVersion]:
    """The rows of the ApiVersions answer of a broker that takes metrics of clients."""
    return _WITH_TELEMETRY
