"""Implements the data source ``ottla`` for PySpark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ottla.client.spark.given import Given
from ottla.client.spark.pyspark_api import (
    DataSource,
    DataSourceStreamReader,
    SupportsTriggerAvailableNow,
)
from ottla.client.spark.reader import BatchReader
from ottla.client.spark.rows import check_schema, spark_schema
from ottla.client.spark.stream_reader import StreamReader
from ottla.client.spark.stream_writer import StreamWriter
from ottla.client.spark.writer import BatchWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa

    from ottla.client.spark.pyspark_api import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        InputPartition,
        ReadLimit,
        StructType,
    )


class RefusedReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Raises a stream's option error at the first call: for errors raised earlier, Spark fails with
    an unrelated error about a local variable."""

    def __init__(self, error: ValueError) -> None:
        self._error = error

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Where a new query would begin."""
        raise self._error

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """Where the next batch would end."""
        raise self._error

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Spark's first call with that trigger."""
        raise self._error

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        """Spark's first call when a batch is repeated."""
        raise self._error

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Called in a worker."""
        raise self._error


class OttlaDataSource(DataSource):
    """The data source; register it with ``spark.dataSource.register(OttlaDataSource)`` once per
    session."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format``."""
        return "ottla"

    def schema(self) -> str:
        """The columns that are read."""
        return spark_schema(self._has_headers)

    @property
    def _has_headers(self) -> bool:
        return Given(self.options).truth("includeHeaders", default=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """The reader for ``spark.read``."""
        check_schema(schema, self._has_headers)
        return BatchReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """The reader for ``spark.readStream``."""
        try:
            check_schema(schema, self._has_headers)
            return StreamReader(self.options)
        except ValueError as error:
            return RefusedReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """The writer for ``DataFrame.write``."""
        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """The writer for ``DataFrame.writeStream``; Spark makes one per micro-batch."""
        return StreamWriter(self.options, schema, overwrite)
