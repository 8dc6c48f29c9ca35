"""Writes a stream to topics, exactly once: ``DataFrame.writeStream.format("ottla")``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.process.environment import real_environment
from ottla.client.spark.pyspark_api import (
    DataSourceStreamArrowWriter,
    TaskContext,
    WriterCommitMessage,
)
from ottla.client.spark.sink_ledger import Entry, judge_batch, judge_foreign, name_of
from ottla.client.spark.sink_task import TaskId
from ottla.client.spark.sink_wire import (
    abort_all,
    commit_all,
    commit_with_entry,
    connected,
    entry_of,
    is_late,
)
from ottla.client.spark.writer import (
    SentOptions,
    Written,
    abort,
    columns_of,
    open_of,
    run,
    write_once,
    write_plainly,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    import pyarrow as pa

    from ottla.client.cluster.cluster import ClusterClient
    from ottla.client.prepared_transaction import PreparedTransaction
    from ottla.client.spark.pyspark_api import StructType
    from ottla.client.spark.sink_ledger import Part

# Local properties that Spark sets for every task of a streaming query.
QUERY_ID = "sql.streaming.queryId"
BATCH_ID = "streaming.sql.batchId"


class StreamWriter(SentOptions, DataSourceStreamArrowWriter):
    """The writer of one micro-batch. Made by the driver, then pickled to its tasks and to its
    commit.

    In complete mode every micro-batch is appended as a whole: a topic cannot be emptied."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        self._parse(options, columns_of(schema), exactly_once=True)
        self._made_ms = real_environment().clock.wall_ms()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if not self._options.is_exactly_once:
            return write_plainly(self._options, iterator)
        task = current_task()._replace(planned_ms=self._made_ms)
        return write_once(self._options, task, iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Commit in the driver, when every task has succeeded. Called again after a crash."""
        told = [message for message in messages if isinstance(message, Written)]
        parts = [message.part for message in told if message.part is not None]
        if parts:
            lefts = {left.transactional_id: left for left in open_of(told)}
            run(self._commit(batchId, told[0].query_id, parts, lefts))

    async def _commit(
        self, batch_id: int, query_id: str, parts: list[Part], lefts: dict[str, PreparedTransaction]
    ) -> None:
        options = self._options
        names = [name_of(options.prefix, query_id, number) for number in range(len(parts))]
        (zero,) = (part for part in parts if part.partition_id == 0)
        async with connected(options) as cluster:
            # A later micro-batch without an entry is refused in any case.
            is_late_one = batch_id == 0 and await is_late(
                cluster, options, batch_id, zero.looked_ms
            )
            may_begin = options.may_begin
            verdict = judge_batch(batch_id, parts, may_begin=may_begin, is_late=is_late_one)
            if verdict.foreign_count:
                entries = await self._entries(cluster, query_id, verdict.foreign_count)
                judge_foreign(batch_id, parts, entries)
                await abort_all(cluster, options, lefts.values())
                return
            if verdict.is_new:
                entry = Entry(batch_id, zero.row_count, zero.checksum, len(parts))
                await commit_with_entry(cluster, options, lefts[names[0]], entry)
            await commit_all(cluster, options, [lefts[names[number]] for number in verdict.rest])

    async def _entries(
        self, cluster: ClusterClient, query_id: str, task_count: int
    ) -> dict[int, Entry | None]:
        """The entries of all tasks; does not wait for open or committing transactions."""
        names = [name_of(self._options.prefix, query_id, number) for number in range(task_count)]
        found = [await entry_of(cluster, name, require_stable=False) for name in names]
        return dict(enumerate(found))

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:  # noqa: N803
        """Abort in the driver, when a task or ``commit`` has failed for good.

        Without any task's message the query's name is unknown; a restart, which uses the same
        names, ends the transactions."""
        told = [message for message in messages if isinstance(message, Written)]
        if told and self._options.is_exactly_once:
            run(abort(self._options, told[0].query_id, messages))


def current_task() -> TaskId:
    """The task that runs in this process."""
    context = TaskContext.get()
    assert context is not None
    query_id, batch_id = context.getLocalProperty(QUERY_ID), context.getLocalProperty(BATCH_ID)
    if query_id is None or batch_id is None:
        raise RuntimeError("this Spark does not tell a task its query and micro-batch")
    return TaskId(query_id, context.partitionId(), int(batch_id))
