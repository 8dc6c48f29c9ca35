"""Page views per member and window, from an activity stream to a topic keyed by member.

A view is JSON: ``{"member": "m1", "page": "/jobs", "at": "2026-01-31T12:00:00Z"}``; without ``at``
the record's own time counts. What comes out has the member as its key, so that all counts of one
member are in one partition, in order.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.sql import functions as f

from ottla.client.spark.jobs.running import run_as
from ottla.client.spark.jobs.session import client_options, read_stream, write_stream

if TYPE_CHECKING:
    import argparse

    from pyspark.sql import DataFrame, SparkSession

VIEW = "member string, page string, at timestamp"


def views(rows: DataFrame) -> DataFrame:
    """Records as views; what is no view is left out."""
    parsed = rows.select(
        "timestamp", f.from_json(f.col("value").cast("string"), VIEW).alias("view")
    )
    return parsed.where("view.member is not null").select(
        f.col("view.member").alias("member"),
        f.col("view.page").alias("page"),
        f.coalesce("view.at", "timestamp").alias("at"),
    )


def counts(rows: DataFrame, window: str) -> DataFrame:
    """How many views, and of how many pages, each member had in each window."""
    return rows.groupBy(f.window("at", window).alias("span"), "member").agg(
        f.count(f.lit(1)).alias("views"), f.size(f.collect_set("page")).alias("pages")
    )


def records(counted: DataFrame) -> DataFrame:
    """As they are written."""
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
    """Until it is stopped, or once. A window is told when it is over: when a view has come that is
    later than its end by ``--late``."""
    options = client_options(arguments.bootstrap, arguments.options)
    rows = read_stream(
        spark,
        {"subscribe": ",".join(arguments.topics), "startingOffsets": arguments.start, **options},
    )
    timely = views(rows).withWatermark("at", arguments.late)
    options = client_options(arguments.bootstrap, ())
    told = records(counts(timely, arguments.window))
    write_stream(told, arguments.to, options, arguments).awaitTermination()
    return ""


def main() -> int:
    """As a module, or submitted."""
    return run_as(perform, ["aggregate", *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
