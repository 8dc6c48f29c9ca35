"""The schema of each page's JSON response, in OpenAPI 3.1 (JSON Schema 2020-12). Pure."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

TEXT: Schema = {"type": "string"}
WHOLE: Schema = {"type": "integer"}
NUMBER: Schema = {"type": "number"}
FLAG: Schema = {"type": "boolean"}
WHOLES: Schema = {"type": "array", "items": WHOLE}
TEXTS: Schema = {"type": "array", "items": TEXT}


def _or_null(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def object_schema(fields: Schema) -> Schema:
    """Return the schema of an object that has all of these fields."""
    return {"type": "object", "required": list(fields), "properties": fields}


def list_schema(fields: Schema) -> Schema:
    """Return the schema of a list of such objects."""
    return {"type": "array", "items": object_schema(fields)}


def one_of(*values: str) -> Schema:
    """One of some texts."""
    return {"type": "string", "enum": list(values)}


MAYBE_TEXT, MAYBE_WHOLE, MAYBE_NUMBER = _or_null(TEXT), _or_null(WHOLE), _or_null(NUMBER)
# Pairs of milliseconds since 1970 and a number.
POINTS: Schema = {
    "type": "array",
    "items": {"type": "array", "items": WHOLE, "minItems": 2, "maxItems": 2},
}
PAGE: Schema = {"page": WHOLE, "pages": WHOLE, "rows": WHOLE, "total": WHOLE, "search": TEXT}
PARTITION: Schema = {
    "partition": WHOLE,
    "leader": MAYBE_WHOLE,
    "leader_epoch": WHOLE,
    "replicas": WHOLES,
    "isr": WHOLES,
    "offline": WHOLES,
    "is_under_replicated": FLAG,
}
CONFIGS = list_schema(
    {
        "name": TEXT,
        "value": MAYBE_TEXT,
        "source": TEXT,
        "is_default": FLAG,
        "is_read_only": FLAG,
        "is_sensitive": FLAG,
        "documentation": MAYBE_TEXT,
    }
)
TOPIC: Schema = {
    "topic": TEXT,
    "is_internal": FLAG,
    "partitions": WHOLE,
    "replication_factor": WHOLE,
    "under_replicated": WHOLE,
    "leaderless": WHOLE,
    "size_bytes": MAYBE_WHOLE,
}
CONTENT: Schema = {
    "text": MAYBE_TEXT,
    "format": one_of("null", "text", "json", "hex"),
    "size_bytes": WHOLE,
    "is_cut": FLAG,
}
RECORD: Schema = {
    "partition": WHOLE,
    "offset": WHOLE,
    "timestamp": WHOLE,
    "key": object_schema(CONTENT),
    "value": object_schema(CONTENT),
    "headers": list_schema({"name": TEXT, **CONTENT}),
    "headers_left_out": WHOLE,
}
CLUSTER = object_schema(
    {
        "cluster_id": MAYBE_TEXT,
        "controller": MAYBE_WHOLE,
        "brokers": list_schema(
            {
                "broker": WHOLE,
                "address": TEXT,
                "rack": MAYBE_TEXT,
                "is_controller": FLAG,
                "is_reachable": FLAG,
                "leaders": WHOLE,
                "replicas": WHOLE,
                "size_bytes": MAYBE_WHOLE,
                "total_bytes": MAYBE_WHOLE,
                "usable_bytes": MAYBE_WHOLE,
                "failed_dirs": TEXTS,
            }
        ),
        "topics": WHOLE,
        "internal_topics": WHOLE,
        "partitions": WHOLE,
        "under_replicated": WHOLE,
        "leaderless": WHOLE,
        "troubles": list_schema({"topic": TEXT, **PARTITION}),
        "features": list_schema({"feature": TEXT, "level": WHOLE, "level_max": MAYBE_WHOLE}),
    }
)
BROKER = object_schema(
    {
        "broker": WHOLE,
        "log_dirs": list_schema(
            {
                "path": TEXT,
                "replicas": WHOLE,
                "size_bytes": WHOLE,
                "total_bytes": MAYBE_WHOLE,
                "usable_bytes": MAYBE_WHOLE,
                "error": MAYBE_TEXT,
            }
        ),
        "configs": CONFIGS,
    }
)
ONE_TOPIC = object_schema(
    {
        **TOPIC,
        "topic_id": MAYBE_TEXT,
        "partition_list": list_schema(
            {
                **PARTITION,
                "first_offset": MAYBE_WHOLE,
                "end_offset": MAYBE_WHOLE,
                "size_bytes": MAYBE_WHOLE,
            }
        ),
        "configs": CONFIGS,
    }
)
RECORDS = object_schema(
    {
        "topic": TEXT,
        "partitions": WHOLE,
        "unread_partitions": WHOLES,
        "query": {"type": "object", "additionalProperties": TEXT},
        "format": TEXT,
        "from": one_of("newest", "oldest", "offset", "time"),
        "older": MAYBE_TEXT,
        "newer": MAYBE_TEXT,
        "read": WHOLE,
        "stopped_by": _or_null(one_of("records", "bytes", "time")),
        "records": list_schema(RECORD),
    }
)
ALIVE = object_schema(
    {
        "topic": MAYBE_TEXT,
        **PAGE,
        "order": one_of("worst", "name"),
        "troubled": FLAG,
        "back": WHOLE,
        "at": MAYBE_WHOLE,
        "first": MAYBE_WHOLE,
        "leaderless": WHOLE,
        "under_replicated": WHOLE,
        "open_transactions": WHOLE,
        "brokers": WHOLES,
        "partitions": list_schema(
            {
                "topic": TEXT,
                "partition": WHOLE,
                "leader": MAYBE_WHOLE,
                "leader_epoch": WHOLE,
                "replicas": WHOLES,
                "isr": WHOLES,
                "end": MAYBE_WHOLE,
                "stable": MAYBE_WHOLE,
                "log_ends": {"type": "array", "items": MAYBE_WHOLE},
                "per_second": MAYBE_NUMBER,
            }
        ),
        "changes": list_schema(
            {"at_ms": WHOLE, "topic": MAYBE_TEXT, "partition": MAYBE_WHOLE, "sentence": TEXT}
        ),
    }
)
GROUPS = object_schema(
    {
        **PAGE,
        "groups": list_schema(
            {
                "group": TEXT,
                "kind": MAYBE_TEXT,
                "protocol_type": TEXT,
                "state": MAYBE_TEXT,
                "partitions": MAYBE_WHOLE,
                "topics": _or_null(TEXTS),
                "lag": MAYBE_WHOLE,
            }
        ),
    }
)
GROUP = object_schema(
    {
        "group": TEXT,
        "kind": TEXT,
        "state": TEXT,
        "assignor": MAYBE_TEXT,
        "coordinator": WHOLE,
        "lag": MAYBE_WHOLE,
        "lag_over_time": POINTS,
        "members": list_schema(
            {
                "member_id": TEXT,
                "instance_id": MAYBE_TEXT,
                "client_id": TEXT,
                "client_host": TEXT,
                "partitions": _or_null(TEXTS),
            }
        ),
        "partitions": list_schema(
            {
                "topic": TEXT,
                "partition": WHOLE,
                "committed": MAYBE_WHOLE,
                "end_offset": MAYBE_WHOLE,
                "lag": MAYBE_WHOLE,
                "lag_over_time": POINTS,
                "metadata": MAYBE_TEXT,
                "client_id": MAYBE_TEXT,
            }
        ),
    }
)
TRANSACTIONS = object_schema(
    {
        **PAGE,
        "blocking": list_schema(
            {
                "topic": TEXT,
                "partition": WHOLE,
                "first_offset": WHOLE,
                "held_back": MAYBE_WHOLE,
                "standing": TEXT,
                "transactional_id": MAYBE_TEXT,
                "producer_id": WHOLE,
                "producer_epoch": WHOLE,
                "open_ms": MAYBE_WHOLE,
                "timeout_ms": MAYBE_WHOLE,
            }
        ),
        "unasked": TEXTS,
        "partitions_left_out": WHOLE,
        "transactions": list_schema(
            {"transactional_id": TEXT, "state": TEXT, "producer_id": WHOLE, "coordinator": WHOLE}
        ),
    }
)
RATE: Schema = {"records_per_second": NUMBER, "bytes_per_second": WHOLE}
THROUGHPUT = object_schema(
    {
        **PAGE,
        "at": MAYBE_WHOLE,
        **RATE,
        "brokers": list_schema({"broker": WHOLE, **RATE, "records_over_time": POINTS}),
        "topics": list_schema({"topic": TEXT, **RATE, "records_over_time": POINTS}),
    }
)
