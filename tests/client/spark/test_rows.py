"""The rows of a task, and what making them costs its worker."""

from __future__ import annotations

import subprocess
import sys

from ottla.client.spark.rows import arrow_schema, to_rows
from ottla.protocol.ids import TopicPartition
from ottla.protocol.records.columns import Columns
from ottla.protocol.records.record import Record

WHERE = TopicPartition("orders", 3)
PLAIN = Columns.of([Record(0, 1_000, None, b"v", ()), Record(1, 1_001, b"k", None, ())])
WITH_HEADERS = Columns.of(
    [
        Record(7, 1_002, b"k", b"v", (("a", b"x"), ("b\udcff", None))),
        Record(9, 1_003, b"k", b"v", ()),
        Record(10, 1_004, None, b"", (("a", b""),)),
    ]
)


def test_a_record_without_headers_has_null_beside_records_that_have_some() -> None:
    """Bitmaps and ends are put together by hand: a wrong one gives a row another's headers."""
    parts = [(PLAIN, 0), (WITH_HEADERS, 1), (PLAIN, 0)]

    batch = to_rows(WHERE, parts, include_headers=True)

    batch.validate(full=True)
    assert batch.schema.equals(arrow_schema(include_headers=True))
    assert batch.column("headers").to_pylist() == [
        None,
        None,
        [{"key": "a", "value": b"x"}, {"key": "b\ufffd", "value": None}],
        None,
        [{"key": "a", "value": b""}],
        None,
        None,
    ]
    assert batch.column("topic").to_pylist() == ["orders"] * 7
    assert batch.column("timestampType").to_pylist() == [0, 0, 1, 1, 1, 0, 0]


def test_no_headers_at_all_are_null_in_every_row() -> None:
    """Most topics are like that, and a job that asks for headers reads them all the same."""
    batch = to_rows(WHERE, [(PLAIN, 0)], include_headers=True)

    batch.validate(full=True)
    assert batch.column("headers").to_pylist() == [None, None]


def test_rows_are_made_without_pandas() -> None:
    """Loading pandas in each worker took longer than a small micro-batch."""
    program = (
        "import sys; from tests.client.spark.test_rows import *;"
        "parts = [(PLAIN, 0), (WITH_HEADERS, 1)];"
        "to_rows(WHERE, parts, include_headers=False); to_rows(WHERE, parts, include_headers=True);"
        "sys.exit('pandas' in sys.modules)"
    )

    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_from_its_second_task_on_a_worker_passes_over_what_was_there_before() -> None:
    """Spark collects garbage after every task, among all modules of a worker, for longer than a
    small micro-batch takes. A process that is no Spark worker is left as it is."""
    program = """
import gc
from pyspark import TaskContext
from ottla.client.spark.worker import begin_task

for _ in range(3):
    begin_task()
assert gc.get_freeze_count() == 0
TaskContext._setTaskContext(TaskContext())
begin_task()
assert gc.get_freeze_count() == 0
begin_task()
frozen = gc.get_freeze_count()
assert frozen > 10_000
kept = [[] for _ in range(10)]
begin_task()
assert gc.get_freeze_count() <= frozen
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
