"""What a user reads when a job fails: one sentence, and soon."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException, PySparkRuntimeError

from ottla.client.cli.parsers.spark import parser
from ottla.client.spark.jobs.command import JOBS
from ottla.client.spark.jobs.files import Files
from ottla.client.spark.jobs.running import run, sentence_of
from ottla.client.spark.jobs.session import SHUFFLE_PARTITIONS, shuffle_into
from ottla.client.sync.admin import Admin

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark.sql import SparkSession

# The usual is a few seconds, most of which Spark takes to start its processes.
pytestmark = pytest.mark.timeout(1_800)

PYTHON = """[STREAM_FAILED] Query [id = 1] terminated with exception: [PYTHON] Traceback (most \
recent call last):
  File "a.py", line 1, in <module>
    int("x")
ValueError: first

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in <module>
    raise
ottla.wire.errors.RequestRefused: topic 'a': there is no such topic
 SQLSTATE: 38000
\tat org.apache.spark.Runner.run(Runner.scala:1097)
Caused by: java.lang.Exception: other
"""


def test_what_python_said_is_found_in_what_spark_says() -> None:
    """Otherwise the message only says that there was a traceback."""
    error = PySparkException(message=PYTHON)
    assert sentence_of(error) == "topic 'a': there is no such topic"
    error = PySparkException(message="[PARSE] at end of input\n\n== SQL ==\na\n")
    assert sentence_of(error) == "[PARSE] at end of input"


def test_without_java_the_sentence_says_which() -> None:
    """Spark's own speaks of a gateway."""
    error = PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    assert sentence_of(error).startswith("Spark could not start Java: install Java 17 or 21")


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("load --topics nowhere --to /x", "topic 'nowhere'"),
        ("load --topics T --to /x -X minPartions=1", "did you mean 'minPartitions'?"),
        ("load --topics T --to /x -X maxOffsetsPerTrigger=1", "maxOffsetsPerTrigger"),
        ("transform --topics nowhere --to T --checkpoint /x", "topic 'nowhere'"),
        ("aggregate --topics T --to T2 --checkpoint /x -X endingOffsets=latest", "endingOffsets"),
        ("copy --topics nowhere --to-cluster B", "topic 'nowhere'"),
        ("copy --topics T --to-cluster B", "a topic cannot be copied onto itself"),
        ("copy --topics T --to-cluster B --rename x", "--rename is made of {topic}"),
        ("transform --topics T --to T --checkpoint /x", "a topic cannot be written into itself"),
    ],
)
def test_a_mistake_is_a_sentence_before_spark_is_started(
    line: str,
    sentence: str,
    broker: str,
    topic: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Starting Spark takes half a minute, and the user may not be watching by then."""

    def start(*_: object) -> None:
        raise AssertionError("Spark is started")

    monkeypatch.setattr("ottla.client.spark.jobs.running.open_session", start)
    words = line.replace("--to-cluster B", f"--to-cluster {broker}").split()
    words = [topic if word == "T" else word for word in words]
    arguments = parser().parse_args([*words, "-b", broker])

    assert run(JOBS[arguments.verb], arguments) == 1

    told = capsys.readouterr().err
    assert told.startswith("ottla: ")
    assert told.count("\n") == 1
    assert sentence in told


def test_what_spark_shuffles_is_as_much_as_it_reads(spark: SparkSession) -> None:
    """Two hundred tasks, as Spark has it, are minutes for three records; what is set is kept."""
    before = str(spark.conf.get(SHUFFLE_PARTITIONS))
    shuffle_into(spark, 7)
    assert spark.conf.get(SHUFFLE_PARTITIONS) == before

    conf = spark.sparkContext.getConf()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(conf), "get", lambda *_: None)
        shuffle_into(spark, 7)
    try:
        assert spark.conf.get(SHUFFLE_PARTITIONS) == "7"
    finally:
        spark.conf.set(SHUFFLE_PARTITIONS, before)


def test_settings_of_spark_are_read_from_the_command_line() -> None:
    """There is no other place to give the driver more memory."""
    words = ("--conf", "spark.driver.memory=4g", "--conf", "spark.ui.port=4050")
    arguments = parser().parse_args(["load", "--topics", "a", "--to", "/x", *words])

    assert arguments.settings == [("spark.driver.memory", "4g"), ("spark.ui.port", "4050")]


def test_where_a_stream_goes_is_made_like_where_it_comes_from(
    broker: str, new_topic: Callable[..., str]
) -> None:
    """The command in the documentation works without creating the topic first."""
    few, many = new_topic(2), new_topic(5)
    words = ("--topics", f"{few},{many}", "--to", f"{few}-out", "--checkpoint", "/x")
    arguments = parser().parse_args(["transform", *words, "-b", broker])

    JOBS["transform"].prepare(arguments)
    JOBS["transform"].prepare(arguments)

    with Admin(broker) as admin:
        assert admin.describe_topic(f"{few}-out").partition_count == 5


def test_what_hadoop_said_is_a_sentence(spark: SparkSession) -> None:
    """A place that cannot be written is an everyday mistake; no stack helps there."""
    with pytest.raises(Py4JError) as raised:
        Files(spark, "/proc/1/none").write("text", "x")

    sentence = sentence_of(raised.value)

    assert "/proc/1/none" in sentence
    assert "\n" not in sentence
    assert not sentence.startswith("java")
