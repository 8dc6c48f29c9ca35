"""The Spark session of a job, and how its frames meet topics."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ottla.client.spark import OttlaDataSource

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "ottla"
# Set for a driver by spark-submit, which has a master already.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
HERE = "127.0.0.1"


def open_session(name: str, master: str | None) -> SparkSession:
    """The session that is there, or one of that master: of this machine's cores where none is
    named and nothing was submitted."""
    # Otherwise workers are whatever python3 is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if master is None and SUBMITTED not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if master.startswith("local"):
            builder = builder.config("spark.driver.host", HERE)
            builder = builder.config("spark.driver.bindAddress", HERE)
    # Hours and days mean the same wherever a job runs.
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    register(session)
    return session


def register(spark: SparkSession) -> None:
    """Make topics known to the session."""
    spark.dataSource.register(OttlaDataSource)


def client_options(bootstrap: str, options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What every read and write of a job is given."""
    return {"kafka.bootstrap.servers": bootstrap, **dict(options)}


def read(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Topics as a frame."""
    return spark.read.format(FORMAT).options(**options).load()


def read_stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Topics as a frame that goes on."""
    return spark.readStream.format(FORMAT).options(**options).load()


def write_stream(
    frame: DataFrame, topic: str, options: Mapping[str, str], arguments: argparse.Namespace
) -> StreamingQuery:
    """Into a topic, as ``--checkpoint``, ``--once`` and ``--every`` say."""
    writer: DataStreamWriter = (
        frame.writeStream.format(FORMAT)
        .options(**options)
        .option("topic", topic)
        .option("checkpointLocation", arguments.checkpoint)
        .outputMode("append")
    )
    if arguments.once:
        writer = writer.trigger(availableNow=True)
    elif arguments.every is not None:
        writer = writer.trigger(processingTime=arguments.every)
    return writer.start()
