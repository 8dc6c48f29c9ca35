"""The data source ``ottla``, as PySpark sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.spark.given import Given
from ottla.client.spark.pyspark_api import DataSource
from ottla.client.spark.reader import BatchReader
from ottla.client.spark.rows import check_schema, spark_schema
from ottla.client.spark.stream_reader import StreamReader
from ottla.client.spark.stream_writer import StreamWriter
from ottla.client.spark.writer import BatchWriter

if TYPE_CHECKING:
    from ottla.client.spark.pyspark_api import (
        DataSourceArrowWriter,
        DataSourceReader,
        DataSourceStreamArrowWriter,
        DataSourceStreamReader,
        StructType,
    )


class OttlaDataSource(DataSource):
    """Use it as ``spark.dataSource.register(OttlaDataSource)``, once for each session."""

    @classmethod
    def name(cls) -> str:
        """What ``format`` is given."""
        return "ottla"

    def schema(self) -> str:
        """The columns that are read."""
        return spark_schema(self._has_headers)

    @property
    def _has_headers(self) -> bool:
        return Given(self.options).truth("includeHeaders", default=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        check_schema(schema, self._has_headers)
        return BatchReader(self.options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For ``spark.readStream``."""
        check_schema(schema, self._has_headers)
        return StreamReader(self.options)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For ``DataFrame.write``."""
        return BatchWriter(self.options, schema, overwrite)

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """For ``DataFrame.writeStream``, made anew for each micro-batch."""
        return StreamWriter(self.options, schema, overwrite)
