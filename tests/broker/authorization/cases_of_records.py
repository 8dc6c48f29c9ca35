"""Cases of requests about records, topics and settings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.broker.authorization.case import (
    BOTH,
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    OK,
    PART,
    Case,
    K,
    May,
    case_of,
    config,
    needs_of,
    one,
    topics,
)

if TYPE_CHECKING:
    from collections.abc import Callable


def of_records() -> list[Case]:
    """Records and what is known of them."""
    produced = [{"name": name, "partition_data": [{"index": 0, "records": b""}]} for name in "tu"]
    fetched = [{"topic": name, "partitions": PART} for name in "tu"]
    follower = {"replica_id": 7, "max_wait_ms": 0, "topics": fetched}
    listed = topics(partitions=[{"partition_index": 0, "timestamp": -1}])
    epochs = [{"topic": name, "partitions": [{"partition": 0}]} for name in "tu"]
    read = BOTH.format("read")
    describe = BOTH.format("describe")

    def of_broker(text: str) -> Callable[[May], set[int]]:
        broker, *parts = needs_of(text)

        def expected(may: May) -> set[int]:
            return {OK if may(broker) or may(part) else NO_TOPIC for part in parts}

        return expected

    with_broker = f"cluster_action cluster, {describe}"
    return [
        one(
            K.PRODUCE,
            12,
            {"acks": 1, "timeout_ms": 100, "topic_data": produced},
            BOTH.format("write"),
            NO_TOPIC,
        ),
        one(K.FETCH, 12, {"max_wait_ms": 0, "topics": fetched}, read, NO_TOPIC),
        one(K.FETCH, 12, follower, "cluster_action cluster", NO_TOPIC),
        one(K.LIST_OFFSETS, 9, {"replica_id": -1, "topics": listed}, describe, NO_TOPIC),
        one(
            K.LIST_OFFSETS,
            9,
            {"replica_id": 7, "topics": listed},
            "cluster_action cluster",
            NO_TOPIC,
        ),
        case_of(
            K.OFFSET_FOR_LEADER_EPOCH,
            4,
            {"topics": epochs},
            with_broker,
            of_broker(with_broker),
        ),
        one(
            K.DELETE_RECORDS,
            2,
            {
                "topics": topics(partitions=[{"partition_index": 0, "offset": 0}]),
                "timeout_ms": 100,
            },
            BOTH.format("delete"),
            NO_TOPIC,
        ),
        one(K.DESCRIBE_PRODUCERS, 0, {"topics": topics(partition_indexes=[0])}, read, NO_TOPIC),
    ]


def of_topics() -> list[Case]:
    """Topics themselves."""
    describe = BOTH.format("describe")
    new = [{"name": name, "num_partitions": 1, "replication_factor": 1} for name in ("n", "m")]
    create = "create cluster, create topic n, create topic m"
    missing = "create cluster, describe topic n, create topic n"

    def created(may: May) -> set[int]:
        cluster, *parts = needs_of(create)
        return {OK if may(cluster) or may(part) else NO_TOPIC for part in parts}

    def auto_created(may: May) -> set[int]:
        cluster, see, make = needs_of(missing)
        return {OK if may(see) and (may(cluster) or may(make)) else NO_TOPIC}

    return [
        one(
            K.METADATA,
            12,
            {"topics": topics(), "allow_auto_topic_creation": False},
            describe,
            NO_TOPIC,
        ),
        case_of(
            K.METADATA,
            12,
            {"topics": [{"name": "n"}], "allow_auto_topic_creation": True},
            missing,
            auto_created,
        ),
        one(
            K.DESCRIBE_TOPIC_PARTITIONS,
            0,
            {"topics": topics(), "cursor": None},
            describe,
            NO_TOPIC,
        ),
        case_of(
            K.CREATE_TOPICS,
            7,
            {"topics": new, "timeout_ms": 100, "validate_only": True},
            create,
            created,
        ),
        one(
            K.DELETE_TOPICS,
            6,
            {"topics": [{"name": "n"}, {"name": "m"}], "timeout_ms": 100},
            "delete topic n, delete topic m",
            NO_TOPIC,
        ),
        one(
            K.CREATE_PARTITIONS,
            3,
            {
                "topics": topics(count=9, assignments=None),
                "timeout_ms": 100,
                "validate_only": True,
            },
            BOTH.format("alter"),
            NO_TOPIC,
        ),
    ]


def of_configs() -> list[Case]:
    """Settings of topics, brokers, loggers and groups."""
    return [
        *(
            one(
                key,
                version,
                {"resources": [config(kind, name) for kind, name in named], **more},
                text.format(verb),
                code,
            )
            for key, version, verb, more in (
                (K.ALTER_CONFIGS, 2, "alter_configs", {"validate_only": True}),
                (K.INCREMENTAL_ALTER_CONFIGS, 1, "alter_configs", {"validate_only": True}),
            )
            for named, text, code in (
                (((2, "t"), (2, "u")), BOTH, NO_TOPIC),
                (((4, "1"),), "{0} cluster", NO_CLUSTER),
                (((32, "g"),), "{0} group g", NO_GROUP),
            )
        ),
        *(
            one(
                K.DESCRIBE_CONFIGS,
                4,
                {
                    "resources": [
                        {"resource_type": kind, "resource_name": name, "configuration_keys": None}
                        for kind, name in named
                    ]
                },
                text.format("describe_configs"),
                code,
            )
            for named, text, code in (
                (((2, "t"), (2, "u")), BOTH, NO_TOPIC),
                (((4, "1"),), "{0} cluster", NO_CLUSTER),
                (((8, "1"),), "{0} cluster", NO_CLUSTER),
                (((32, "g"),), "{0} group g", NO_GROUP),
            )
        ),
    ]
