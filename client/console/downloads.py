"""Downloads of records, as lines of JSON or as an Apache Parquet file."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ottla.client.console.browsing import limits_of, records_of, starts_at_time
from ottla.client.console.views.failures import NOT_IMPLEMENTED, Refused
from ottla.client.console.views.filters import read_filter
from ottla.client.console.views.record_views import download_row
from ottla.client.console.views.windows import forward, read_places
from ottla.client.process.optional_imports import library
from ottla.client.records.arrow import schema

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from ottla.client.console.connections import ConsoleConnection
    from ottla.client.console.record_runs import SeenRecord
    from ottla.client.console.streams import Tails
    from ottla.client.console.views.asked import Question

DOWNLOAD_RECORDS_MAX = 100_000
DOWNLOAD_BYTES_MAX = 1024 * 1024 * 1024
# A Parquet row group is built in memory.
GROUP_RECORDS_MAX = 10_000
GROUP_BYTES_MAX = 16 * 1024 * 1024
RECORD_BYTES = 100


async def download_runs(
    connection: ConsoleConnection, question: Question, tails: Tails
) -> AsyncGenerator[list[SeenRecord], None]:
    """Yield the records of a topic that pass the filter: from the beginning, an offset or a time
    on.

    The first list is empty: it is yielded when all parameters are valid."""
    topic = question.path["topic"]
    wanted = read_filter(question)
    limit = question.number("limit", DOWNLOAD_RECORDS_MAX, 1, DOWNLOAD_RECORDS_MAX)
    async with tails.place():
        admin = await connection.admin()
        limits, _unread, _count = await limits_of(admin, topic, question.text("partition"))
        starts = read_places("at", question.text("at"))
        if not starts and question.text("from") == "offset":
            starts = dict.fromkeys(limits, question.number("offset", 0))
        elif not starts and question.text("from") == "time":
            wall_ms = connection.environment.clock.wall_ms()
            starts = await starts_at_time(admin, topic, limits, question.needed("time"), wall_ms)
        windows = forward(limits, starts)
        yield []
        count = size_bytes = 0
        batches = records_of(connection, topic, windows, committed=question.flag("committed"))
        async with aclosing(batches) as found:
            async for _partition, records in found:
                kept = list(filter(wanted.passes, records))[: limit - count]
                count += len(kept)
                size_bytes += sum(map(size_of, kept))
                if kept:
                    yield kept
                if count >= limit or size_bytes >= DOWNLOAD_BYTES_MAX:
                    return


def size_of(record: SeenRecord) -> int:
    """Return the approximate number of bytes that a record takes."""
    return RECORD_BYTES + len(record.key or b"") + len(record.value or b"")


async def download_lines(
    connection: ConsoleConnection, question: Question, tails: Tails
) -> AsyncGenerator[bytes, None]:
    """Yield the records as lines of JSON, after an empty first piece."""
    async with aclosing(download_runs(connection, question, tails)) as runs:
        async for records in runs:
            lines = [json.dumps(download_row(one), ensure_ascii=False) for one in records]
            yield "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


class _Pieces:
    """The file that pyarrow writes to; finished parts are removed from it."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._position = 0
        self.closed = False

    def write(self, data: Any) -> int:
        content = bytes(data)
        self._parts.append(content)
        self._position += len(content)
        return len(content)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        """Does nothing: the bytes are in memory already."""

    def close(self) -> None:
        self.closed = True

    def readable(self) -> bool:
        return False

    def writable(self) -> bool:
        return True

    def take(self) -> bytes:
        """Return the bytes written since the last call."""
        taken, self._parts = b"".join(self._parts), []
        return taken


async def download_parquet(
    connection: ConsoleConnection, question: Question, tails: Tails
) -> AsyncGenerator[bytes, None]:
    """Yield the records as a Parquet file, after an empty first piece. Each row group is built in
    memory, outside of the event loop.

    Raises Refused without pyarrow."""
    try:
        pyarrow, parquet = library("pyarrow", "arrow"), library("pyarrow.parquet", "arrow")
    except ImportError as error:
        raise Refused(NOT_IMPLEMENTED, str(error)) from None
    pieces = _Pieces()
    writer: Any = None
    waiting: list[SeenRecord] = []
    waiting_bytes = 0

    def write() -> bytes:
        rows = [_row(record) for record in waiting]
        writer.write_batch(pyarrow.RecordBatch.from_pylist(rows, schema=schema()))
        return pieces.take()

    async with aclosing(download_runs(connection, question, tails)) as runs:
        async for records in runs:
            if writer is None:
                writer = parquet.ParquetWriter(pyarrow.PythonFile(pieces, mode="w"), schema())
                yield pieces.take()
            waiting += records
            waiting_bytes += sum(map(size_of, records))
            if len(waiting) >= GROUP_RECORDS_MAX or waiting_bytes >= GROUP_BYTES_MAX:
                yield await asyncio.to_thread(write)
                waiting, waiting_bytes = [], 0
    if waiting:
        yield await asyncio.to_thread(write)
    writer.close()
    yield pieces.take()


def _row(record: SeenRecord) -> dict[str, Any]:
    headers = [{"key": name, "value": value} for name, value in record.headers]
    return {**record._asdict(), "headers": headers}
