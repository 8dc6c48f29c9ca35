"""Cases of requests about transactions and the cluster, and all cases together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.broker.authorization.case import (
    ACL,
    ACL_FILTER,
    BOTH,
    COMMIT,
    CONTROL,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TXN,
    TX,
    Case,
    K,
    either,
    ladder,
    one,
    topics,
)
from tests.broker.authorization.cases_of_groups import of_groups, of_members
from tests.broker.authorization.cases_of_records import of_configs, of_records, of_topics

if TYPE_CHECKING:
    from ottla.protocol.apis import ApiKey


def _of_transactions() -> list[Case]:
    added = topics(partitions=[0])
    old = {f"v3_and_below_{name}": value for name, value in TX.items()}
    marker = {
        "producer_id": 900_000,
        "producer_epoch": 0,
        "transaction_result": True,
        "topics": [{"name": "missing", "partition_indexes": [0]}],
    }
    idempotent = "idempotent_write cluster, write topic any"
    return [
        one(
            K.INIT_PRODUCER_ID,
            5,
            {"transactional_id": "x", "transaction_timeout_ms": 1_000},
            "write transactional_id x",
            NO_TXN,
        ),
        either(K.INIT_PRODUCER_ID, 5, {"transactional_id": None}, idempotent, NO_CLUSTER),
        ladder(
            K.ADD_PARTITIONS_TO_TXN,
            3,
            {**old, "v3_and_below_topics": added},
            [("write transactional_id x", NO_TXN), (BOTH.format("write"), NO_TOPIC)],
        ),
        one(
            K.ADD_PARTITIONS_TO_TXN,
            5,
            {"transactions": [{**TX, "verify_only": True, "topics": added}]},
            "cluster_action cluster",
            NO_CLUSTER,
        ),
        ladder(
            K.ADD_OFFSETS_TO_TXN,
            4,
            {**TX, "group_id": "g"},
            [("write transactional_id x", NO_TXN), ("read group g", NO_GROUP)],
        ),
        one(K.END_TXN, 5, {**TX, "committed": True}, "write transactional_id x", NO_TXN),
        ladder(
            K.TXN_OFFSET_COMMIT,
            5,
            {**TX, "group_id": "g", "topics": topics(partitions=[COMMIT])},
            [
                ("write transactional_id x", NO_TXN),
                ("read group g", NO_GROUP),
                (BOTH.format("read"), NO_TOPIC),
            ],
        ),
        either(
            K.WRITE_TXN_MARKERS,
            1,
            {"markers": [marker]},
            "alter cluster, cluster_action cluster",
            NO_CLUSTER,
        ),
        one(
            K.DESCRIBE_TRANSACTIONS,
            0,
            {"transactional_ids": ["x", "y"]},
            "describe transactional_id x, describe transactional_id y",
            NO_TXN,
        ),
    ]


def _of_cluster() -> list[Case]:
    part = [{"name": "t", "partition_indexes": [0]}]
    for_cluster: list[tuple[ApiKey, int, dict[str, Any], str]] = [
        (K.DESCRIBE_ACLS, 3, ACL_FILTER, "describe"),
        (K.CREATE_ACLS, 3, {"creations": [ACL]}, "alter"),
        (K.DELETE_ACLS, 3, {"filters": [ACL_FILTER]}, "alter"),
        (
            K.ALTER_REPLICA_LOG_DIRS,
            2,
            {"dirs": [{"path": "/nowhere", "topics": [{"name": "t", "partitions": [0]}]}]},
            "alter",
        ),
        (K.DESCRIBE_LOG_DIRS, 4, {"topics": None}, "describe"),
        (
            K.ELECT_LEADERS,
            2,
            {"topic_partitions": [{"topic": "t", "partitions": [0]}], "timeout_ms": 100},
            "alter",
        ),
        (
            K.ALTER_PARTITION_REASSIGNMENTS,
            1,
            {
                "topics": [{"name": "t", "partitions": [{"partition_index": 0, "replicas": None}]}],
                "timeout_ms": 100,
            },
            "alter",
        ),
        (K.LIST_PARTITION_REASSIGNMENTS, 0, {"topics": part, "timeout_ms": 100}, "describe"),
        (K.UNREGISTER_BROKER, 0, {"broker_id": 99}, "alter"),
        (K.UPDATE_FEATURES, 2, {"feature_updates": [], "validate_only": True}, "alter"),
        (K.LIST_CONFIG_RESOURCES, 1, {"resource_types": []}, "describe_configs"),
        (K.DESCRIBE_CLIENT_QUOTAS, 1, {"components": [], "strict": False}, "describe_configs"),
        (
            K.ALTER_CLIENT_QUOTAS,
            1,
            {
                "entries": [
                    {
                        "entity": [{"entity_type": "user", "entity_name": "me"}],
                        "ops": [{"key": "producer_byte_rate", "value": 1.0, "remove": False}],
                    }
                ],
                "validate_only": True,
            },
            "alter_configs",
        ),
        (K.LEADER_AND_ISR, 7, {**CONTROL, "topic_states": []}, "cluster_action"),
        (K.STOP_REPLICA, 4, {**CONTROL, "topic_states": []}, "cluster_action"),
        (K.UPDATE_METADATA, 8, {**CONTROL, "topic_states": []}, "cluster_action"),
        (K.CONTROLLED_SHUTDOWN, 3, {"broker_id": 99, "broker_epoch": 1}, "cluster_action"),
    ]
    return [
        one(key, version, fields, f"{verb} cluster", NO_CLUSTER)
        for key, version, fields, verb in for_cluster
    ]


CASES = (
    *of_records(),
    *of_topics(),
    *of_configs(),
    *of_groups(),
    *of_members(),
    *_of_transactions(),
    *_of_cluster(),
)
# What these leave out of their answers, or say in other fields, has tests of its own.
LISTS = {K.LIST_GROUPS, K.LIST_TRANSACTIONS, K.DESCRIBE_CLUSTER}
# Their handlers look at who has logged in; tests beside them show it.
OF_LOGINS = {
    K.SASL_HANDSHAKE,
    K.SASL_AUTHENTICATE,
    K.DESCRIBE_USER_SCRAM_CREDENTIALS,
    K.ALTER_USER_SCRAM_CREDENTIALS,
}
# Their callers have to log in: the same situations, in a matrix of their own.
OF_TOKENS = {
    K.CREATE_DELEGATION_TOKEN,
    K.RENEW_DELEGATION_TOKEN,
    K.EXPIRE_DELEGATION_TOKEN,
    K.DESCRIBE_DELEGATION_TOKEN,
}
FREE = {K.API_VERSIONS, K.GET_TELEMETRY_SUBSCRIPTIONS, K.PUSH_TELEMETRY}
