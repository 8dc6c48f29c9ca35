"""The data source in a session of Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_columns_are_those_of_sparks_connector(spark: SparkSession) -> None:
    """Who changes one word of a program should not have to change the rest."""
    frame = spark.read.format("ottla").option("includeHeaders", "true").load()

    assert [(one.name, one.dataType.simpleString(), one.nullable) for one in frame.schema] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True),
        ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
        ("headers", "array<struct<key:string,value:binary>>", True),
    ]
