"""Name and schema of each page's response. Pure."""

from __future__ import annotations

from ottla.client.console.views.pipeline_views import AUDIT_FIELDS
from ottla.client.console.views.result_schemas import (
    ALIVE,
    BROKER,
    CLUSTER,
    FLAG,
    GROUP,
    GROUPS,
    MAYBE_NUMBER,
    MAYBE_TEXT,
    MAYBE_WHOLE,
    ONE_TOPIC,
    PAGE,
    RECORD,
    RECORDS,
    TEXT,
    TEXTS,
    THROUGHPUT,
    TOPIC,
    TRANSACTIONS,
    WHOLE,
    WHOLES,
    Schema,
    list_schema,
    object_schema,
    one_of,
)

_AUDIT_NUMBERS = ("broker", "sequence", "left_out_before")
MOVES = object_schema(
    {
        "moves": list_schema(
            {
                "topic": TEXT,
                "partition": WHOLE,
                "replicas": WHOLES,
                "adding": WHOLES,
                "removing": WHOLES,
                "copied_bytes": WHOLE,
                "wanted_bytes": WHOLE,
                "percent": MAYBE_NUMBER,
            }
        )
    }
)


def _listed(fields: Schema) -> Schema:
    """Return the schema of rows, or of the reason why there are none."""
    return object_schema({"rows": list_schema(fields), "refused": MAYBE_TEXT})


SECURITY = object_schema(
    {
        "users": _listed(
            {"user": TEXT, "mechanisms": {"type": "object", "additionalProperties": WHOLE}}
        ),
        "rules": _listed(
            dict.fromkeys(
                (
                    "principal",
                    "permission",
                    "operation",
                    "resource_type",
                    "name",
                    "pattern_type",
                    "host",
                ),
                TEXT,
            )
        ),
        "quotas": _listed(
            {
                "entity": {"type": "object", "additionalProperties": MAYBE_TEXT},
                "quotas": {"type": "object", "additionalProperties": {"type": "number"}},
            }
        ),
    }
)
PIPELINES = object_schema(
    {
        "readers": list_schema(
            {
                "kind": one_of("spark", "mirror"),
                "group": TEXT,
                "state": TEXT,
                "members": WHOLE,
                "topics": TEXTS,
                "partitions": WHOLE,
                "lag": MAYBE_WHOLE,
            }
        ),
        "groups_left_out": WHOLE,
        "copied": list_schema(
            {
                "source": TEXT,
                "topic": TEXT,
                "target_topic": TEXT,
                "partitions": WHOLE,
                "last_ms": WHOLE,
            }
        ),
    }
)
AUDIT = object_schema(
    {
        "has_topic": FLAG,
        "search": TEXT,
        "limit": WHOLE,
        "read": WHOLE,
        "entries": list_schema(
            {
                "offset": WHOLE,
                "partition": WHOLE,
                **{
                    name: MAYBE_WHOLE if name in _AUDIT_NUMBERS else MAYBE_TEXT
                    for name in AUDIT_FIELDS
                },
            }
        ),
    }
)
RESULTS: dict[str, tuple[str, Schema]] = {
    "/cluster": ("Cluster", CLUSTER),
    "/brokers/{broker:int}": ("Broker", BROKER),
    "/topics": (
        "Topics",
        object_schema({**PAGE, "internal": FLAG, "topics": list_schema(TOPIC)}),
    ),
    "/topics/{topic}": ("Topic", ONE_TOPIC),
    "/topics/{topic}/messages": ("Records", RECORDS),
    "/topics/{topic}/record": (
        "Record",
        object_schema({"topic": TEXT, **RECORD, "format": TEXT}),
    ),
    "/topics/{topic}/alive": ("Alive", ALIVE),
    "/alive": ("Alive", ALIVE),
    "/groups": ("Groups", GROUPS),
    "/group": ("Group", GROUP),
    "/transactions": ("Transactions", TRANSACTIONS),
    "/throughput": ("Throughput", THROUGHPUT),
    "/pipelines": ("Pipelines", PIPELINES),
    "/audit": ("Audit", AUDIT),
    "/moves": ("Moves", MOVES),
    "/security": ("Security", SECURITY),
}
"""By the path in the table of pages."""
