"""Every foreign client that is driven by steps: how it is started, and what it cannot do."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.interop.support.environments import go_program, java_classpath, node_program, python_with
from tests.interop.support.foreign import Capabilities

if TYPE_CHECKING:
    from collections.abc import Callable

JAVA_VERSIONS = ["3.9.1", "4.1.0"]

_PYTHON = "tests.interop.programs.python"


class ForeignClient(NamedTuple):
    """A client: its name in a test's id, its command without the address, its capabilities."""

    name: str
    command: Callable[[], list[str | Path]]
    capabilities: Capabilities = Capabilities()


def _python(module: str, *requirements: str) -> Callable[[], list[str | Path]]:
    """A Python program, in the tests' own environment if it requires nothing."""

    def command() -> list[str | Path]:
        python = python_with(*requirements) if requirements else Path(sys.executable)
        return [python, "-m", f"{_PYTHON}.{module}"]

    return command


def _java(kafka_version: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        needs("java", "mvn")
        return ["java", "-Xmx256m", "-cp", java_classpath(kafka_version), "Steps"]

    return command


def _go(name: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        needs("go")
        return [go_program(name)]

    return command


def _node(name: str) -> Callable[[], list[str | Path]]:
    def command() -> list[str | Path]:
        needs("node", "npm")
        return ["node", node_program(name)]

    return command


_AIOKAFKA = Capabilities(
    without_steps=frozenset({"incremental_alter_configs"}), without_empty_records=True
)
_KAFKA_PYTHON = Capabilities(
    without_empty_records=True, without_null_headers=True, alters_incrementally=True
)
_KAFKA_PYTHON_2 = Capabilities(
    without_steps=frozenset({"incremental_alter_configs", "delete_records", "idempotent"}),
    without_empty_records=True,
    without_null_headers=True,
)

# Its codecs but gzip are plug-ins; those of lz4 and zstd are compiled for each machine.
# It reads as a member of a group or not at all.
_KAFKAJS = Capabilities(
    without_steps=frozenset({"incremental_alter_configs", "consume"}),
    without_codecs=frozenset({"lz4", "zstd"}),
    without_null_headers=True,
)

# Run by make test: they are in the tests' own environment.
INSTALLED = [
    ForeignClient("confluent-kafka", _python("confluent")),
    ForeignClient("kafka-python", _python("kafka_python"), _KAFKA_PYTHON),
    ForeignClient("aiokafka", _python("aio"), _AIOKAFKA),
]

# Run by make interop: each brings an environment or a toolchain.
OTHERS = [
    ForeignClient(
        "confluent-kafka-2.3.0",
        _python("confluent", "confluent-kafka==2.3.0"),
        Capabilities(without_steps=frozenset({"delete_records"})),
    ),
    ForeignClient(
        "kafka-python-2.0.2",
        _python("kafka_python", "kafka-python==2.0.2", "python-snappy", "lz4", "zstandard"),
        _KAFKA_PYTHON_2,
    ),
    ForeignClient("java-3.9.1", _java("3.9.1")),
    ForeignClient(
        "java-4.1.0", _java("4.1.0"), Capabilities(without_steps=frozenset({"alter_configs"}))
    ),
    ForeignClient("franz-go", _go("franz")),
    ForeignClient("sarama", _go("sarama")),
    ForeignClient("kafkajs", _node("kafka.js"), _KAFKAJS),
]


def needs(*tools: str) -> None:
    """Skip the test unless all these commands are there; the reason names the missing ones."""
    missing = [tool for tool in tools if shutil.which(tool) is None]
    if missing:
        pytest.skip(f"missing toolchain: {', '.join(missing)}")
