"""Stops Spark's work gracefully when the user or a timer ends a job."""

from __future__ import annotations

import logging
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from ottla.wire.signals import WorkThread

# Errors of a session that is stopping, or whose Java process is gone.
SPARK_ERRORS = (PySparkException, Py4JError, OSError)


def end_in_order(thread: WorkThread, session: Callable[[], SparkSession | None]) -> None:
    """Stop Spark's work and wait for it: a query after its current micro-batch, so that none is
    left half done; other jobs at once."""
    sys.stderr.write(
        "ottla: ending, a query when its micro-batch under way is done; a second signal ends at"
        " once\n"
    )
    sys.stderr.flush()
    reached: dict[str, int] = {}
    while thread.is_alive():
        spark = session()
        if spark is not None:
            with suppress(*SPARK_ERRORS):
                end_work(spark, reached)
        thread.pause()


def end_work(spark: SparkSession, reached: dict[str, int]) -> None:
    """Stop what can be stopped by now. ``reached`` has the last micro-batch of each query when it
    was first seen here."""
    silence(spark)
    queries = spark.streams.active
    for query in queries:
        newest, status = newest_batch(query), query.status
        is_busy = status["isTriggerActive"] and status["isDataAvailable"]
        if not is_busy or newest > reached.setdefault(query.runId, newest):
            query.stop()
    if not queries:
        spark.sparkContext.cancelAllJobs()


def silence(spark: SparkSession) -> None:
    """Turn off logging: interrupted work would be reported with full stack traces by Java, py4j and
    the accumulator server."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
    spark.sparkContext.setLogLevel("OFF")


def spare_java(spark: SparkSession) -> None:
    """Make Spark's Java process ignore Ctrl-C and SIGHUP, which reach all processes of a terminal.
    With spark-submit, Java would otherwise end before the work can be stopped gracefully; started
    by Python, it ignores Ctrl-C already."""
    java = spark._jvm
    if java is not None:
        # TypeError: this Java lacks the class.
        with suppress(TypeError, *SPARK_ERRORS):
            of_java = java.sun.misc
            for name in ("INT", "HUP"):
                of_java.Signal.handle(of_java.Signal(name), of_java.SignalHandler.SIG_IGN)


def newest_batch(query: StreamingQuery) -> int:
    """The last completed micro-batch; -1 if there is none."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)
