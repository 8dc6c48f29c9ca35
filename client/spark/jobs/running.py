"""Runs a job as a command: its arguments, its session, and one sentence if it fails."""

from __future__ import annotations

import re
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs.ending import (
    SPARK_ERRORS,
    end_in_order,
    spare_java,
)
from ottla.client.spark.jobs.errors import JobRefused
from ottla.client.spark.jobs.session import open_session
from ottla.protocol.named_tuples import NamedTuple
from ottla.wire.errors import ClientError
from ottla.wire.signals import Signals, WorkThread

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Sequence

    from pyspark.sql import SparkSession

INTERRUPTED = 130
NO_JAVA = "JAVA_GATEWAY_EXITED"
# Where the error message ends and Spark's report of its origin begins.
AFTER = re.compile(r"^\s*(SQLSTATE: |JVM stacktrace:|at [\w.$]+\()")
PYTHON_ERROR = re.compile(r"[A-Za-z_][\w.]*: (.+)")
JAVA_ERROR = re.compile(r": (?:[a-z]\w*\.)+(.+)")


class Job(NamedTuple):
    """A job. ``prepare`` detects errors before Spark is started, which takes long; ``perform`` does
    the work and returns the text to print."""

    prepare: Callable[[argparse.Namespace], None]
    perform: Callable[[SparkSession, argparse.Namespace], str]


def run_as(job: Job, words: Sequence[str]) -> int:
    """Run a job from its command line; returns the exit status."""
    return run(job, parser().parse_args(words))


def run(job: Job, arguments: argparse.Namespace) -> int:
    """Run a job in its own session; returns the exit status."""
    try:
        job.prepare(arguments)
    except KeyboardInterrupt:
        return INTERRUPTED
    except (ClientError, JobRefused) as error:
        return failed(error)
    with Signals() as signals:
        try:
            return Running(job, arguments, signals).run()
        except KeyboardInterrupt:
            # The second signal. Java exits when it notices that this process is gone.
            return signals.exit_status


class Running:
    """Runs one job in its session, until it is done or a signal ends it."""

    def __init__(self, job: Job, arguments: argparse.Namespace, signals: Signals) -> None:
        self._job, self._arguments, self._signals = job, arguments, signals
        self._spark: SparkSession | None = None

    def run(self) -> int:
        """Run the job; returns the exit status. Raises KeyboardInterrupt for the second signal."""
        thread = WorkThread(self._work)
        thread.start()
        if not thread.await_end(self._signals):
            end_in_order(thread, lambda: self._spark)
        try:
            return self._tell(thread)
        finally:
            if self._spark is not None:
                with suppress(*SPARK_ERRORS):
                    self._spark.stop()

    def _work(self) -> str:
        arguments = self._arguments
        name = f"ottla {arguments.verb}"
        self._spark = open_session(name, arguments.master, arguments.settings)
        spare_java(self._spark)
        if self._signals.number is not None:
            return ""
        return self._job.perform(self._spark, arguments)

    def _tell(self, thread: WorkThread) -> int:
        sys.stdout.write(thread.told)
        sys.stdout.flush()
        error = thread.error
        if self._signals.number is not None:
            # Errors of interrupted work only say that it was interrupted.
            return self._signals.exit_status
        if isinstance(error, ClientError | JobRefused | PySparkException | Py4JError):
            return failed(error)
        if error is not None:
            raise error
        return 0


def failed(error: Exception) -> int:
    """Print the error; returns the exit status."""
    sys.stderr.write(f"ottla: {sentence_of(error)}\n")
    return 1


def sentence_of(error: Exception) -> str:
    """The error as a sentence, without the stack traces of Python and Java around it."""
    if isinstance(error, PySparkException) and error.getCondition() == NO_JAVA:
        return (
            "Spark could not start Java: install Java 17 or 21, and set JAVA_HOME or the path to it"
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
