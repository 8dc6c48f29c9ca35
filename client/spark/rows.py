"""The rows that are read: columns, names and types of Spark's own connector."""

from __future__ import annotations

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key: string, value: binary>>"


def spark_schema(include_headers: bool) -> str:
    """In Spark's words."""
    return f"{_COLUMNS}, {_HEADERS}" if include_headers else _COLUMNS
