"""A news feed: for each member the newest things that those he follows have done.

python examples/pipelines/news_feed.py HOST:PORT [--master MASTER]

``activities`` holds ``{"member": ..., "verb": ..., "object": ...}``, ``follows`` (a compacted topic
keyed by member) the list of those he follows. The feeds go to ``feeds``, keyed by member.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as f

from ottla.client.spark.jobs.session import open_session

ACTIVITY = "member string, verb string, object string"
FEED_LENGTH = 20


def activities(records: DataFrame) -> DataFrame:
    """Who has done what, and when."""
    parsed = f.from_json(f.col("value").cast("string"), ACTIVITY)
    return records.select(parsed.alias("one"), f.col("timestamp").alias("at")).select("one.*", "at")


def follows(records: DataFrame) -> DataFrame:
    """Who follows whom: the last record of each member counts."""
    newest = Window.partitionBy("key").orderBy(f.col("timestamp").desc(), f.col("offset").desc())
    last = records.withColumn("place", f.row_number().over(newest)).where("place = 1")
    return last.select(
        f.col("key").cast("string").alias("reader"),
        f.explode(f.from_json(f.col("value").cast("string"), "array<string>")).alias("member"),
    )


def feeds(done: DataFrame, followed: DataFrame) -> DataFrame:
    """One row for each reader: the newest first."""
    newest = Window.partitionBy("reader").orderBy(f.col("at").desc(), "member", "object")
    chosen = (
        followed.join(done, "member")
        .withColumn("place", f.row_number().over(newest))
        .where(f.col("place") <= FEED_LENGTH)
    )
    entry = f.struct("place", "member", "verb", "object")
    return chosen.groupBy("reader").agg(f.sort_array(f.collect_list(entry)).alias("feed"))


def main() -> None:
    """Compute all feeds anew."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--master")
    given = parser.parse_args()
    spark = open_session("news feed", given.master)

    def topic(name: str) -> DataFrame:
        source = spark.read.format("ottla").option("kafka.bootstrap.servers", given.bootstrap)
        return source.option("subscribe", name).load()

    found = feeds(activities(topic("activities")), follows(topic("follows")))
    rows = found.select(f.col("reader").alias("key"), f.to_json(f.struct("feed")).alias("value"))
    sink = rows.write.format("ottla").option("kafka.bootstrap.servers", given.bootstrap)
    sink.option("topic", "feeds").mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main()
