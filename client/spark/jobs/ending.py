"""What Spark is asked for when somebody ends a job: to end what goes on, in order."""

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

# What a session says that is being ended, or whose Java is gone.
SPARK_ERRORS = (PySparkException, Py4JError, OSError)


def end_in_order(thread: WorkThread, session: Callable[[], SparkSession | None]) -> None:
    """Have Spark end what goes on there, and wait for it: a query after the micro-batch that it is
    at, so that nothing of it is left half done; anything else at once."""
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
    """One look: end what can be ended by now. ``reached`` has the last micro-batch of each query
    when it was first seen here."""
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
    """What is ended in the middle is told with all its stacks otherwise, by Java, by what leads
    to it, and by the server that counts for tasks."""
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None
    spark.sparkContext.setLogLevel("OFF")


def spare_java(spark: SparkSession) -> None:
    """Ctrl-C and SIGHUP reach all processes of a terminal. Where Spark's own was first, as with
    spark-submit, it would be gone before anything could be ended in order; where Python has
    started it, it ignores Ctrl-C already."""
    java = spark._jvm
    if java is not None:
        # TypeError: this Java has no such class.
        with suppress(TypeError, *SPARK_ERRORS):
            of_java = java.sun.misc
            for name in ("INT", "HUP"):
                of_java.Signal.handle(of_java.Signal(name), of_java.SignalHandler.SIG_IGN)


def newest_batch(query: StreamingQuery) -> int:
    """The last that is done, -1 if none is."""
    progress = query.lastProgress
    return -1 if progress is None else int(progress.batchId)
