"""Transforms topics into a topic, exactly once, with a filter and expressions of Spark SQL."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ottla.client.spark.jobs.running import Job, run_as
from ottla.client.spark.jobs.session import read_options, read_stream, write_options, write_stream
from ottla.client.spark.jobs.topics import prepare_stream

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession


def transformed(rows: DataFrame, arguments: argparse.Namespace) -> DataFrame:
    """Apply the filter and the expressions; headers are kept."""
    if arguments.where is not None:
        rows = rows.where(arguments.where)
    return rows.select(
        f.expr(arguments.key).cast("binary").alias("key"),
        f.expr(arguments.value).cast("binary").alias("value"),
        "headers",
    )


def perform(spark: SparkSession, arguments: argparse.Namespace) -> str:
    """Run until stopped, or once."""
    options = read_options(arguments.bootstrap, arguments.options)
    rows = read_stream(
        spark,
        {
            "subscribe": ",".join(arguments.topics),
            "startingOffsets": arguments.start,
            "includeHeaders": "true",
            **options,
        },
    )
    options = write_options(arguments.bootstrap)
    query = write_stream(transformed(rows, arguments), arguments.to, options, arguments)
    query.awaitTermination()
    return ""


JOB = Job(prepare_stream, perform)


def main() -> int:
    """Run as a module, or with spark-submit."""
    return run_as(JOB, ["transform", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
