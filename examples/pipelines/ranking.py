"""Counting and ranking: the pages that were seen most in each hour.

python examples/pipelines/ranking.py HOST:PORT [--master MASTER]

``views`` holds ``{"member": ..., "page": ...}``; the ranking is shown.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from ottla.client.spark.jobs.aggregate import views
from ottla.client.spark.jobs.session import open_session

BEST = 10


def ranking(seen: DataFrame, window: str = "1 hour", best: int = BEST) -> DataFrame:
    """Rank, page and count; pages that were seen equally often share a rank."""
    counted = seen.groupBy(f.window("at", window).alias("span"), "page").agg(
        f.count("*").alias("views"), f.count_distinct("member").alias("members")
    )
    in_span = Window.partitionBy("span").orderBy(f.col("views").desc())
    return (
        counted.withColumn("rank", f.rank().over(in_span))
        .where(f.col("rank") <= best)
        .select(f.col("span.start").alias("from"), "rank", "page", "views", "members")
        .orderBy("from", "rank", "page")
    )


def main() -> None:
    """Of all that is there now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--master")
    given = parser.parse_args()
    spark = open_session("ranking", given.master)
    source = spark.read.format("ottla").option("kafka.bootstrap.servers", given.bootstrap)
    ranking(views(source.option("subscribe", "views").load())).show(truncate=False)
    spark.stop()


if __name__ == "__main__":
    main()
