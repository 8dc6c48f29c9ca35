"""Every API this code base has a codec for, with the versions the codec knows.

What a broker advertises is less and is decided above. ``wire/messages.py`` loads the messages of an
API when it is first used.
"""

from __future__ import annotations

from enum import IntEnum
from types import MappingProxyType
from typing import TYPE_CHECKING

from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Mapping

NEVER = 1 << 15
"""The first flexible version of an API that has none."""


class ApiKey(IntEnum):
    """The number that a request names its API by."""

    PRODUCE = 0
    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    LEADER_AND_ISR = 4
    STOP_REPLICA = 5
    UPDATE_METADATA = 6
    CONTROLLED_SHUTDOWN = 7
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    DESCRIBE_GROUPS = 15
    LIST_GROUPS = 16
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    CREATE_TOPICS = 19
    DELETE_TOPICS = 20
    DELETE_RECORDS = 21
    INIT_PRODUCER_ID = 22
    OFFSET_FOR_LEADER_EPOCH = 23
    ADD_PARTITIONS_TO_TXN = 24
    ADD_OFFSETS_TO_TXN = 25
    END_TXN = 26
    WRITE_TXN_MARKERS = 27
    TXN_OFFSET_COMMIT = 28
    DESCRIBE_ACLS = 29
    CREATE_ACLS = 30
    DELETE_ACLS = 31
    DESCRIBE_CONFIGS = 32
    ALTER_CONFIGS = 33
    ALTER_REPLICA_LOG_DIRS = 34
    DESCRIBE_LOG_DIRS = 35
    SASL_AUTHENTICATE = 36
    CREATE_PARTITIONS = 37
    CREATE_DELEGATION_TOKEN = 38
    RENEW_DELEGATION_TOKEN = 39
    EXPIRE_DELEGATION_TOKEN = 40
    DESCRIBE_DELEGATION_TOKEN = 41
    DELETE_GROUPS = 42
    ELECT_LEADERS = 43
    INCREMENTAL_ALTER_CONFIGS = 44
    ALTER_PARTITION_REASSIGNMENTS = 45
    LIST_PARTITION_REASSIGNMENTS = 46
    OFFSET_DELETE = 47
    DESCRIBE_CLIENT_QUOTAS = 48
    ALTER_CLIENT_QUOTAS = 49
    DESCRIBE_USER_SCRAM_CREDENTIALS = 50
    ALTER_USER_SCRAM_CREDENTIALS = 51
    UPDATE_FEATURES = 57
    DESCRIBE_CLUSTER = 60
    DESCRIBE_PRODUCERS = 61
    UNREGISTER_BROKER = 64
    DESCRIBE_TRANSACTIONS = 65
    LIST_TRANSACTIONS = 66
    CONSUMER_GROUP_HEARTBEAT = 68
    CONSUMER_GROUP_DESCRIBE = 69
    GET_TELEMETRY_SUBSCRIPTIONS = 71
    PUSH_TELEMETRY = 72
    LIST_CONFIG_RESOURCES = 74
    DESCRIBE_TOPIC_PARTITIONS = 75


@dataclass(frozen=True, slots=True)
class ApiSpec:
    """One API: the versions of its codec, and the first with compact forms and tag sections."""

    key: ApiKey
    first_version: int
    last_version: int
    flexible_from: int

    @property
    def name(self) -> str:
        """Kafka's name, as in ``ListOffsets``."""
        return self.key.name.title().replace("_", "")

    @property
    def versions(self) -> range:
        return range(self.first_version, self.last_version + 1)


API: Mapping[int, ApiSpec] = MappingProxyType(
    {
        spec.key: spec
        for spec in (
            ApiSpec(ApiKey.PRODUCE, 0, 13, 9),
            ApiSpec(ApiKey.FETCH, 0, 18, 12),
            ApiSpec(ApiKey.LIST_OFFSETS, 0, 11, 6),
            ApiSpec(ApiKey.METADATA, 0, 13, 9),
            ApiSpec(ApiKey.LEADER_AND_ISR, 0, 7, 4),
            ApiSpec(ApiKey.STOP_REPLICA, 0, 4, 2),
            ApiSpec(ApiKey.UPDATE_METADATA, 0, 8, 6),
            ApiSpec(ApiKey.CONTROLLED_SHUTDOWN, 0, 3, 3),
            ApiSpec(ApiKey.OFFSET_COMMIT, 0, 10, 8),
            ApiSpec(ApiKey.OFFSET_FETCH, 0, 10, 6),
            ApiSpec(ApiKey.FIND_COORDINATOR, 0, 6, 3),
            ApiSpec(ApiKey.JOIN_GROUP, 0, 9, 6),
            ApiSpec(ApiKey.HEARTBEAT, 0, 4, 4),
            ApiSpec(ApiKey.LEAVE_GROUP, 0, 5, 4),
            ApiSpec(ApiKey.SYNC_GROUP, 0, 5, 4),
            ApiSpec(ApiKey.DESCRIBE_GROUPS, 0, 6, 5),
            ApiSpec(ApiKey.LIST_GROUPS, 0, 5, 3),
            ApiSpec(ApiKey.SASL_HANDSHAKE, 0, 1, NEVER),
            ApiSpec(ApiKey.API_VERSIONS, 0, 5, 3),
            ApiSpec(ApiKey.CREATE_TOPICS, 0, 7, 5),
            ApiSpec(ApiKey.DELETE_TOPICS, 0, 6, 4),
            ApiSpec(ApiKey.DELETE_RECORDS, 0, 2, 2),
            ApiSpec(ApiKey.INIT_PRODUCER_ID, 0, 5, 2),
            ApiSpec(ApiKey.OFFSET_FOR_LEADER_EPOCH, 0, 4, 4),
            ApiSpec(ApiKey.ADD_PARTITIONS_TO_TXN, 0, 5, 3),
            ApiSpec(ApiKey.ADD_OFFSETS_TO_TXN, 0, 4, 3),
            ApiSpec(ApiKey.END_TXN, 0, 5, 3),
            ApiSpec(ApiKey.WRITE_TXN_MARKERS, 0, 2, 1),
            ApiSpec(ApiKey.TXN_OFFSET_COMMIT, 0, 6, 3),
            ApiSpec(ApiKey.DESCRIBE_ACLS, 0, 3, 2),
            ApiSpec(ApiKey.CREATE_ACLS, 0, 3, 2),
            ApiSpec(ApiKey.DELETE_ACLS, 0, 3, 2),
            ApiSpec(ApiKey.DESCRIBE_CONFIGS, 0, 4, 4),
            ApiSpec(ApiKey.ALTER_CONFIGS, 0, 2, 2),
            ApiSpec(ApiKey.ALTER_REPLICA_LOG_DIRS, 0, 2, 2),
            ApiSpec(ApiKey.DESCRIBE_LOG_DIRS, 0, 5, 2),
            ApiSpec(ApiKey.SASL_AUTHENTICATE, 0, 2, 2),
            ApiSpec(ApiKey.CREATE_PARTITIONS, 0, 3, 2),
            ApiSpec(ApiKey.CREATE_DELEGATION_TOKEN, 0, 3, 2),
            ApiSpec(ApiKey.RENEW_DELEGATION_TOKEN, 0, 2, 2),
            ApiSpec(ApiKey.EXPIRE_DELEGATION_TOKEN, 0, 2, 2),
            ApiSpec(ApiKey.DESCRIBE_DELEGATION_TOKEN, 0, 3, 2),
            ApiSpec(ApiKey.DELETE_GROUPS, 0, 3, 2),
            ApiSpec(ApiKey.ELECT_LEADERS, 0, 2, 2),
            ApiSpec(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, 1),
            ApiSpec(ApiKey.ALTER_PARTITION_REASSIGNMENTS, 0, 1, 0),
            ApiSpec(ApiKey.LIST_PARTITION_REASSIGNMENTS, 0, 0, 0),
            ApiSpec(ApiKey.OFFSET_DELETE, 0, 0, NEVER),
            ApiSpec(ApiKey.DESCRIBE_CLIENT_QUOTAS, 0, 1, 1),
            ApiSpec(ApiKey.ALTER_CLIENT_QUOTAS, 0, 1, 1),
            ApiSpec(ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, 0, 0, 0),
            ApiSpec(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0, 0, 0),
            ApiSpec(ApiKey.UPDATE_FEATURES, 0, 2, 0),
            ApiSpec(ApiKey.DESCRIBE_CLUSTER, 0, 2, 0),
            ApiSpec(ApiKey.DESCRIBE_PRODUCERS, 0, 0, 0),
            ApiSpec(ApiKey.UNREGISTER_BROKER, 0, 0, 0),
            ApiSpec(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, 0),
            ApiSpec(ApiKey.LIST_TRANSACTIONS, 0, 2, 0),
            ApiSpec(ApiKey.CONSUMER_GROUP_HEARTBEAT, 0, 1, 0),
            ApiSpec(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 1, 0),
            ApiSpec(ApiKey.GET_TELEMETRY_SUBSCRIPTIONS, 0, 0, 0),
            ApiSpec(ApiKey.PUSH_TELEMETRY, 0, 0, 0),
            ApiSpec(ApiKey.LIST_CONFIG_RESOURCES, 0, 1, 0),
            ApiSpec(ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0, 0, 0),
        )
    }
)
"""By key; a plain int finds it too."""
