"""Operational monitoring: errors and latency of every service, minute by minute.

python examples/pipelines/monitoring.py HOST:PORT [--master MASTER]

``requests`` holds ``{"service": ..., "status": 200, "took_ms": 12}``; what is out of bounds goes to
``alerts``, keyed by service.
"""

from __future__ import annotations

import argparse

from pyspark.sql import DataFrame
from pyspark.sql import functions as f

from ottla.client.spark.jobs.session import open_session

REQUEST = "service string, status int, took_ms double"
ERROR_SHARE_MAX = 0.05
LATENCY_MS_MAX = 500.0
# With fewer requests a single error would be an alert.
REQUESTS_MIN = 20


def figures(records: DataFrame) -> DataFrame:
    """For each service and minute: requests, share of errors, and the 95th percentile."""
    one = f.from_json(f.col("value").cast("string"), REQUEST)
    requests = records.select("timestamp", one.alias("one")).select("timestamp", "one.*")
    return requests.groupBy(f.window("timestamp", "1 minute").alias("minute"), "service").agg(
        f.count("*").alias("requests"),
        f.avg((f.col("status") >= 500).cast("double")).alias("error_share"),
        f.percentile_approx("took_ms", 0.95).alias("latency_ms"),
    )


def alerts(measured: DataFrame) -> DataFrame:
    """What is out of bounds, and by what."""
    errors, slow = f.col("error_share") > ERROR_SHARE_MAX, f.col("latency_ms") > LATENCY_MS_MAX
    why = f.when(errors & slow, "errors, latency").when(errors, "errors").otherwise("latency")
    return measured.where((f.col("requests") >= REQUESTS_MIN) & (errors | slow)).select(
        "service",
        f.col("minute.start").alias("minute"),
        "requests",
        "error_share",
        "latency_ms",
        why.alias("why"),
    )


def main() -> None:
    """Of all that is there now."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("bootstrap")
    parser.add_argument("--master")
    given = parser.parse_args()
    spark = open_session("monitoring", given.master)
    source = spark.read.format("ottla").option("kafka.bootstrap.servers", given.bootstrap)
    found = alerts(figures(source.option("subscribe", "requests").load()))
    rows = found.select(f.col("service").alias("key"), f.to_json(f.struct("*")).alias("value"))
    sink = rows.write.format("ottla").option("kafka.bootstrap.servers", given.bootstrap)
    sink.option("topic", "alerts").mode("append").save()
    spark.stop()


if __name__ == "__main__":
    main()
