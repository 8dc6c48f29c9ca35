"""The data source ``ottla``, as PySpark sees it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ottla.client.spark.given import Given
from ottla.client.spark.pyspark_api import DataSource
from ottla.client.spark.rows import spark_schema

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
        return spark_schema(Given(self.options).truth("includeHeaders", default=False))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        raise NotImplementedError

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802
        """For ``spark.readStream``."""
        raise NotImplementedError

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        """For ``DataFrame.write``."""
        raise NotImplementedError

    def streamWriter(  # noqa: N802
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamArrowWriter:
        """For ``DataFrame.writeStream``, made anew for each micro-batch."""
        raise NotImplementedError
