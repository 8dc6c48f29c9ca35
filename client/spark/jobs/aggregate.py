"""Counts page views per member and window, from an activity stream to a topic keyed by member.

A view is JSON: ``{"member": "m1", "page": "/jobs", "at": "2026-01-31T12:00:00Z"}``. The record's
own time counts if ``at`` is missing or later: one clock that is wrong by a year would make all
other views late. Results have the member as their key, so that all counts of one member are in one
partition, in order.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ottla.client.spark.jobs.running import Job, run_as
from ottla.client.spark.jobs.session import (
    read_options,
    read_stream,
    shuffle_into,
    write_options,
    write_stream,
)
from ottla.client.spark.jobs.topics import partitions_of, prepare_stream, views_of

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession

VIEW = "member string, page string, at timestamp"


def views(rows: DataFrame) -> DataFrame:
    """Parse records as views; drops other records."""
    parsed = rows.select(
        "timestamp", f.from_json(f.col("value").cast("string"), VIEW).alias("view")
    )
    return parsed.where("view.member is not null").select(
        f.col("view.member").alias("member"),
        f.col("view.page").alias("page"),
        # least() ignores nulls.
        f.least("view.at", "timestamp").alias("at"),
    )


def counts(rows: DataFrame, window: str) -> DataFrame:
    """The number of views, and of distinct pages, of each member in each window."""
    return rows.groupBy(f.window("at", window).alias("span"), "member").agg(
        f.count(f.lit(1)).alias("views"), f.size(f.collect_set("page")).alias("pages")
    )


def records(counted: DataFrame) -> DataFrame:
    """The counts as records to write."""
    value = f.struct(
        "member",
        f.col("span.start").alias("from"),
        f.col("span.end").alias("to"),
        "views",
        "pages",
    )
    return counted.select(
        f.col("member").cast("binary").alias("key"),
        f.to_json(value).cast("binary").alias("value"),
    )


def perform(spark: SparkSession, arguments: argparse.Namespace) -> str:
    """Run until stopped, or once. The count of a window is written when it is over: when a view is
    later than its end by ``--late``."""
    options = read_options(arguments.bootstrap, arguments.options)
    rows = read_stream(
        spark,
        {"subscribe": ",".join(arguments.topics), "startingOffsets": arguments.start, **options},
    )
    shuffle_into(spark, len(partitions_of(views_of(arguments.bootstrap, arguments.topics))))
    timely = views(rows).withWatermark("at", arguments.late)
    options = write_options(arguments.bootstrap)
    told = records(counts(timely, arguments.window))
    write_stream(told, arguments.to, options, arguments).awaitTermination()
    return ""


JOB = Job(prepare_stream, perform)


def main() -> int:
    """Run as a module, or with spark-submit."""
    return run_as(JOB, ["aggregate", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
