"""Writes the rows of one task, a batch at a time, within the producer's memory limit.

Runs on the loop that all blocking clients of a process share.
"""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from ottla.client.prepared_transaction import prepare_transaction
from ottla.client.process.errors import TransactionError
from ottla.client.producer import Producer
from ottla.client.sending.transaction_verdict import FENCING
from ottla.client.spark.reaching import reached
from ottla.client.spark.sink_ledger import (
    Entry,
    Part,
    TaskOutcome,
    WriteRefused,
    is_written,
    name_of,
)
from ottla.client.spark.sink_rows import RowsChecksum
from ottla.client.spark.sink_wire import as_offset, entry_of
from ottla.protocol.errors import ErrorCode
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import RequestRefused

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from ottla.client.prepared_transaction import PreparedTransaction
    from ottla.client.records.delivery import BatchDelivery
    from ottla.client.spark.sink_options import SinkOptions


# Error codes for topic names that cannot be written to.
NOT_THERE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.INVALID_TOPIC_EXCEPTION)
# Names in producers' errors, and the options that they correspond to.
IN_OPTIONS = {
    "request_bytes_max": "the option kafka.max.request.size",
    "allow_auto_create=True": "the option kafka.allow.auto.create.topics=true",
}


class TaskId(NamedTuple):
    """One task of one micro-batch of one query; a batch job is a query of one batch.
    ``planned_ms``: when the driver planned this attempt, by its clock, in ms since 1970."""

    query_id: str
    partition_id: int
    batch_id: int
    planned_ms: float = 0


class Writing:
    """A producer and its pending deliveries."""

    def __init__(self, options: SinkOptions, transactional_id: str | None = None) -> None:
        config = replace(options.config, transactional_id=transactional_id)
        self.producer: Producer[bytes, bytes] = Producer(options.servers, config)
        self._shape = options.shape
        self._deliveries: deque[BatchDelivery] = deque()

    async def send(self, batch: pa.RecordBatch) -> None:
        """Send rows; waits while the producer's memory is full. Raises errors of earlier rows."""
        for topic, rows in self._shape.parts(batch):
            try:
                self._deliveries.append(await self.producer.send_batch(topic, rows))
            except RequestRefused as error:
                text = str(error)
                for name, option in IN_OPTIONS.items():
                    text = text.replace(name, option)
                if error.code is ErrorCode.MESSAGE_TOO_LARGE:
                    raise ValueError(text) from error
                if error.code not in NOT_THERE:
                    raise
                named = "option topic" if self._shape.topic is not None else "column topic"
                if error.partition is not None:
                    named = "column partition"
                raise ValueError(f"the {named} names what is not there: {text}") from error
        while self._deliveries and self._deliveries[0].done:
            await self._deliveries.popleft()

    async def delivered(self) -> None:
        """Wait until everything is acknowledged. Raises ClientError otherwise."""
        await self.producer.flush()
        while self._deliveries:
            await self._deliveries.popleft()


class PlainTask:
    """Writes at least once: a second attempt at the task writes its rows again."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options
        self._writing = Writing(options)
        self.row_count = 0

    async def open(self) -> None:
        """Connect to the cluster."""
        await reached(self._writing.producer.start, self._options.reach)

    async def take(self, batch: pa.RecordBatch) -> None:
        """The next rows."""
        self.row_count += batch.num_rows
        await self._writing.send(batch)

    async def finish(self) -> None:
        """Wait until all rows are stored."""
        await self._writing.delivered()

    async def close(self) -> None:
        """Close the producer; undelivered records are dropped."""
        await self._writing.producer.close(deliver=False)


class OnceTask:
    """Writes exactly once: its records stay invisible until the driver commits them.

    The rows of a task that was committed before are only compared."""

    def __init__(self, options: SinkOptions, task: TaskId) -> None:
        self._task = task
        self._options = options
        self._name = name_of(options.prefix, task.query_id, task.partition_id)
        self._writing = Writing(options, self._name)
        self._checksum = RowsChecksum(options.shape)
        self._before: Entry | None = None
        self._looked_ms = 0.0
        self._is_written = False

    async def open(self) -> None:
        """Fence earlier attempts, so that their commits are final, then read the entry."""
        producer = self._writing.producer
        await reached(producer.start, self._options.reach)
        try:
            await producer.init_transactions()
        except TransactionError as error:
            if error.code is not ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                raise
            raise ValueError(
                "the brokers do not allow the option kafka.transaction.timeout.ms="
                f"{self._options.config.transaction_timeout_ms}: it is at most their "
                "transaction.max.timeout.ms"
            ) from error
        cluster = producer._cluster
        assert cluster is not None
        self._before = await entry_of(cluster, self._name, require_stable=True)
        # Read after the lookup, so that it is not too early; ``planned_ms`` guards against a slow
        # clock here.
        self._looked_ms = max(self._task.planned_ms, cluster.environment.clock.wall_ms())
        self._is_written = is_written(self._before, self._task.batch_id)
        if not self._is_written:
            await producer.begin_transaction()

    async def take(self, batch: pa.RecordBatch) -> None:
        """The next rows."""
        self._checksum.add(batch)
        if not self._is_written:
            with self._explained():
                await self._writing.send(batch)

    async def finish(self) -> tuple[Part, PreparedTransaction | None]:
        """Wait until rows and entry are stored, or compare the rows with committed ones."""
        task, checksum = self._task, self._checksum
        entry = Entry(task.batch_id, checksum.row_count, checksum.text)
        outcome, left = TaskOutcome.OPEN, None
        if self._is_written:
            assert self._before is not None
            same = self._before._replace(task_count=0) == entry
            outcome = TaskOutcome.SAME if same else TaskOutcome.OTHER
        else:
            producer = self._writing.producer
            with self._explained():
                await self._writing.delivered()
                await producer.send_offsets_to_transaction(as_offset(entry), self._name)
                left = await prepare_transaction(producer)
        part = Part(
            task.partition_id,
            outcome,
            entry.row_count,
            entry.checksum,
            self._before,
            self._looked_ms,
        )
        return part, left

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Explain errors of a fenced producer."""
        try:
            yield
        except (RequestRefused, TransactionError) as error:
            if error.code not in FENCING:
                raise
            raise WriteRefused(
                f"{error}; another attempt at this task has taken over, or it took longer than "
                f"kafka.transaction.timeout.ms={self._options.config.transaction_timeout_ms}"
            ) from error

    async def close(self) -> None:
        """Close the producer; an unfinished transaction is aborted."""
        await self._writing.producer.close(deliver=False)
