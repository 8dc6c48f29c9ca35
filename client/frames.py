"""Reads a bounded part of a topic into an Arrow, polars or pandas table.

The end is fixed at the beginning of the read, so the read ends however fast the topic grows.
Records of aborted transactions are left out unless ``isolation`` is READ_UNCOMMITTED.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Required, TypedDict, TypeVar, Unpack

from ottla.client.consumer import Consumer
from ottla.client.process.environment import real_environment
from ottla.client.process.loop_thread import shared_loop
from ottla.client.process.optional_imports import library
from ottla.client.ranges import OffsetRange, range_config, read_range, read_ranges, resolve
from ottla.client.records.arguments import check_topic, texts
from ottla.client.records.arrow import pyarrow, schema, to_arrow
from ottla.client.settings.config import Isolation
from ottla.client.settings.keywords import ISOLATIONS, IsolationName
from ottla.client.settings.spelling import one_of, suggestion

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable, Iterator, Sequence

    import pandas as pd
    import polars as pl
    import pyarrow as pa

    from ottla.client.fetching.offset_specs import Moment
    from ottla.protocol.ids import TopicPartition
    from ottla.protocol.records.columns import Columns

Result = TypeVar("Result")

# Parts are joined up to this many records or bytes; beyond, joining costs more than it saves.
_JOINED_RECORDS = 65_536
_JOINED_BYTES = 64 * 1024 * 1024


class ReadOptions(TypedDict, total=False):
    """What to read; ``offset_specs`` explains ``start`` and ``end`` (exclusive)."""

    bootstrap_servers: Required[str]
    start: Moment
    end: Moment
    partitions: Iterable[int] | None
    isolation: Isolation | IsolationName
    columns: Sequence[str] | None


async def aread_arrow(topic: str, **options: Unpack[ReadOptions]) -> pa.Table:
    """Read a part of a topic into an Arrow table, partition by partition.

    Args:
        topic: The topic's name.
        options: ``bootstrap_servers``: addresses of some brokers, required. ``start``: an offset, a
            ``datetime``, or a text like ``"1h"`` for one hour ago; ``"earliest"`` by default.
            ``end``: the same, exclusive; ``"latest"`` by default. ``partitions``: partition
            numbers; all by default. ``isolation``: ``"read_committed"`` (default) or
            ``"read_uncommitted"``. ``columns``: names of the columns to keep; all by default.

    Returns:
        A table with the schema ``arrow.SCHEMA``.

    Raises:
        RequestRefused: The topic or a partition does not exist.
        ValueError: An option has an invalid value.
        TypeError: An option is unknown, or ``bootstrap_servers`` is missing.
        TransportError: No broker answered.
        RangeLost: Records in the range were lost during the read.
        ImportError: pyarrow is not installed.

    Example:
        table = await ottla.aread_arrow(
            "orders", bootstrap_servers="127.0.0.1:9092", start="1h"
        )
    """
    _check_names(options)
    check_topic(topic)
    kept = _checked(options.get("columns"))
    isolation = options.get("isolation", Isolation.READ_COMMITTED)
    if isinstance(isolation, str):
        one_of("isolation", isolation, ISOLATIONS)
        isolation = ISOLATIONS[isolation]
    wall_ms = real_environment().clock.wall_ms()
    async with Consumer(options["bootstrap_servers"], range_config(isolation)) as consumer:
        ends = options.get("start", "earliest"), options.get("end", "latest")
        ranges = await resolve(consumer, topic, ends, options.get("partitions"), wall_ms)
        tables = {one.partition: _Table(one.partition, kept) for one in ranges}
        async for where, columns in read_ranges(consumer, ranges):
            tables[where].add(columns)
    batches = [batch for table in tables.values() for batch in table.finish()]
    names = kept or schema().names
    kinds = pyarrow().schema([schema().field(name) for name in names])
    return pyarrow().Table.from_batches(batches, kinds)


async def aread_polars(topic: str, **options: Unpack[ReadOptions]) -> pl.DataFrame:
    """Read a part of a topic into a polars DataFrame.

    Args:
        topic: The topic's name.
        options: As for ``aread_arrow``.

    Returns:
        The DataFrame.

    Raises:
        ImportError: polars or pyarrow is not installed; else as ``aread_arrow``.
    """
    polars = library("polars", "polars")
    frame: pl.DataFrame = polars.from_arrow(await aread_arrow(topic, **options))
    return frame


async def aread_pandas(topic: str, **options: Unpack[ReadOptions]) -> pd.DataFrame:
    """Read a part of a topic into a pandas DataFrame.

    Args:
        topic: The topic's name.
        options: As for ``aread_arrow``.

    Returns:
        The DataFrame.

    Raises:
        ImportError: pandas or pyarrow is not installed; else as ``aread_arrow``.
    """
    library("pandas", "pandas")
    frame: pd.DataFrame = (await aread_arrow(topic, **options)).to_pandas()
    return frame


def read_arrow(topic: str, **options: Unpack[ReadOptions]) -> pa.Table:
    """Read a part of a topic into an Arrow table, from blocking code.

    Args:
        topic: The topic's name.
        options: As for ``aread_arrow``.

    Returns:
        A table with the schema ``arrow.SCHEMA``.

    Raises:
        RuntimeError: An event loop runs in this thread; else as ``aread_arrow``.

    Example:
        table = ottla.read_arrow("orders", bootstrap_servers="127.0.0.1:9092", start="1h")
    """
    return _blocking("aread_arrow", aread_arrow(topic, **options))


def read_polars(topic: str, **options: Unpack[ReadOptions]) -> pl.DataFrame:
    """Read a part of a topic into a polars DataFrame, from blocking code.

    Args:
        topic: The topic's name.
        options: As for ``aread_arrow``.

    Returns:
        The DataFrame.

    Raises:
        RuntimeError: An event loop runs in this thread; else as ``aread_polars``.
    """
    return _blocking("aread_polars", aread_polars(topic, **options))


def read_pandas(topic: str, **options: Unpack[ReadOptions]) -> pd.DataFrame:
    """Read a part of a topic into a pandas DataFrame, from blocking code.

    Args:
        topic: The topic's name.
        options: As for ``aread_arrow``.

    Returns:
        The DataFrame.

    Raises:
        RuntimeError: An event loop runs in this thread; else as ``aread_pandas``.
    """
    return _blocking("aread_pandas", aread_pandas(topic, **options))


def iterate_range(
    one: OffsetRange, *, bootstrap_servers: str, isolation: Isolation = Isolation.READ_COMMITTED
) -> Iterator[pa.RecordBatch]:
    """Run ``ranges.read_range`` from blocking code, one batch at a time."""
    batches = read_range(one, bootstrap_servers=bootstrap_servers, isolation=isolation)
    loop = shared_loop()
    try:
        while (batch := loop.run(_next(batches))) is not None:
            yield batch
    finally:
        loop.run(batches.aclose())


async def _next(batches: Any) -> pa.RecordBatch | None:
    return await anext(batches, None)


def _blocking(name: str, work: Coroutine[Any, Any, Result]) -> Result:
    if asyncio._get_running_loop() is not None:
        work.close()
        raise RuntimeError(f"an event loop is running here: await ottla.{name}() instead")
    return shared_loop().run(work)


def _check_names(options: ReadOptions) -> None:
    """Raise TypeError for an unknown option, or if ``bootstrap_servers`` is missing."""
    known = ReadOptions.__annotations__
    for name in options:
        if name not in known:
            raise TypeError(f"there is no option {name!r}{suggestion(name, known)}")
    if "bootstrap_servers" not in options:
        raise TypeError("bootstrap_servers is missing: it looks like '127.0.0.1:9092'")


def _checked(columns: Sequence[str] | None) -> list[str] | None:
    if columns is None:
        return None
    columns = texts("columns", columns)
    for name in columns:
        if name not in schema().names:
            raise ValueError(f"there is no column {name!r}; there are {', '.join(schema().names)}")
    return list(columns)


class _Table:
    """The batches of one partition. Joins small parts, because each batch has a fixed cost."""

    def __init__(self, where: TopicPartition, columns: list[str] | None) -> None:
        self._where = where
        self._columns = columns
        self._parts: list[Columns] = []
        self._records = 0
        self._bytes = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, columns: Columns) -> None:
        self._parts.append(columns)
        self._records += columns.count
        self._bytes += len(columns.keys.data) + len(columns.values.data)
        if self._records >= _JOINED_RECORDS or self._bytes >= _JOINED_BYTES:
            self._join()

    def _join(self) -> None:
        batch = to_arrow(self._where, self._parts)
        self._batches.append(batch if self._columns is None else batch.select(self._columns))
        self._parts, self._records, self._bytes = [], 0, 0

    def finish(self) -> list[pa.RecordBatch]:
        if self._parts:
            self._join()
        return self._batches
