"""A data source of PySpark 4.2 and later that reads and writes topics.

After ``spark.dataSource.register(OttlaDataSource)``, ``spark.read.format("ottla")`` and so on
accept the options of Spark's own Kafka connector and return its columns.
"""

from ottla.client.spark.source import OttlaDataSource

__all__ = ["OttlaDataSource"]
