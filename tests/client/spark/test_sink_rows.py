"""Which columns are written, what is wrong with others, and telling rows from other rows."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pytest

from ottla.client.spark.sink_rows import RowsChecksum, Shape, shape_of

HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
ALL = {
    "key": "string",
    "value": "binary",
    "headers": "array<struct<key:string,value:binary>>",
    "partition": "int",
    "topic": "string",
    "else": "double",
}
COUNT = 60


def rows() -> pa.RecordBatch:
    """Nulls of all kinds at places that differ."""
    numbers = range(COUNT)
    header = {"key": "a", "value": b"x"}
    return pa.record_batch(
        {
            "key": pa.array([None if n % 3 == 0 else f"k{n}" for n in numbers]),
            "value": pa.array([b"v%d" % n if n % 7 else None for n in numbers], pa.binary()),
            "headers": pa.array(
                [None if n % 5 == 0 else [header] * (n % 3) for n in numbers], HEADERS
            ),
            "partition": pa.array([n % 3 if n % 11 else None for n in numbers], pa.int32()),
            "topic": pa.array([f"t{n % 2}" for n in numbers]),
            "else": pa.array([0.5] * COUNT),
        }
    )


def checksum(*batches: pa.RecordBatch) -> str:
    found = RowsChecksum(shape_of(ALL.items(), None))
    for batch in batches:
        found.add(batch)
    return found.text


@pytest.mark.parametrize(
    ("types", "topic", "sentence"),
    [
        ({"key": "binary"}, "t", "needs the column 'value' .* the columns are key"),
        ({"value": "int"}, "t", "the column 'value' has to be binary or string, not int"),
        ({"value": "binary", "key": "int"}, "t", "the column 'key' has to be binary or string"),
        ({"value": "binary", "partition": "bigint"}, "t", "'partition' has to be int, not bigint"),
        ({"value": "binary", "headers": "map<string,binary>"}, "t", "'headers' has to be array<"),
        ({"value": "binary", "topic": "int"}, None, "the column 'topic' has to be string, not int"),
        ({"value": "binary"}, None, "the option topic is missing, and there is no column 'topic'"),
        ({"value": "binary"}, " ", "the option topic is empty"),
    ],
)
def test_what_cannot_be_written_is_told_by_name(
    types: dict[str, str], topic: str | None, sentence: str
) -> None:
    """Found before the first row, and without the traceback of a task."""
    with pytest.raises(ValueError, match=sentence):
        shape_of(types.items(), topic)


def test_the_option_topic_wins_over_the_column_and_other_columns_are_left() -> None:
    """Spark's own connector does the same."""
    shape = shape_of({**ALL, "topic": "int"}.items(), "mine")

    assert shape == Shape(("key", "value", "headers", "partition"), "mine")
    ((topic, sent),) = shape.parts(rows())
    assert (topic, sent.schema.names) == ("mine", ["key", "value", "headers", "partition"])


def test_rows_go_to_the_topics_that_they_name_in_their_order() -> None:
    """One batch may have rows of many topics."""
    parts = dict(shape_of(ALL.items(), None).parts(rows()))

    values = rows().column("value").to_pylist()
    assert {name: part.column("value").to_pylist() for name, part in parts.items()} == {
        "t0": values[0::2],
        "t1": values[1::2],
    }


def test_a_row_without_a_topic_is_refused() -> None:
    """The row would have no destination."""
    batch = pa.record_batch({"value": pa.array([b"v"]), "topic": pa.array([None], pa.string())})

    with pytest.raises(ValueError, match="null in the column 'topic'; the option topic"):
        list(shape_of({"value": "binary", "topic": "string"}.items(), None).parts(batch))


@pytest.mark.parametrize("header", [None, {"key": None, "value": b"x"}])
def test_a_header_without_a_name_is_refused(header: dict[str, bytes | None] | None) -> None:
    """The header would be stored under the name None."""
    shape = shape_of({"value": "binary", "headers": ALL["headers"]}.items(), "t")
    good = {"key": "a", "value": None}
    batch = pa.record_batch(
        {
            "value": pa.array([b"v"] * 4),
            "headers": pa.array([[], None, [good, header], [good]], HEADERS),
        }
    )

    assert len(list(shape.parts(batch.slice(3)))) == 1
    with pytest.raises(ValueError, match="whose key is null in the column 'headers'"):
        list(shape.parts(batch))


@pytest.mark.parametrize("cuts", [(1,), (7, 8), (13, 14, 40), (59,)])
def test_the_checksum_is_the_same_however_rows_are_cut(cuts: tuple[int, ...]) -> None:
    """The size of Arrow batches is a setting that may change before a replay."""
    ends = [0, *cuts, COUNT]
    pieces = [rows().slice(start, stop - start) for start, stop in pairwise(ends)]

    assert checksum(*pieces) == checksum(rows())


def changed(name: str, number: int, value: Any) -> pa.RecordBatch:
    batch = rows()
    values = batch.column(name).to_pylist()
    values[number] = value
    place = batch.schema.get_field_index(name)
    return batch.set_column(place, name, pa.array(values, batch.schema.field(name).type))


@pytest.mark.parametrize(
    "other",
    [
        rows().slice(1),
        rows().take(list(reversed(range(COUNT)))),
        changed("key", 0, ""),
        changed("value", 1, b"v2"),
        changed("value", 0, b""),
        changed("headers", 0, []),
        changed("headers", 1, [{"key": "a", "value": None}]),
        changed("headers", 1, [{"key": "b", "value": b"x"}]),
        changed("partition", 1, 2),
        changed("partition", 1, None),
        changed("topic", 1, "t0"),
    ],
)
def test_any_other_row_changes_the_checksum(other: pa.RecordBatch) -> None:
    """Null is not empty, and the order counts."""
    assert checksum(other) != checksum(rows())


def test_columns_that_are_not_written_do_not_count() -> None:
    """They may hold the time of the run."""
    assert checksum(changed("else", 3, 1.5)) == checksum(rows())


def test_rows_are_told_apart_and_summed_without_pandas() -> None:
    """Loading pandas in each worker took longer than a small micro-batch."""
    program = """
import sys
import pyarrow as pa
from ottla.client.spark.sink_rows import RowsChecksum, Shape

ends, letters = pa.py_buffer(bytes([0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0])), pa.py_buffer(b"ab")
topics = pa.Array.from_buffers(pa.string(), 2, [None, ends, letters])
columns = {"key": pa.nulls(2, pa.binary()), "value": topics, "topic": topics}
batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
shape = Shape(tuple(columns), None)
assert [topic for topic, _ in shape.parts(batch)] == ["a", "b"]
checksum = RowsChecksum(shape)
checksum.add(batch)
assert checksum.text
sys.exit('pandas' in sys.modules)
"""
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
