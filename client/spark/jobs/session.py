"""The Spark session of a job, and how its frames meet topics."""

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
# Set for a driver by spark-submit, which has a master already.
SUBMITTED = "PYSPARK_GATEWAY_PORT"
HERE = "127.0.0.1"
SHUFFLE_PARTITIONS = "spark.sql.shuffle.partitions"
ISOLATION = "kafka.isolation.level"


def open_session(
    name: str, master: str | None, settings: Iterable[tuple[str, str]] = ()
) -> SparkSession:
    """The session that is there, or one of that master: of this machine's cores where none is
    named and nothing was submitted. ``settings`` are Spark's own."""
    # Otherwise workers are whatever python3 is on the path.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName(name)
    if not sys.stderr.isatty():
        # Bars that draw over themselves are lines of rubbish in the log of a timer.
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
            # What the driver listens on, its page of figures too, is for this machine alone.
            os.environ.setdefault("SPARK_LOCAL_IP", HERE)
            builder = builder.config("spark.driver.host", HERE)
            builder = builder.config("spark.driver.bindAddress", HERE)
    for setting, value in settings:
        builder = builder.config(setting, value)
    # Hours and days mean the same wherever a job runs.
    session = builder.config("spark.sql.session.timeZone", "UTC").getOrCreate()
    register(session)
    return session


def home_without_zip(folder: Path) -> Path:
    """Links in an empty folder to Spark as it is installed, but for its own copy of PySpark: a zip
    file that its processes of Python would take before the one that is installed, and compile anew
    each time they start. On a busy machine that takes longer than Spark waits for them."""
    for entry in Path(pyspark.__path__[0]).iterdir():
        if entry.name != "python":
            (folder / entry.name).symlink_to(entry)
    return folder


def register(spark: SparkSession) -> None:
    """Make topics known to the session."""
    spark.dataSource.register(OttlaDataSource)


def shuffle_into(spark: SparkSession, count: int) -> None:
    """So many tasks behind a shuffle, unless somebody has said how many. Spark's own 200 would be
    200 transactions for each micro-batch, most of them empty."""
    if spark.sparkContext.getConf().get(SHUFFLE_PARTITIONS) is None:
        spark.conf.set(SHUFFLE_PARTITIONS, str(count))


def read_options(bootstrap: str, options: Iterable[tuple[str, str]]) -> dict[str, str]:
    """What every read of a job is given. Committed records only, unless somebody says otherwise:
    what was aborted must not come out again as a row, a count or a committed record."""
    return {
        "kafka.bootstrap.servers": bootstrap,
        ISOLATION: "read_committed",
        # Spark does not look at the case of names: the one that is given must win.
        **{ISOLATION if name.lower() == ISOLATION else name: value for name, value in options},
    }


def check_options(arguments: argparse.Namespace, *, is_stream: bool) -> Options:
    """Read them as the data source will. Raises JobRefused with its sentence."""
    options = read_options(arguments.bootstrap, arguments.options)
    try:
        return Options.of({"subscribe": ",".join(arguments.topics), **options}, is_stream=is_stream)
    except ValueError as error:
        raise JobRefused(str(error)) from error


def write_options(bootstrap: str) -> dict[str, str]:
    """What every write of a job is given."""
    return {"kafka.bootstrap.servers": bootstrap}


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
