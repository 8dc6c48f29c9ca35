"""Crawler detection: who asks for more pages in a minute than a person can read.

python examples/pipelines/crawlers.py HOST:PORT --checkpoint DIR [--once] [--master MASTER]

``views`` holds ``{"member": ..., "page": ...}``. Who was over the limit in a minute is written to
``limits`` when it is over, keyed by member, for those who serve pages to slow him down.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla.client.spark.jobs.aggregate import views
from ottla.client.spark.jobs.session import open_session

VIEWS_PER_MINUTE_MAX = 60
# No person reads that many different pages in a minute.
PAGES_PER_MINUTE_MAX = 30


def over_limit(
    seen: DataFrame, views_max: int = VIEWS_PER_MINUTE_MAX, pages_max: int = PAGES_PER_MINUTE_MAX
) -> DataFrame:
    """Member, minute and what he did in it."""
    counted = seen.groupBy(f.window("at", "1 minute").alias("minute"), "member").agg(
        f.count("*").alias("views"), f.size(f.collect_set("page")).alias("pages")
    )
    return counted.where((f.col("views") > views_max) | (f.col("pages") > pages_max)).select(
        "member", f.col("minute.start").alias("minute"), "views", "pages"
    )


def main() -> None:
    """Until it is stopped, or once."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--checkpoint", required=True)
    parser.add_argument("--once", action="store_true")
    parser.add_argument("--master")
    given = parser.parse_args()
    spark = open_session("crawlers", given.master)
    source = spark.readStream.format("ottla").option("kafka.bootstrap.servers", given.bootstrap)
    records = source.option("subscribe", "views").option("startingOffsets", "earliest").load()
    found = over_limit(views(records).withWatermark("at", "1 minute"))
    rows = found.select(f.col("member").alias("key"), f.to_json(f.struct("*")).alias("value"))
    # A row is appended when its minute is over, and cannot change any more.
    sink = rows.writeStream.format("ottla").outputMode("append")
    sink = sink.option("kafka.bootstrap.servers", given.bootstrap).option("topic", "limits")
    sink = sink.option("checkpointLocation", given.checkpoint)
    if given.once:
        sink = sink.trigger(availableNow=True)
    sink.start().awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main()
