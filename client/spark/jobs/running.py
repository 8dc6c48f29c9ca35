"""How a job becomes a command: its arguments, its session, and one sentence if it fails."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from ottla.client.cli.parsers.spark import parser
from ottla.client.errors import ClientError
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.session import open_session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

    Perform = Callable[[SparkSession, argparse.Namespace], str]

INTERRUPTED = 130


def run_as(perform: Perform, words: Sequence[str]) -> int:
    """Run a job by its command line; returns the exit status."""
    return run(perform, parser().parse_args(words))


def run(perform: Perform, arguments: argparse.Namespace) -> int:
    """Run a job in a session of its own."""
    spark: SparkSession | None = None
    try:
        spark = open_session(f"ottla {arguments.verb}", arguments.master)
        sys.stdout.write(perform(spark, arguments))
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ClientError, JobRefused, PySparkException) as error:
        sys.stderr.write(f"ottla: {first_line(error)}\n")
        return 1
    finally:
        if spark is not None:
            spark.stop()
    return 0


def first_line(error: Exception) -> str:
    """Spark adds its whole stack to what went wrong."""
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
