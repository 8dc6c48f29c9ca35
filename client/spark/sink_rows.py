"""Prepares the rows to write: columns key, value, headers, topic and partition; others are ignored.

Works on Arrow batches as Spark passes them to a task. Types are compared by Spark's names of them.
"""

from __future__ import annotations

import struct
from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from ottla.protocol.named_tuples import NamedTuple
from ottla.protocol.records.crc32c import crc32c

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

COLUMNS = ("key", "value", "headers", "partition", "topic")
_BYTES = ("binary", "string")
_HEADERS = "array<struct<key:string,value:binary>>"
_WANTED = {
    "key": ("binary or string", _BYTES),
    "value": ("binary or string", _BYTES),
    "topic": ("string", ("string",)),
    "partition": ("int", ("int",)),
    "headers": (_HEADERS, (_HEADERS,)),
}
_WIDTH_BYTES = 4


class Shape(NamedTuple):
    """The columns to write, and the topic option."""

    columns: tuple[str, ...]
    topic: str | None

    def parts(self, batch: pa.RecordBatch) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The rows of each topic, in order, with the columns to send.

        Raises ValueError for a row without a topic, and for a header without a name."""
        if "headers" in self.columns:
            _check_headers(batch.column("headers"))
        sent = batch.select([name for name in self.columns if name != "topic"])
        if self.topic is not None:
            yield self.topic, sent
            return
        topics = batch.column("topic")
        if topics.null_count:
            raise ValueError(
                "a row has null in the column 'topic'; the option topic gives all rows one"
            )
        found = pc.unique(topics)
        for name in found:
            chosen = sent if len(found) == 1 else sent.filter(pc.equal(topics, name))
            yield name.as_py(), chosen


def shape_of(fields: Iterable[tuple[str, str]], topic: str | None) -> Shape:
    """The columns to write, from the names and types of a frame's columns.

    Raises ValueError, naming the wrong or missing column or option."""
    types = dict(fields)
    if "value" not in types:
        raise ValueError(
            "a row needs the column 'value' to be written to a topic; the columns are "
            f"{', '.join(types) or 'none'}"
        )
    if topic is not None and not topic.strip():
        raise ValueError("the option topic is empty")
    if topic is None and "topic" not in types:
        raise ValueError("the option topic is missing, and there is no column 'topic'")
    for name, (wanted, allowed) in _WANTED.items():
        is_used = name in types and not (name == "topic" and topic is not None)
        if is_used and types[name].split(" collate ")[0] not in allowed:
            raise ValueError(f"the column {name!r} has to be {wanted}, not {types[name]}")
    used = [name for name in COLUMNS if name in types]
    if topic is not None and "topic" in used:
        used.remove("topic")
    return Shape(tuple(used), topic)


def _check_headers(column: pa.Array) -> None:
    """Raise ValueError for a null header key; both children are null where the header itself is."""
    keys, _ = column.flatten().flatten()
    if keys.null_count:
        raise ValueError("a row has a header whose key is null in the column 'headers'")


@cache
def _no_number() -> pa.Scalar:
    """-1, made from a buffer. From a plain number or text pyarrow would import pandas, if
    installed, to check for a pandas object, which would slow down each worker."""
    return pa.Array.from_buffers(pa.int32(), 1, [None, pa.py_buffer(struct.pack("i", -1))])[0]


class RowsChecksum:
    """A checksum of rows in order, however they are cut into batches.

    Two CRC-32C for each column: one over lengths (or numbers), one over contents."""

    def __init__(self, shape: Shape) -> None:
        self.row_count = 0
        self._columns = shape.columns
        self._lengths = dict.fromkeys([*shape.columns, "header key", "header value"], 0)
        self._contents = dict(self._lengths)

    def add(self, batch: pa.RecordBatch) -> None:
        """Add the next rows."""
        self.row_count += batch.num_rows
        for name in self._columns:
            column = batch.column(name)
            match name:
                case "partition":
                    self._numbers(name, column)
                case "headers":
                    self._headers(column)
                case _:
                    self._binary(name, column)

    @property
    def text(self) -> str:
        """The checksum as 16 hexadecimal digits."""
        sums = (self._lengths, self._contents)
        packed = [struct.pack(f"<{len(one)}I", *one.values()) for one in sums]
        return "".join(f"{crc32c(one):08x}" for one in packed)

    def _numbers(self, name: str, numbers: pa.Array) -> None:
        known = numbers.fill_null(_no_number()) if numbers.null_count else numbers
        known = known.cast(pa.int32())
        (_, buffer), start = known.buffers(), known.offset * _WIDTH_BYTES
        if buffer is not None:
            view = memoryview(buffer)[start : start + len(known) * _WIDTH_BYTES]
            self._lengths[name] = crc32c(view, self._lengths[name])

    def _binary(self, name: str, column: pa.Array) -> None:
        column = column.cast(pa.binary())
        self._numbers(name, pc.binary_length(column))
        if column.null_count:
            column = column.drop_null()
        _, ends, contents = column.buffers()
        if contents is None or not len(column):
            return
        places = memoryview(ends).cast("B").cast("i")
        start, stop = places[column.offset], places[column.offset + len(column)]
        view = memoryview(contents)[start:stop]
        self._contents[name] = crc32c(view, self._contents[name])

    def _headers(self, column: pa.Array) -> None:
        self._numbers("headers", pc.list_value_length(column))
        # The children without those of null lists, and null where the header itself is.
        keys, values = column.flatten().flatten()
        self._binary("header key", keys)
        self._binary("header value", values)
