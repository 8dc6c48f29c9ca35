"""Converts records to and from Apache Arrow, without a copy where the layouts agree.

``SCHEMA`` is the schema of all returned data. pyarrow is imported at the first use: it is an
optional dependency (the extra ``arrow``), and slow to load.
"""

from __future__ import annotations

from array import array
from functools import cache, lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ottla.client.process.optional_imports import library
from ottla.protocol.records.columns import BytesColumn, Columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.record import Header, Headers

    SCHEMA: pa.Schema

_INT32_BYTES, _INT64_BYTES = 4, 8
# The capacity of a column with 32-bit offsets; limiting the whole batch to it is safe.
_BATCH_BYTES_MAX = 2**31 - 1
_TOPICS_MAX = 256


def __getattr__(name: str) -> object:
    """Create ``SCHEMA`` at its first use."""
    if name == "SCHEMA":
        return schema()
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def pyarrow() -> Any:
    """The pyarrow module. Raises ImportError, naming the extra that installs it."""
    return library("pyarrow", "arrow")


@cache
def schema() -> pa.Schema:
    """The schema: topic, partition, offset, timestamp, key, value, headers."""
    pa = pyarrow()
    header = pa.struct([pa.field("key", pa.string(), False), pa.field("value", pa.binary())])
    return pa.schema(
        [
            pa.field("topic", pa.dictionary(pa.int32(), pa.string()), False),
            pa.field("partition", pa.int32(), False),
            pa.field("offset", pa.int64(), False),
            pa.field("timestamp", pa.timestamp("ms", tz="UTC"), False),
            pa.field("key", pa.binary()),
            pa.field("value", pa.binary()),
            pa.field("headers", pa.list_(pa.field("item", header, False)), False),
        ]
    )


def to_arrow(where: TopicPartition, parts: Sequence[Columns]) -> pa.RecordBatch:
    """The records of one partition. A single part is not copied; several are concatenated."""
    pa = pyarrow()
    kinds = schema().types
    make, buffer = pa.Array.from_buffers, pa.py_buffer
    count = sum(part.count for part in parts)
    zeros = buffer(bytes(_INT32_BYTES * (count + 1)))
    of_topic = make(pa.int32(), count, [None, zeros], 0)
    partitions = buffer(array("i", [where.partition]) * count)
    headers = make(kinds[6], count, [None, zeros], 0, children=[_no_header()])
    if any(part.headers is not None for part in parts):
        headers = _joined([_headers(part) for part in parts])
    return pa.RecordBatch.from_arrays(
        [
            pa.DictionaryArray.from_arrays(of_topic, _topic(where.topic), safe=False),
            make(kinds[1], count, [None, partitions], 0),
            _joined([make(kinds[2], p.count, [None, buffer(p.offsets)], 0) for p in parts]),
            _joined([make(kinds[3], p.count, [None, buffer(p.timestamps)], 0) for p in parts]),
            _joined([_binary(part.keys, part.count) for part in parts]),
            _joined([_binary(part.values, part.count) for part in parts]),
            headers,
        ],
        schema=schema(),
    )


def _joined(arrays: list[pa.Array]) -> pa.Array:
    return arrays[0] if len(arrays) == 1 else pyarrow().concat_arrays(arrays)


# Arrays are made from buffers throughout: pyarrow.array would import pandas, if installed, to check
# whether a list is a pandas object.


@lru_cache(maxsize=_TOPICS_MAX)
def _topic(name: str) -> pa.Array:
    return _binary(BytesColumn.of([name.encode()]), 1, pyarrow().string())


def _binary(column: BytesColumn, count: int, kind: pa.DataType | None = None) -> pa.Array:
    pa = pyarrow()
    validity = None if column.validity is None else pa.py_buffer(column.validity)
    buffers = [validity, pa.py_buffer(column.ends), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(kind or pa.binary(), count, buffers, column.null_count)


def _headers(columns: Columns) -> pa.Array:
    pa = pyarrow()
    headers = [()] * columns.count if columns.headers is None else columns.headers
    ends = array("i", accumulate(map(len, headers), initial=0))
    made = _header_array([header for row in headers for header in row])
    kind, buffers = schema().field("headers").type, [None, pa.py_buffer(ends)]
    return pa.Array.from_buffers(kind, columns.count, buffers, 0, children=[made])


@cache
def _no_header() -> pa.Array:
    return _header_array(())


def _header_array(headers: Sequence[Header]) -> pa.Array:
    """All headers of all rows, one after the other."""
    pa = pyarrow()
    count = len(headers)
    names = BytesColumn.of([_text(name) for name, _ in headers])
    values = BytesColumn.of([value for _, value in headers])
    kind = schema().field("headers").type.value_type
    children = [_binary(names, count, pa.string()), _binary(values, count)]
    return pa.Array.from_buffers(kind, count, [None], 0, children=children)


def _text(name: str) -> bytes:
    # An Arrow string must be UTF-8.
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace").encode()


def batches_of(records: Any) -> list[pa.RecordBatch]:
    """Arrow data of any library as record batches that are small enough for ``Columns``.

    Raises TypeError for other objects, and without a column 'value' or 'key'."""
    pa = pyarrow()
    if isinstance(records, pa.RecordBatch):
        batches = [records]
    elif hasattr(records, "__arrow_c_stream__"):
        batches = pa.table(records).to_batches()
    elif hasattr(records, "__arrow_c_array__"):
        batches = [pa.record_batch(records)]
    else:
        raise TypeError(
            f"records are a sequence of bytes, Columns or Arrow data, not {type(records).__name__}"
        )
    found: list[Any] = []
    for batch in batches:
        if "value" not in batch.schema.names and "key" not in batch.schema.names:
            names = ", ".join(batch.schema.names)
            raise TypeError(f"records need a column 'value'; there are {names or 'none'}")
        found += _halved(batch)
    return found


def _halved(batch: pa.RecordBatch) -> list[pa.RecordBatch]:
    if batch.nbytes <= _BATCH_BYTES_MAX or batch.num_rows < 2:
        return [batch] if batch.num_rows else []
    middle = batch.num_rows // 2
    return _halved(batch.slice(0, middle)) + _halved(batch.slice(middle))


def columns_of(batch: pa.RecordBatch, wall_ms: int) -> Columns:
    """The columns key, value, timestamp and headers of an Arrow batch; others are ignored.

    A missing or null timestamp becomes ``wall_ms``. Raises TypeError for columns that are not bytes
    or text."""
    names, count = batch.schema.names, batch.num_rows
    return Columns(
        count,
        bytes(_INT64_BYTES * count),
        _timestamps_of(batch.column("timestamp"), wall_ms)
        if "timestamp" in names
        else array("q", [wall_ms]) * count,
        _bytes_of(batch.column("key"), "key") if "key" in names else BytesColumn.nulls(count),
        _bytes_of(batch.column("value"), "value") if "value" in names else BytesColumn.nulls(count),
        _headers_of(batch.column("headers")) if "headers" in names else None,
    )


def partitions_of(batch: pa.RecordBatch) -> list[int | None] | None:
    """The column partition, or None. Raises TypeError unless it holds whole numbers."""
    if "partition" not in batch.schema.names:
        return None
    column = batch.column("partition")
    if not pyarrow().types.is_integer(column.type):
        raise TypeError(f"partitions are whole numbers, not {column.type}")
    numbers: list[int | None] = column.to_pylist()
    return numbers


def keys_of(batch: pa.RecordBatch) -> list[bytes | None] | None:
    """The column key as bytes; None if no row has a key. Raises TypeError for other types."""
    if "key" not in batch.schema.names:
        return None
    column = batch.column("key")
    if column.null_count == len(column):
        return None
    column = _binary_array(column, "key")
    keys: list[bytes | None] = column.to_pylist()
    return keys


def movable(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The record columns, in types that support ``take``: pyarrow cannot take rows of views, which
    polars returns."""
    pa = pyarrow()
    columns: dict[str, Any] = {}
    for name in ("key", "value", "timestamp", "headers"):
        if name in batch.schema.names:
            column = batch.column(name)
            if "_view" in str(column.type):
                column = column.cast(schema().field(name).type)
            columns[name] = column
    return pa.record_batch(list(columns.values()), names=list(columns))


def _timestamps_of(column: pa.Array, wall_ms: int) -> memoryview:
    pa = pyarrow()
    if pa.types.is_timestamp(column.type):
        # Truncate anything finer than a millisecond; seconds may overflow, so that cast is checked.
        is_coarse = column.type.unit == "s"
        column = column.cast(pa.timestamp("ms", tz=column.type.tz), safe=is_coarse)
    elif not pa.types.is_integer(column.type):
        raise TypeError(f"timestamps are Arrow timestamps or ms since 1970, not {column.type}")
    column = column.cast(pa.int64()).fill_null(wall_ms)
    return _part(column.buffers()[1], column.offset, len(column), _INT64_BYTES)


def _bytes_of(column: pa.Array, name: str) -> BytesColumn:
    pa = pyarrow()
    if pa.types.is_null(column.type):
        return BytesColumn.nulls(len(column))
    column = _binary_array(column, name)
    if column.null_count and column.offset % 8:
        # The validity bitmap begins inside a byte: copy the column to realign it.
        column = pa.concat_arrays([column, column.slice(0, 0)])
    validity, ends, data = column.buffers()
    bits = None
    if column.null_count:
        first = column.offset // 8
        bits = _part(validity, first, (column.offset + len(column) + 7) // 8 - first, 1)
    return BytesColumn(
        _part(ends, column.offset, len(column) + 1, _INT32_BYTES),
        b"" if data is None else memoryview(data),
        bits,
        column.null_count,
    )


def _binary_array(column: pa.Array, name: str) -> pa.Array:
    pa = pyarrow()
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if column.type == pa.binary():
        return column
    if not _is_bytes(column.type):
        raise TypeError(f"{name}s are bytes or text, not {column.type}: encode them first")
    return column.cast(pa.binary())


def _is_bytes(kind: pa.DataType) -> bool:
    types = pyarrow().types
    tests = (
        types.is_string,
        types.is_large_binary,
        types.is_large_string,
        types.is_fixed_size_binary,
        types.is_binary_view,
        types.is_string_view,
    )
    return any(test(kind) for test in tests)


def _part(buffer: pa.Buffer, start: int, count: int, width: int) -> memoryview:
    return memoryview(buffer).cast("B")[start * width : (start + count) * width]


def _headers_of(column: pa.Array) -> list[Headers] | None:
    rows: Sequence[Any] = column.to_pylist()
    if not any(rows):
        return None
    return [_header_row(row) for row in rows]


def _header_row(row: Any) -> Headers:
    if not row:
        return ()
    return tuple(map(_header_of, row))


def _header_of(header: Any) -> Header:
    """A header from a struct, or from a pair of a map."""
    match header:
        case {"key": name, "value": value} | (name, value):
            if isinstance(name, bytes):
                name = name.decode("utf-8", "surrogateescape")
            if isinstance(name, str):
                return name, _as_bytes(value)
    raise TypeError(f"headers are structs of key and value, or pairs of a map, not {header!r}")


def _as_bytes(value: Any) -> bytes | None:
    if value is None or isinstance(value, bytes):
        return value
    if isinstance(value, str):
        return value.encode()
    raise TypeError(f"header values are bytes or text, not {type(value).__name__}")
