"""Every foreign client that writes in transactions, and how its pipeline is started."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, NamedTuple

from tests.interop.support.clients import needs
from tests.interop.support.environments import go_program, java_classpath, node_program, python_with

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

_PYTHON = "tests.interop.programs.python"


class Application(NamedTuple):
    """A pipeline: its name in a test's id, its command without address and orders."""

    name: str
    command: Callable[[], list[str | Path]]
    # Whether it writes everything to its partitions although their leaders change.
    follows_leaders: bool = True


def _python(module: str, *requirements: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        python = python_with(*requirements) if requirements else sys.executable
        return [python, "-m", f"{_PYTHON}.{module}"]

    return command


def _java(kafka_version: str, name: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        needs("java", "mvn")
        return ["java", "-Xmx192m", "-cp", java_classpath(kafka_version), name]

    return command


def _go(name: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        needs("go")
        return [go_program(name)]

    return command


def _node() -> list[str | Path]:
    needs("node", "npm")
    return ["node", node_program("pipeline.js")]


STEPWISE = [
    Application("confluent-kafka", _python("transactions_confluent")),
    Application("kafka-python", _python("transactions_kafka_python")),
    Application("aiokafka", _python("transactions_aio")),
]
PIPELINES_INSTALLED = [
    Application("confluent-kafka", _python("pipeline_confluent")),
    Application("kafka-python", _python("pipeline_kafka_python")),
    Application("aiokafka", _python("pipeline_aio")),
]
PIPELINES = [
    *PIPELINES_INSTALLED,
    Application("confluent-kafka-2.3.0", _python("pipeline_confluent", "confluent-kafka==2.3.0")),
    Application("franz-go", _go("franzpipeline")),
    Application("sarama", _go("saramapipeline")),
    # After an error it sends again only to brokers that have not answered yet: what belongs to a
    # partition that has moved to one that has answered is dropped, and committed without it. Its
    # program goes round that, one partition at a time; it is not shown yet that this is enough.
    Application("kafkajs", _node, follows_leaders=False),
    Application("java-3.9.1", _java("3.9.1", "Pipeline")),
    Application("java-4.1.0", _java("4.1.0", "Pipeline")),
    Application("streams-3.9.1", _java("3.9.1", "StreamsPipeline")),
    Application("streams-4.1.0", _java("4.1.0", "StreamsPipeline")),
]
