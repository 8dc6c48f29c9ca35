"""Builds the rows that are read, with the columns and types of Spark's own connector."""

from __future__ import annotations

from array import array
from functools import cache
from typing import TYPE_CHECKING

from ottla.client.records.arrow import pyarrow, to_arrow
from ottla.protocol.records.columns import BytesColumn, Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ottla.client.spark.pyspark_api import StructType
    from ottla.protocol.ids import TopicPartition

    # The columns of one producer batch, and its timestamp type.
    Part = tuple[Columns, int]

_COLUMNS = (
    "key binary, value binary, topic string, partition int, offset bigint, "
    "timestamp timestamp, timestampType int"
)
_HEADERS = "headers array<struct<key:string,value:binary>>"


def spark_schema(include_headers: bool) -> str:
    """The schema in Spark's notation."""
    return f"{_COLUMNS}, {_HEADERS}" if include_headers else _COLUMNS


def check_schema(schema: StructType, include_headers: bool) -> None:
    """Raise ValueError if the user gave another schema."""
    wanted = spark_schema(include_headers)
    given = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in schema.fields)
    if given != wanted:
        raise ValueError(
            f"the data source ottla has the columns {wanted}, not {given}: leave schema() away, "
            "and cast or select afterwards"
        )
    for field in schema.fields:
        if not field.nullable:
            raise ValueError(f"the column {field.name} of the data source ottla may be null")


@cache
def arrow_schema(include_headers: bool) -> pa.Schema:
    """The schema in Arrow; it must match exactly, because Spark compares it."""
    pa = pyarrow()
    fields = [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("topic", pa.string()),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("timestampType", pa.int32()),
    ]
    if include_headers:
        header = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])
        fields.append(pa.field("headers", pa.list_(pa.field("element", header))))
    return pa.schema(fields)


def to_rows(
    where: TopicPartition, parts: Sequence[Part], *, include_headers: bool
) -> pa.RecordBatch:
    """The rows of one partition."""
    pa = pyarrow()
    schema = arrow_schema(include_headers)
    plain = to_arrow(
        where, [columns if include_headers else _without_headers(columns) for columns, _ in parts]
    )
    count = plain.num_rows
    kinds = array("i")
    for columns, kind in parts:
        kinds.extend(array("i", [kind]) * columns.count)
    found = [
        plain.column("key"),
        plain.column("value"),
        # Made from an existing array: pyarrow.scalar would import pandas, if installed, to check
        # whether a text is a pandas object, which took each worker longer than a small batch.
        pa.repeat(plain.column("topic").dictionary[0], count),
        plain.column("partition"),
        plain.column("offset"),
        plain.column("timestamp").cast(schema.field("timestamp").type),
        pa.Array.from_buffers(pa.int32(), count, [None, pa.py_buffer(kinds)], 0),
    ]
    if include_headers:
        found.append(_headers(plain.column("headers"), parts, schema.field("headers").type))
    return pa.RecordBatch.from_arrays(found, schema=schema)


def _without_headers(columns: Columns) -> Columns:
    if columns.headers is None:
        return columns
    return Columns(
        columns.count, columns.offsets, columns.timestamps, columns.keys, columns.values, None
    )


def _headers(plain: pa.Array, parts: Sequence[Part], kind: pa.ListType) -> pa.Array:
    """Headers as Spark's connector has them: null for a record without any."""
    pa = pyarrow()
    rows: list[bytes | None] = []
    for columns, _ in parts:
        of_part = [()] * columns.count if columns.headers is None else columns.headers
        rows += [b"" if headers else None for headers in of_part]
    nulls = BytesColumn.of(rows)
    pairs = plain.values
    columns_of_pairs = [pairs.field(0), pairs.field(1)]
    made = pa.Array.from_buffers(kind.value_type, len(pairs), [None], 0, children=columns_of_pairs)
    validity = None if nulls.validity is None else pa.py_buffer(nulls.validity)
    buffers = [validity, plain.buffers()[1]]
    return pa.Array.from_buffers(kind, len(plain), buffers, nulls.null_count, children=[made])
