"""How a job becomes a command: its arguments, its session, and one sentence if it fails."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, NamedTuple

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ottla.client.cli.parsers.spark import parser
from ottla.client.errors import ClientError
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.session import open_session

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

INTERRUPTED = 130
NO_JAVA = "JAVA_GATEWAY_EXITED"
# Where what went wrong ends, and Spark's own report of where it was begins.
AFTER = re.compile(r"^\s*(SQLSTATE: |JVM stacktrace:|at [\w.$]+\()")
PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*: (.+)")
JAVA_ERROR = re.compile(r": (?:[a-z]\w*\.)+(.+)")


class Job(NamedTuple):
    """``prepare`` says what is wrong before Spark is started, which takes its time; ``perform``
    does the work and returns what to tell."""

    prepare: Callable[[argparse.Namespace], None]
    perform: Callable[[SparkSession, argparse.Namespace], str]


def run_as(job: Job, words: Sequence[str]) -> int:
    """Run a job by its command line; returns the exit status."""
    return run(job, parser().parse_args(words))


def run(job: Job, arguments: argparse.Namespace) -> int:
    """Run a job in a session of its own."""
    spark: SparkSession | None = None
    try:
        job.prepare(arguments)
        spark = open_session(f"ottla {arguments.verb}", arguments.master, arguments.settings)
        sys.stdout.write(job.perform(spark, arguments))
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ClientError, JobRefused, PySparkException, Py4JError) as error:
        sys.stderr.write(f"ottla: {sentence_of(error)}\n")
        return 1
    finally:
        if spark is not None:
            spark.stop()
    return 0


def sentence_of(error: Exception) -> str:
    """What went wrong: Spark puts the whole stack of Python and its own around it."""
    if isinstance(error, PySparkException) and error.getCondition() == NO_JAVA:
        return (
            "Spark could not start Java: have Java 17 or 21, and JAVA_HOME or the path lead to it"
        )
    lines: list[str] = []
    for line in str(error).splitlines():
        if lines and AFTER.match(line):
            break
        if line.strip():
            lines.append(line)
    if any("Traceback (most recent call last):" in line for line in lines):
        raised = [found for line in lines if (found := PYTHON_ERROR.fullmatch(line))]
        if raised:
            return raised[-1][1]
    if isinstance(error, Py4JError):
        thrown = [found for line in lines if (found := JAVA_ERROR.fullmatch(line))]
        if thrown:
            return thrown[0][1]
    return lines[0] if lines else type(error).__name__
