"""The pages about mirrors, Spark queries and the audit log, as JSON documents. Pure."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from ottla.client.console.views.paging import matches

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ottla.client.console.views.asked import Document
    from ottla.client.records.consumer_record import ConsumerRecord

    SeenRecord = ConsumerRecord[bytes, bytes]

# Prefixes of the names of Spark's groups: of Ottla's source and of Kafka's connector.
SPARK_GROUPS = ("spark-kafka-source-", "spark-kafka-relation-")
MIRROR_CLIENT = "ottla-mirror"
NOTES_TOPIC = "ottla.mirror.offsets"
AUDIT_TOPIC = "__audit"
AUDIT_FIELDS = (
    "time",
    "broker",
    "sequence",
    "event",
    "principal",
    "peer",
    "api",
    "operation",
    "resource_type",
    "resource",
    "decision",
    "reason",
    "rule",
    "user",
    "left_out_before",
)


def kind_of(group_id: str, client_ids: Iterable[str]) -> str | None:
    """Return the kind of reader of a group: ``spark``, ``mirror`` or neither."""
    if group_id.startswith(SPARK_GROUPS):
        return "spark"
    return "mirror" if any(one.startswith(MIRROR_CLIENT) for one in client_ids) else None


def note_rows(records: Iterable[SeenRecord]) -> list[Document]:
    """Return the topics that mirrors have copied to this cluster, with the time of the newest
    note."""
    found: dict[tuple[str, str, str], Document] = {}
    for record in records:
        key, value = _object(record.key), _object(record.value)
        source, topic = str(key.get("source", "")), str(key.get("topic", ""))
        target = str(value.get("target_topic", ""))
        if not source or not topic or not target:
            continue
        row = found.setdefault(
            (source, topic, target),
            {"source": source, "topic": topic, "target_topic": target, "partitions": set()},
        )
        row["partitions"].add(key.get("partition"))
        row["last_ms"] = max(row.get("last_ms", 0), record.timestamp)
    return [{**row, "partitions": len(row["partitions"])} for _, row in sorted(found.items())]


def audit_rows(records: Iterable[SeenRecord], search: str) -> list[Document]:
    """Return the lines of the audit log that contain all words of a search."""
    rows = []
    for record in records:
        text = (record.value or b"").decode("utf-8", "replace")
        if not matches(search, text):
            continue
        entry = _object(record.value)
        rows.append(
            {
                "offset": record.offset,
                "partition": record.partition,
                **{name: _plain(entry.get(name)) for name in AUDIT_FIELDS},
            }
        )
    return rows


def _plain(value: object) -> object:
    return value if value is None or isinstance(value, int) else str(value)


def _object(data: bytes | None) -> Document:
    try:
        found = json.loads(data or b"{}")
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
