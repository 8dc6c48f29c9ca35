"""Reporting: what each day was like, from rows that ``ottla spark load`` has loaded.

ottla spark load -b HOST:PORT --topics orders --window day --to /data/lake
python examples/pipelines/reporting.py /data/lake REPORT_DIRECTORY [--master MASTER]

``orders`` holds ``{"customer": ..., "cents": 1999, "country": "DE"}``. A report depends on the rows
alone: made again tomorrow, that of today is the same.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla.client.spark.jobs.session import open_session

ORDER = "customer string, cents bigint, country string"


def report(rows: DataFrame) -> DataFrame:
    """For each day and country: orders, customers and what they paid."""
    order = f.from_json(f.col("value").cast("string"), ORDER)
    return (
        rows.where("topic = 'orders'")
        .select(f.to_date("timestamp").alias("day"), order.alias("order"))
        .groupBy("day", "order.country")
        .agg(
            f.count("*").alias("orders"),
            f.count_distinct("order.customer").alias("customers"),
            (f.sum("order.cents") / 100).cast("decimal(18,2)").alias("revenue"),
        )
        .orderBy("day", "country")
    )


def main() -> None:
    """As CSV."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("lake")
    parser.add_argument("to")
    parser.add_argument("--master")
    given = parser.parse_args()
    spark = open_session("reporting", given.master)
    found = report(spark.read.parquet(given.lake))
    found.coalesce(1).write.mode("overwrite").option("header", True).csv(given.to)
    spark.stop()


if __name__ == "__main__":
    main()
