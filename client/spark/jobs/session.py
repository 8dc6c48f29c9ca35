"""Opens the Spark session of a job, and reads and writes topics with it."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

from ottla.client.cli.connection import given
from ottla.client.spark import OttlaDataSource
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.options import Options

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterable, Mapping

    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter

FORMAT = "ottla"
# Set by spark-submit, which has chosen a master already.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
HERE = "127.0.0.1"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
ISOLATION = "kafka.isolation.level"


def open_session(
    name: str, master: str | None, settings: Iterable[tuple[str, str]] = ()
) -> SparkSession:
    """The existing session, or a new one of that master: local on all cores if none is named and
    the job was not submitted. ``settings`` are Spark's own."""
    # The default would be any python3 on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if not sys.stderr.isatty():
        # Progress bars would clutter a log file.
        builder = builder.config("spark.ui.showConsoleProgress", "false")
    if master is None and SUBMITTED not in os.environ:
        master = "local[*]"
    if master is not None:
        builder = builder.master(master)
        if os.name == "posix" and "SPARK_HOME" not in os.environ and SUBMITTED not in os.environ:
            folder = Path(tempfile.mkdtemp(prefix="ottla-spark-"))
            atexit.register(shutil.rmtree, folder, ignore_errors=True)
            os.environ["SPARK_HOME"] = str(home_without_zip(folder))
        if master.startswith("local"):
            # The driver's ports, its web page included, accept local connections only.
            os.environ.setdefault("SPARK_LOCAL_IP", HERE)
            builder = builder.config("spark.driver.host", HERE)
            builder = builder.config("spark.driver.bindAddress", HERE)
    for setting, value in settings:
        builder = builder.config(setting, value)
    # Hours and days are the same wherever a job runs.
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    register(session)
    return session


def home_without_zip(folder: Path) -> Path:
    """Link ``folder`` to Spark's installation without its zip of PySpark, which Python workers
    would prefer to the installed package and compile anew at each start. On a busy machine that
    takes longer than Spark waits for them."""
    for entry in Path(pyspark.__path__[0]).iterdir():
        if entry.name != "python":
            (folder / entry.name).symlink_to(entry)
    return folder


def register(spark: SparkSession) -> None:
    """Register the data source."""
    spark.dataSource.register(OttlaDataSource)


def shuffle_into(spark: SparkSession, count: int) -> None:
    """Use ``count`` tasks after a shuffle, unless the user has configured it. Spark's default of
    200 would be 200 transactions for each micro-batch, most of them empty."""
    if spark.sparkContext.getConf().get(SHUFFLE_PARTITIONS) is None:
        spark.conf.set(SHUFFLE_PARTITIONS, str(count))


def read_options(bootstrap: str, options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The options of every read of a job. By default committed records only: aborted records must
    not reappear as rows, counts or committed records."""
    return {
        **_given_options(bootstrap),
        ISOLATION: "read_committed",
        # Spark ignores the case of names: the given option must win.
        **{ISOLATION if name.lower() == ISOLATION else name: value for name, value in options},
    }


def check_options(arguments: argparse.Namespace, *, is_stream: bool) -> Options:
    """Check the options as the data source will. Raises JobRefused with its error text."""
    options = read_options(arguments.bootstrap, arguments.options)
    try:
        return Options.of({"subscribe": ",".join(arguments.topics), **options}, is_stream=is_stream)
    except ValueError as error:
        raise JobRefused(str(error)) from error


def write_options(bootstrap: str) -> dict[str, str]:
    """The options of every write of a job."""
    return _given_options(bootstrap)


def _given_options(bootstrap: str) -> dict[str, str]:
    """The address and the settings of the command, by the names of the data source's options."""
    settings = {f"kafka.{name}": value for name, value in given().items()}
    return {**settings, "kafka.bootstrap.servers": bootstrap}


def read(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Read topics as a frame."""
    return spark.read.format(FORMAT).options(**options).load()


def read_stream(spark: SparkSession, options: Mapping[str, str]) -> DataFrame:
    """Read topics as a streaming frame."""
    return spark.readStream.format(FORMAT).options(**options).load()


def write_stream(
    frame: DataFrame, topic: str, options: Mapping[str, str], arguments: argparse.Namespace
) -> StreamingQuery:
    """Write a stream into a topic, as ``--checkpoint``, ``--once`` and ``--every`` say."""
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
