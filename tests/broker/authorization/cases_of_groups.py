"""Cases of requests about groups."""

from __future__ import annotations

from tests.broker.authorization.case import (
    BOTH,
    COMMIT,
    NO_GROUP,
    NO_TOPIC,
    NO_TXN,
    OK,
    Case,
    K,
    May,
    case_of,
    ladder,
    needs_of,
    one,
    topics,
)


def of_groups() -> list[Case]:
    """Groups and their offsets."""
    fetched = [{"group_id": "g", "topics": topics(partition_indexes=[0])}]
    read = BOTH.format("read")

    def offsets_deleted(may: May) -> set[int]:
        group, *_parts = needs_of(f"delete group g, {read}")
        # There is no such group, which is said of the whole.
        return {OK} if may(group) else {NO_GROUP}

    return [
        ladder(
            K.OFFSET_COMMIT,
            8,
            {"group_id": "g", "topics": topics(partitions=[COMMIT])},
            [("read group g", NO_GROUP), (read, NO_TOPIC)],
        ),
        ladder(
            K.OFFSET_FETCH,
            9,
            {"groups": fetched},
            [("describe group g", NO_GROUP), (BOTH.format("describe"), NO_TOPIC)],
        ),
        one(
            K.DESCRIBE_GROUPS,
            5,
            {"groups": ["g", "h"]},
            "describe group g, describe group h",
            NO_GROUP,
        ),
        one(
            K.DELETE_GROUPS,
            2,
            {"groups_names": ["g", "h"]},
            "delete group g, delete group h",
            NO_GROUP,
        ),
        case_of(
            K.OFFSET_DELETE,
            0,
            {"group_id": "g", "topics": topics(partitions=[{"partition_index": 0}])},
            f"delete group g, {read}",
            offsets_deleted,
        ),
        ladder(
            K.CONSUMER_GROUP_HEARTBEAT,
            1,
            {
                "group_id": "g",
                "member_id": "m",
                "member_epoch": 7,
                "subscribed_topic_names": ["t", "u"],
            },
            [
                ("read group g", NO_GROUP),
                ("describe topic t", NO_TOPIC),
                ("describe topic u", NO_TOPIC),
            ],
        ),
        one(
            K.CONSUMER_GROUP_DESCRIBE,
            1,
            {"group_ids": ["g", "h"]},
            "describe group g, describe group h",
            NO_GROUP,
        ),
    ]


def of_members() -> list[Case]:
    """Being in a group."""
    member = {"group_id": "g", "generation_id": 1, "member_id": "m"}
    in_group = {"group_id": "g", "protocol_type": "consumer"}
    return [
        one(
            K.FIND_COORDINATOR,
            5,
            {"key_type": 0, "coordinator_keys": ["g", "h"]},
            "describe group g, describe group h",
            NO_GROUP,
        ),
        one(
            K.FIND_COORDINATOR,
            5,
            {"key_type": 1, "coordinator_keys": ["x"]},
            "describe transactional_id x",
            NO_TXN,
        ),
        one(
            K.JOIN_GROUP,
            9,
            {
                **in_group,
                "session_timeout_ms": 10_000,
                "rebalance_timeout_ms": 10_000,
                "member_id": "m",
                "protocols": [{"name": "range", "metadata": b""}],
            },
            "read group g",
            NO_GROUP,
        ),
        one(
            K.SYNC_GROUP,
            5,
            {**member, "protocol_type": "consumer", "protocol_name": "range"},
            "read group g",
            NO_GROUP,
        ),
        one(K.HEARTBEAT, 4, member, "read group g", NO_GROUP),
        one(
            K.LEAVE_GROUP,
            5,
            {"group_id": "g", "members": [{"member_id": "m"}]},
            "read group g",
            NO_GROUP,
        ),
    ]
