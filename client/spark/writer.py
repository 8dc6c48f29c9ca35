"""Writes a frame to topics: ``DataFrame.write.format("ottla").mode("append")``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

from ottla.client.process.environment import real_environment
from ottla.client.process.loop_thread import shared_loop
from ottla.client.spark.pyspark_api import (
    DataSourceArrowWriter,
    TaskContext,
    WriterCommitMessage,
)
from ottla.client.spark.sink_ledger import name_of
from ottla.client.spark.sink_options import sink_options
from ottla.client.spark.sink_task import OnceTask, PlainTask, TaskId
from ottla.client.spark.sink_wire import abort_all, commit_all, connected, fence_all
from ottla.client.spark.worker import begin_task
from ottla.protocol.data_classes import dataclass

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Mapping, Sequence

    import pyarrow as pa

    from ottla.client.prepared_transaction import PreparedTransaction
    from ottla.client.spark.pyspark_api import StructType
    from ottla.client.spark.sink_ledger import Part
    from ottla.client.spark.sink_options import SinkOptions

Result = TypeVar("Result")

RUN_ID_BYTES = 8


@dataclass
class Written(WriterCommitMessage):
    """A task's message to the driver. ``part`` and ``left`` are set only for exactly once."""

    query_id: str
    row_count: int
    part: Part | None = None
    left: PreparedTransaction | None = None


def run(work: Coroutine[object, object, Result]) -> Result:
    """Run ``work`` on the loop of this process, and wait."""
    return shared_loop().run(work)


def write_plainly(options: SinkOptions, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write one task's rows, at least once."""
    begin_task()
    task = PlainTask(options)
    try:
        run(task.open())
        for batch in batches:
            run(task.take(batch))
        run(task.finish())
    finally:
        run(task.close())
    return Written("", task.row_count)


def write_once(options: SinkOptions, task_id: TaskId, batches: Iterator[pa.RecordBatch]) -> Written:
    """Write one task's rows in a transaction, which is left open."""
    begin_task()
    task = OnceTask(options, task_id)
    try:
        run(task.open())
        for batch in batches:
            run(task.take(batch))
        part, left = run(task.finish())
    finally:
        run(task.close())
    return Written(task_id.query_id, part.row_count, part, left)


def open_of(messages: Iterable[WriterCommitMessage | None]) -> list[PreparedTransaction]:
    """The transactions that tasks left open; failed tasks have no message."""
    told = [message for message in messages if isinstance(message, Written)]
    return [message.left for message in told if message.left is not None]


async def abort(
    options: SinkOptions, query_id: str, messages: Sequence[WriterCommitMessage | None]
) -> None:
    """Abort what tasks left open, and what tasks without a message have begun."""
    lefts = open_of(messages)
    silent = [number for number, message in enumerate(messages) if message is None]
    if lefts:
        async with connected(options) as cluster:
            await abort_all(cluster, options, lefts)
    await fence_all(options, [name_of(options.prefix, query_id, number) for number in silent])


def columns_of(schema: StructType) -> list[tuple[str, str]]:
    """Names and types of the columns, in Spark's notation."""
    return [(field.name, field.dataType.simpleString()) for field in schema]


class SentOptions:
    """The options of a writer, sent to tasks as they were given: what is made of them has secrets,
    which are not pickled."""

    _options: SinkOptions

    def _parse(
        self, options: Mapping[str, str], columns: list[tuple[str, str]], *, exactly_once: bool
    ) -> None:
        """``exactly_once`` is the default. Raises ValueError."""
        self._given = dict(options), columns, exactly_once
        self._options = sink_options(options, columns, exactly_once=exactly_once)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_options"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        options, columns, exactly_once = self._given
        self._parse(options, columns, exactly_once=exactly_once)


class BatchWriter(SentOptions, DataSourceArrowWriter):
    """The writer of a batch job. Made by the driver, then pickled to the tasks and to the driver's
    own commit.

    At least once: a task that is retried writes its rows again. With ``exactlyOnce`` each task has
    a transaction, and all are committed when every task has succeeded."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise ValueError(
                "mode('overwrite') is not supported: records of a topic cannot be replaced; "
                "use mode('append')"
            )
        self._parse(options, columns_of(schema), exactly_once=False)
        # Only a second attempt at a task uses this name, and fences the first.
        self._run_id = real_environment().random.token(RUN_ID_BYTES).hex()

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        """Write the rows of a task."""
        if not self._options.is_exactly_once:
            return write_plainly(self._options, iterator)
        context = TaskContext.get()
        assert context is not None
        return write_once(self._options, TaskId(self._run_id, context.partitionId(), 0), iterator)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit in the driver, when every task has succeeded."""
        lefts = open_of(messages)
        if lefts:
            run(self._commit(lefts))

    async def _commit(self, lefts: Sequence[PreparedTransaction]) -> None:
        async with connected(self._options) as cluster:
            await commit_all(cluster, self._options, lefts)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort in the driver, when a task has failed for good."""
        if self._options.is_exactly_once:
            run(abort(self._options, self._run_id, messages))
