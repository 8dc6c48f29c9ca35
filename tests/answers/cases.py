"""The requests: a sensible one of each API, and the same with one field changed at a time.

None of them waits, and what they change is the same on every broker, so that each can be asked in
the order of this list on a fresh one.
"""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any

from ottla.protocol.apis import ApiKey
from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.schema import WireType, schema_of
from ottla.wire.messages import request_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from ottla.protocol.schema import Field

Fields = dict[str, Any]

# How long something may take is another matter, and what is only validated has to stay so.
UNCHANGED = ("_ms", "validate_only", "max_bytes", "records", "transaction_timeout")
UNCHANGED_NAMES = {"configuration_keys", "topic_id", "max_wait_ms", "allow_auto_topic_creation"}
NUMBERS = (-1, -2, 77)
TEXTS = ("", "a b", "nope")
_NUMERIC = {WireType.INT8, WireType.INT16, WireType.INT32, WireType.INT64}


class Sane(NamedTuple):
    """A sensible request, in the versions that every broker asked here serves."""

    key: ApiKey
    first: int
    last: int
    fields: Fields


class Case(NamedTuple):
    """One request with a name of its own."""

    name: str
    version: int
    request: Any


def _topic(name: str = "base", **more: Any) -> Fields:
    return {"name": name, **more}


_COMMIT = {"partition_index": 0, "committed_offset": 7, "committed_metadata": "note"}
_TXN = {"transactional_id": "nobody", "producer_id": 900_000, "producer_epoch": 0}
_RESOURCE = {
    "resource_type": 2,
    "resource_name": "base",
    "configs": [{"name": "retention.ms", "value": "86400000"}],
}

SANE = (
    Sane(
        ApiKey.FETCH,
        4,
        12,
        {
            "max_wait_ms": 0,
            "min_bytes": 1,
            "max_bytes": 1_000_000,
            "topics": [
                {
                    "topic": "base",
                    "partitions": [
                        {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1_000_000}
                    ],
                }
            ],
        },
    ),
    Sane(
        ApiKey.LIST_OFFSETS,
        1,
        9,
        {
            "replica_id": -1,
            "topics": [_topic(partitions=[{"partition_index": 0, "timestamp": -1}])],
        },
    ),
    Sane(ApiKey.METADATA, 4, 12, {"topics": [_topic("comp")], "allow_auto_topic_creation": False}),
    Sane(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        2,
        4,
        {
            "replica_id": -1,
            "topics": [{"topic": "base", "partitions": [{"partition": 0, "leader_epoch": 0}]}],
        },
    ),
    Sane(
        ApiKey.OFFSET_COMMIT, 2, 8, {"group_id": "known", "topics": [_topic(partitions=[_COMMIT])]}
    ),
    Sane(
        ApiKey.OFFSET_FETCH, 1, 7, {"group_id": "known", "topics": [_topic(partition_indexes=[0])]}
    ),
    Sane(
        ApiKey.OFFSET_FETCH,
        8,
        9,
        {"groups": [{"group_id": "known", "topics": [_topic(partition_indexes=[0])]}]},
    ),
    Sane(ApiKey.FIND_COORDINATOR, 1, 3, {"key": "known"}),
    Sane(ApiKey.FIND_COORDINATOR, 4, 5, {"coordinator_keys": ["known"]}),
    Sane(
        ApiKey.JOIN_GROUP,
        4,
        9,
        {
            "group_id": "joined",
            "session_timeout_ms": 30_000,
            "rebalance_timeout_ms": 30_000,
            "protocol_type": "consumer",
            "protocols": [{"name": "range", "metadata": b"\0\0\0\0\0\0\xff\xff\xff\xff"}],
        },
    ),
    Sane(
        ApiKey.SYNC_GROUP,
        0,
        5,
        {
            "group_id": "known",
            "generation_id": 1,
            "member_id": "m",
            "protocol_type": "consumer",
            "protocol_name": "range",
        },
    ),
    Sane(ApiKey.HEARTBEAT, 0, 4, {"group_id": "known", "generation_id": 1, "member_id": "m"}),
    Sane(ApiKey.LEAVE_GROUP, 3, 5, {"group_id": "known", "members": [{"member_id": "m"}]}),
    Sane(ApiKey.DESCRIBE_GROUPS, 0, 5, {"groups": ["known", "nobody"]}),
    Sane(
        ApiKey.OFFSET_DELETE,
        0,
        0,
        {"group_id": "known", "topics": [_topic(partitions=[{"partition_index": 2}])]},
    ),
    Sane(ApiKey.DELETE_GROUPS, 0, 2, {"groups_names": ["nobody"]}),
    Sane(
        ApiKey.CONSUMER_GROUP_HEARTBEAT,
        0,
        0,
        {"group_id": "nobody", "member_id": "m", "member_epoch": 1},
    ),
    Sane(ApiKey.CONSUMER_GROUP_DESCRIBE, 0, 0, {"group_ids": ["nobody"]}),
    Sane(
        ApiKey.CREATE_TOPICS,
        2,
        7,
        {
            "topics": [
                _topic(
                    "new",
                    num_partitions=-1,
                    replication_factor=-1,
                    configs=[{"name": "cleanup.policy", "value": "compact"}],
                )
            ],
            "timeout_ms": 30_000,
            "validate_only": True,
        },
    ),
    Sane(ApiKey.DELETE_TOPICS, 1, 5, {"topic_names": ["nope"], "timeout_ms": 30_000}),
    Sane(ApiKey.DELETE_TOPICS, 6, 6, {"topics": [_topic("nope")], "timeout_ms": 30_000}),
    Sane(
        ApiKey.CREATE_PARTITIONS,
        0,
        3,
        {
            "topics": [_topic(count=9, assignments=None)],
            "timeout_ms": 30_000,
            "validate_only": True,
        },
    ),
    Sane(
        ApiKey.DELETE_RECORDS,
        0,
        2,
        {
            "topics": [_topic("trim", partitions=[{"partition_index": 0, "offset": 1}])],
            "timeout_ms": 30_000,
        },
    ),
    Sane(
        ApiKey.DESCRIBE_CONFIGS,
        1,
        4,
        {
            "resources": [
                {
                    "resource_type": 2,
                    "resource_name": "comp",
                    "configuration_keys": ["cleanup.policy", "retention.ms", "max.message.bytes"],
                }
            ],
            "include_synonyms": True,
        },
    ),
    Sane(ApiKey.ALTER_CONFIGS, 0, 2, {"resources": [_RESOURCE], "validate_only": True}),
    Sane(ApiKey.INCREMENTAL_ALTER_CONFIGS, 0, 1, {"resources": [_RESOURCE], "validate_only": True}),
    Sane(
        ApiKey.ELECT_LEADERS,
        1,
        2,
        {"topic_partitions": [{"topic": "base", "partitions": [0]}], "timeout_ms": 30_000},
    ),
    Sane(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        0,
        {"topics": [_topic(partition_indexes=[0])], "timeout_ms": 30_000},
    ),
    Sane(ApiKey.DESCRIBE_CLUSTER, 0, 1, {}),
    Sane(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        0,
        {"topics": [_topic()], "cursor": {"topic_name": "base", "partition_index": 1}},
    ),
    Sane(ApiKey.DESCRIBE_PRODUCERS, 0, 0, {"topics": [_topic(partition_indexes=[0])]}),
    Sane(ApiKey.DESCRIBE_TRANSACTIONS, 0, 0, {"transactional_ids": ["nobody"]}),
    Sane(ApiKey.LIST_TRANSACTIONS, 0, 1, {"state_filters": ["Ongoing"]}),
    Sane(ApiKey.ADD_OFFSETS_TO_TXN, 0, 3, {**_TXN, "group_id": "known"}),
    Sane(ApiKey.END_TXN, 0, 4, {**_TXN, "committed": True}),
    Sane(
        ApiKey.TXN_OFFSET_COMMIT,
        0,
        3,
        {**_TXN, "group_id": "known", "topics": [_topic(partitions=[_COMMIT])]},
    ),
)


def all_cases() -> Iterator[Case]:
    """Every request, in the order in which they are to be asked."""
    for key, first, last, fields in SANE:
        declared = request_of(key)
        name = key.name.lower()
        for version in sorted({first, last}):
            yield Case(f"{name} {version} sane", version, made(declared, fields))
        for where, changed in _changes(declared, fields, last):
            yield Case(f"{name} {last} {where}", last, made(declared, changed))


def made(declared: type, fields: Fields) -> Any:
    """The message with these fields; structs are dictionaries."""
    schema = schema_of(declared)
    values = {}
    for name, value in fields.items():
        kind = schema.fields[name].kind
        if isinstance(kind, type) and value is not None:
            nested = [made(kind, one) for one in value] if isinstance(value, list) else None
            values[name] = made(kind, value) if nested is None else nested
        else:
            values[name] = value
    return declared(**values)


def _changes(declared: type, fields: Fields, version: int) -> Iterator[tuple[str, Fields]]:
    """The request with one field changed, for each field that the version has."""
    for name, field in schema_of(declared).fields.items():
        if not field.versions.holds(version) or field.tag is not None:
            continue
        if name.endswith(UNCHANGED) or name in UNCHANGED_NAMES:
            continue
        for value, shown in _values(field, fields.get(name), version):
            yield f"{name}={shown}", {**fields, name: value}
        kind, value = field.kind, fields.get(name)
        if not isinstance(kind, type) or not value:
            continue
        first = value[0] if field.is_array else value
        for where, changed in _changes(kind, first, version):
            nested = [changed, *value[1:]] if field.is_array else changed
            yield f"{name}.{where}", {**fields, name: nested}


def _values(field: Field, value: Any, version: int) -> Iterator[tuple[Any, str]]:
    if field.is_array:
        yield [], "empty"
        if value:
            yield [*value, *deepcopy(value)], "twice"
    elif field.kind in _NUMERIC:
        yield from ((number, str(number)) for number in NUMBERS if number != value)
    elif field.kind is WireType.STRING:
        yield from ((text, repr(text)) for text in TEXTS if text != value)
    elif field.kind is WireType.BOOLEAN:
        yield not value, "flipped"
    if field.nullable.holds(version) and field.kind is WireType.STRING and value is not None:
        yield None, "null"
