"""Topics as a data source of PySpark 4.2 and later.

``spark.dataSource.register(OttlaDataSource)``, then ``spark.read.format("ottla")`` and so on take
the options of Spark's own connector for Kafka and give its columns.
"""

from ottla.client.spark.source import OttlaDataSource

__all__ = ["OttlaDataSource"]
