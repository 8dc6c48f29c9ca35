"""Micro-batches that are written again after a crash, with all that Spark would do but no Spark."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyspark.sql.types import BinaryType, IntegerType, StructType

from ottla.client.settings.config import ProducerConfig
from ottla.client.spark.sink_ledger import Entry, TaskOutcome, WriteRefused, name_of
from ottla.client.spark.sink_task import OnceTask, TaskId
from ottla.client.spark.sink_wire import commit_with_entry, connected, entry_of
from ottla.client.spark.stream_writer import StreamWriter
from ottla.client.spark.writer import Written, run, write_once, write_plainly
from tests.client.spark.support.killing import in_topic, settle
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    NewTopicName = Callable[..., str]

SCHEMA = StructType().add("value", BinaryType()).add("partition", IntegerType())
Rows = dict[int, list[bytes]]


class Query:
    """One query: a task for each entry of ``rows``, which go to the partition of its number."""

    def __init__(self, broker: str, topic: str, name: str = "query", **options: str) -> None:
        self.given = {"kafka.bootstrap.servers": broker, "topic": topic, **options}
        self.writer = StreamWriter(self.given, SCHEMA, overwrite=False)
        self.options = self.writer._options
        self._broker, self.topic, self._name = broker, topic, name

    def task(self, number: int, batch_id: int) -> TaskId:
        return TaskId(self._name, number, batch_id)

    def write(self, batch_id: int, number: int, values: Sequence[bytes]) -> Written:
        """Write one task."""
        return write_once(self.options, self.task(number, batch_id), batches(number, values))

    def write_all(self, batch_id: int, rows: Rows) -> list[Written]:
        return [self.write(batch_id, number, values) for number, values in rows.items()]

    def batch(self, batch_id: int, rows: Rows) -> list[TaskOutcome]:
        """A whole micro-batch; how its tasks ended."""
        told = self.write_all(batch_id, rows)
        self.writer.commit(told, batch_id)
        return [one.part.outcome for one in told if one.part is not None]

    def die_after_task_0(self, batch_id: int, rows: Rows) -> None:
        """The driver is killed in the middle of its commit."""
        told = self.write_all(batch_id, rows)
        part, left = told[0].part, told[0].left
        assert part is not None
        assert left is not None

        async def commit() -> None:
            async with connected(self.options) as cluster:
                entry = Entry(batch_id, part.row_count, part.checksum, len(rows))
                await commit_with_entry(cluster, self.options, left, entry)

        run(commit())

    def entry(self, number: int) -> Entry | None:
        """The entry in the task's ledger."""

        async def ask() -> Entry | None:
            async with connected(self.options) as cluster:
                name = name_of(self.options.prefix, self._name, number)
                return await entry_of(cluster, name, require_stable=True)

        return run(ask())

    def committed(self, *, settled: Sequence[int] = range(3)) -> dict[int, list[bytes | None]]:
        """Committed records; no transaction may be open any more."""
        settle(self._broker, self.topic, settled)
        return in_topic(self._broker, self.topic)


def batches(number: int, values: Sequence[bytes]) -> Iterator[pa.RecordBatch]:
    """Some rows at a time, none at all where there are none."""
    for start in range(0, len(values), 2):
        part = values[start : start + 2]
        numbers = pa.array([number] * len(part), pa.int32())
        yield pa.record_batch({"value": pa.array(part, pa.binary()), "partition": numbers})


@pytest.fixture
def query(broker: str, new_topic: NewTopicName) -> Query:
    """A query with a unique name, since its topic is new."""
    topic = new_topic(partitions=3)
    return Query(broker, topic, topic)


FIRST: Rows = {0: [b"a", b"b", b"c"], 1: [b"d"], 2: []}
SECOND: Rows = {0: [b"e"], 1: [], 2: [b"f"]}


def test_nothing_is_visible_before_the_driver_commits(query: Query) -> None:
    """A failed micro-batch must not leave rows behind."""
    told = query.write_all(0, FIRST)
    before = query.committed(settled=())
    query.writer.commit(told, 0)

    assert before == {}
    assert query.committed() == {0: [b"a", b"b", b"c"], 1: [b"d"]}


def test_a_batch_that_is_replayed_is_compared_and_skipped(query: Query) -> None:
    """Spark died before it noted that the batch is done."""
    query.batch(0, FIRST)
    query.batch(1, SECOND)
    outcomes = query.batch(1, SECOND)

    assert outcomes == [TaskOutcome.SAME] * 3
    assert query.committed() == {0: [b"a", b"b", b"c", b"e"], 1: [b"d"], 2: [b"f"]}


def test_empty_tasks_commit_as_well(query: Query) -> None:
    """A replay has to find the same of every task."""
    query.batch(0, FIRST)

    last = query.entry(2)
    assert last is not None
    assert (last.batch_id, last.row_count) == (0, 0)
    zero = query.entry(0)
    assert zero is not None
    assert (zero.row_count, zero.task_count) == (3, 3)


def test_a_replay_writes_what_a_killed_driver_has_not_committed(query: Query) -> None:
    """Atomic for each task, not for all: the rest is made up for."""
    query.die_after_task_0(0, FIRST)
    partly = query.committed(settled=[0])
    outcomes = query.batch(0, FIRST)

    assert partly == {0: [b"a", b"b", b"c"]}
    assert outcomes == [TaskOutcome.SAME, TaskOutcome.OPEN, TaskOutcome.OPEN]
    assert query.committed() == {0: [b"a", b"b", b"c"], 1: [b"d"]}


def test_a_second_attempt_fences_the_first(query: Query) -> None:
    """A task that Spark believed dead, or a driver that a new one has replaced (hazard T-08)."""
    lost = query.write_all(0, FIRST)
    told = query.write_all(0, FIRST)

    with pytest.raises(WriteRefused, match=r"cannot be committed: .* has taken over"):
        query.writer.commit(lost, 0)
    query.writer.abort(lost, 0)
    query.writer.commit(told, 0)
    assert query.committed() == {0: [b"a", b"b", b"c"], 1: [b"d"]}


def test_a_fenced_attempt_fails_by_itself(query: Query) -> None:
    """The attempt may be in the middle of its rows."""
    slow = OnceTask(query.options, query.task(0, 0))
    run(slow.open())
    run(slow.take(next(batches(0, [b"a", b"b"]))))
    query.batch(0, {0: [b"a", b"b"]})

    with pytest.raises(WriteRefused, match="another attempt at this task has taken over"):
        run(slow.finish())
    run(slow.close())
    assert query.committed() == {0: [b"a", b"b"]}


def test_other_rows_in_a_replay_are_refused_and_nothing_is_added(query: Query) -> None:
    """Committed rows cannot be taken back."""
    query.die_after_task_0(0, FIRST)

    told = query.write_all(0, {0: [b"b", b"a", b"c"], 1: [b"d"], 2: []})
    with pytest.raises(WriteRefused, match="nondeterministic"):
        query.writer.commit(told, 0)
    query.writer.abort(told, 0)
    assert query.committed() == {0: [b"a", b"b", b"c"]}


def test_another_number_of_tasks_is_refused_where_part_of_the_batch_is_missing(
    query: Query,
) -> None:
    """Rows of the tasks that were committed are now among those of others."""
    query.die_after_task_0(0, FIRST)

    told = query.write_all(0, {0: [b"a", b"b"], 1: [b"c", b"d"]})
    with pytest.raises(WriteRefused, match="by 3 tasks and is now written by 2"):
        query.writer.commit(told, 0)
    query.writer.abort(told, 0)
    assert query.committed() == {0: [b"a", b"b", b"c"]}


def test_another_number_of_tasks_finds_a_batch_that_is_written(query: Query) -> None:
    """With spark.sql.shuffle.partitions changed before the restart."""
    query.batch(0, FIRST)
    query.batch(0, {0: [b"a", b"b"], 1: [b"c", b"d"]})
    query.batch(1, {0: [b"e"], 1: [b"f"]})

    assert query.committed() == {0: [b"a", b"b", b"c", b"e"], 1: [b"d", b"f"]}


def test_another_number_of_tasks_takes_over_what_was_not_committed(query: Query) -> None:
    """The first attempt died before its commit: its tasks are fenced, or end by themselves."""
    query.write_all(0, FIRST)
    query.batch(0, {0: [b"a", b"b"], 1: [b"c", b"d"], 2: [], 3: []})

    assert query.committed() == {0: [b"a", b"b"], 1: [b"c", b"d"]}


def test_an_older_batch_is_refused(query: Query) -> None:
    """A checkpoint that was set back."""
    query.batch(0, FIRST)
    query.batch(1, SECOND)

    with pytest.raises(WriteRefused, match="micro-batch 0 is older than 1"):
        query.write(0, 0, FIRST[0])


def test_a_query_without_a_ledger_needs_leave_to_begin_in_the_middle(
    broker: str, query: Query
) -> None:
    """Committed offsets expire; what was written before them is unknown then."""
    told = query.write_all(7, FIRST)
    with pytest.raises(WriteRefused, match="missingLedger=begin"):
        query.writer.commit(told, 7)
    again = Query(broker, query.topic, query.topic, missingLedger="begin")
    again.batch(7, FIRST)

    assert query.committed() == {0: [b"a", b"b", b"c"], 1: [b"d"]}


def test_queries_with_one_prefix_do_not_disturb_each_other(broker: str, query: Query) -> None:
    """The name of the query is part of every transactional id."""
    other = Query(broker, query.topic, f"{query.topic}-other")
    first, second = query.write_all(0, {0: [b"a"]}), other.write_all(0, {0: [b"b"]})
    query.writer.commit(first, 0)
    other.writer.commit(second, 0)

    assert sorted(query.committed()[0], key=str) == [b"a", b"b"]


def test_a_transaction_that_takes_too_long_is_explained(broker: str, query: Query) -> None:
    """The coordinator has aborted it; the message names the option that would have helped."""
    short = Query(broker, query.topic, query.topic, **{"kafka.transaction.timeout.ms": "900001"})
    with pytest.raises(ValueError, match=r"kafka\.transaction\.timeout\.ms=900001: it is at most"):
        short.write(0, 0, [b"a"])


def test_a_missing_topic_is_named_with_its_option(broker: str) -> None:
    """A mistyped name must not create a topic where automatic creation is disabled."""
    given = {"kafka.allow.auto.create.topics": "false"}
    with pytest.raises(ValueError, match="the option topic names what is not there: topic 'nix'"):
        Query(broker, "nix", "nix", **given).write(0, 0, [b"a"])
    with pytest.raises(ValueError, match=r"the option kafka\.allow\.auto\.create\.topics=true"):
        Query(broker, "nix", "nix", **given).write(0, 0, [b"a"])
    with pytest.raises(ValueError, match="the option topic names what is not there: topic 'a/b'"):
        Query(broker, "a/b", "nix").write(0, 0, [b"a"])


def test_a_missing_topic_is_made_by_brokers_that_do_that(broker: str) -> None:
    """Jobs that run with Spark's own connector run here."""
    missing = Query(broker, "made-by-brokers", "made-by-brokers")
    assert missing.batch(0, {0: [b"a", b"b"]}) == [TaskOutcome.OPEN]
    plain = StreamWriter(
        {**missing.given, "exactlyOnce": "false", "topic": "made-plainly"}, SCHEMA, overwrite=False
    )
    write_plainly(plain._options, batches(0, [b"c"]))

    assert missing.committed(settled=[0]) == {0: [b"a", b"b"]}
    assert in_topic(broker, "made-plainly") == {0: [b"c"]}


def test_brokers_that_make_no_topics_are_told_with_their_setting() -> None:
    """At once, rather than after the minute in which they might make it."""
    with memory_broker("auto.create.topics.enable=false") as address:
        begun = time.monotonic()
        with pytest.raises(ValueError, match=r"auto\.create\.topics\.enable=false\): create it"):
            Query(address, "nix", "nix").write(0, 0, [b"a"])
    assert time.monotonic() - begun < ProducerConfig().call_timeout_ms / 1_000


def test_a_row_that_is_too_large_is_told_with_the_option(broker: str, query: Query) -> None:
    """With a larger limit the row is written."""
    row = bytes(5_000)
    place = {"kafka.max.request.size": "4000"}
    short = Query(broker, query.topic, query.topic, **place)
    with pytest.raises(
        ValueError, match=r"5\d+ bytes exceeds the option kafka\.max\.request\.size"
    ):
        short.write(0, 0, [row])
    query.batch(0, {0: [row]})

    assert query.committed() == {0: [row]}


def test_a_missing_partition_is_named_with_its_column(query: Query) -> None:
    """The topic is right."""
    with pytest.raises(ValueError, match=r"the column partition names .* partition 3: it has the"):
        query.write(0, 3, [b"a"])
