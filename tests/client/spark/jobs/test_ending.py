"""Jobs that a signal ends: cleanly, with a sentence, and with the exit status of the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest

from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs import running, transform
from ottla.client.spark.jobs.running import Job, run
from tests.client.spark.jobs.pipelines import Lasting, committed
from tests.client.spark.support.sessions import prepare_environment
from tests.client.spark.support.standalone import Standalone, script_of
from tests.client.spark.support.topics import fill
from tests.support.terminals import HEARS_HANGUPS

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(1_800)

PATIENCE_S = 600.0
LOOK_S = 0.05
ENDING = (
    "ottla: ending, a query when its micro-batch under way is done; a second signal ends at once\n"
)
ROWS = 80


def arguments_of(broker: str, source: str, target: str, checkpoint: Path) -> list[str]:
    """A query of many micro-batches."""
    words = ["-b", broker, "--topics", source, "--to", target, "--checkpoint", str(checkpoint)]
    return [*words, "-X", "maxOffsetsPerTrigger=20"]


@contextmanager
def when(condition: Callable[[], bool], action: Callable[[], object]) -> Iterator[None]:
    """Do it, in a thread, as soon as that holds; not any more when the block is over."""
    over = threading.Event()

    def wait() -> None:
        while not condition():
            if over.wait(LOOK_S):
                return
        action()

    thread = threading.Thread(target=wait)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


@pytest.fixture
def lasting(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Jobs run in the session of all tests."""

    def begin(*_: object) -> Lasting:
        # Spark looks for data sources in what was used last in the thread.
        spark.createDataFrame([], "nothing int")
        return Lasting(spark)

    monkeypatch.setattr(running, "open_session", begin)
    yield
    spark.sparkContext.setLogLevel("ERROR")


@pytest.fixture(autouse=True)
def survivor() -> Iterator[None]:
    """Ignore signals that arrive after their test, so that they do not end the test run."""
    heard = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {one: signal.signal(one, lambda *_: None) for one in heard}
    yield
    for one, handler in before.items():
        signal.signal(one, handler)


@pytest.mark.usefixtures("lasting")
def test_a_query_ends_with_a_sentence_and_goes_on_the_next_time(
    spark: SparkSession,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """The user gets no pages of stacks; work in progress is done now or by the next run."""
    source, target = new_topic(2), new_topic()
    fill(broker, source, ROWS // 2, 2)
    words = arguments_of(broker, source, target, tmp_path / "cp")
    arguments = parser().parse_args(["transform", *words])
    is_done = (tmp_path / "cp" / "commits" / "0").exists

    with when(is_done, partial(os.kill, os.getpid(), signal.SIGTERM)):
        found = run(transform.JOB, arguments)

    assert found == 143
    assert spark.streams.active == []
    told = capfd.readouterr().err
    assert told.endswith(ENDING)
    assert "Traceback" not in told
    assert run(transform.JOB, parser().parse_args(["transform", *words, "--once"])) == 0
    assert len(committed(broker, target)) == ROWS


@pytest.mark.usefixtures("lasting")
@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_what_is_no_query_is_cancelled(
    capfd: pytest.CaptureFixture[str], number: signal.Signals, status: int
) -> None:
    """A load may take hours."""
    started = threading.Event()

    def work(spark: SparkSession, _: argparse.Namespace) -> str:
        rows = spark.range(1 << 60, numPartitions=2)
        started.set()
        return str(rows.selectExpr("sum(hash(id))").collect())

    with when(started.is_set, partial(os.kill, os.getpid(), number)):
        assert run(Job(lambda _: None, work), parser().parse_args(LOAD)) == status

    assert capfd.readouterr() == ("", ENDING)


LOAD = ["load", "--topics", "t", "--to", "/x"]


def test_a_second_signal_ends_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Here Spark never comes up."""
    begun, release = threading.Event(), threading.Event()

    def begin(*_: object) -> None:
        begun.set()
        release.wait()

    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGINT)

    def told_before() -> bool:
        told.append(capsys.readouterr().err)
        return "".join(told) == ENDING

    told: list[str] = []
    monkeypatch.setattr(running, "open_session", begin)
    before = signal.getsignal(signal.SIGINT)

    with when(begun.is_set, interrupt), when(told_before, interrupt):
        assert run(Job(lambda _: None, lambda *_: ""), parser().parse_args(LOAD)) == 130

    assert signal.getsignal(signal.SIGINT) is before
    release.set()


def test_an_unexpected_failure_is_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unexpected failure is our bug, and its stack says where."""
    monkeypatch.setattr(running, "open_session", lambda *_: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        run(Job(lambda _: None, lambda *_: ""), parser().parse_args(LOAD))


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGHUP])
@pytest.mark.parametrize("is_submitted", [False, True], ids=["run", "submitted"])
def test_a_signal_of_the_terminal_reaches_all_processes_and_ends_in_order(
    is_submitted: bool,
    number: signal.Signals,
    broker: str,
    new_topic: Callable[..., str],
    tmp_path: Path,
) -> None:
    """Java gets it as well, which would go at once."""
    prepare_environment()
    source, target = new_topic(2), new_topic()
    fill(broker, source, ROWS // 2, 2)
    words = arguments_of(broker, source, target, tmp_path / "cp")
    command = [sys.executable, "-m", "ottla", "spark", "transform", "--master", "local[2]"]
    if is_submitted:
        program = Standalone(tmp_path, tmp_path).program("spark-submit")
        command = [program, "--master", "local[2]", script_of("transform")]
    command = [*HEARS_HANGUPS, *command, *words]
    with (tmp_path / "told").open("wb") as out:
        process = subprocess.Popen(command, stdout=out, stderr=out, process_group=0)
        commit = tmp_path / "cp" / "commits" / "0"
        with when(commit.exists, lambda: os.killpg(process.pid, number)):
            status = process.wait(PATIENCE_S)

    told = (tmp_path / "told").read_text("utf-8")
    assert status == 128 + number, told
    assert ENDING in told
    assert "Traceback" not in told
