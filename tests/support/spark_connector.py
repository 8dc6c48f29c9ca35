"""Spark's own connector for Kafka, unchanged: jars from Maven Central, Spark from PyPI.

Central lacks parts of the connector for newer versions of Spark; this one is complete there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.interop.support.environments import made_once, python_with, run

if TYPE_CHECKING:
    from pathlib import Path

VERSION = "4.0.0"
PROJECT = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>tests</groupId><artifactId>spark-kafka</artifactId><version>1</version>
<packaging>pom</packaging>
<!-- Spark's own project names a mirror first that not everybody can reach. -->
<repositories><repository>
<id>gcs-maven-central-mirror</id><url>file:///nowhere</url>
<releases><enabled>false</enabled></releases><snapshots><enabled>false</enabled></snapshots>
</repository></repositories>
<dependencies><dependency>
<groupId>org.apache.spark</groupId><artifactId>spark-sql-kafka-0-10_2.13</artifactId>
<version>{}</version>
<exclusions>
<exclusion><groupId>org.apache.hadoop</groupId><artifactId>*</artifactId></exclusion>
<exclusion><groupId>org.scala-lang</groupId><artifactId>*</artifactId></exclusion>
<exclusion><groupId>org.slf4j</groupId><artifactId>*</artifactId></exclusion>
</exclusions>
</dependency></dependencies>
</project>
"""


def connector_python() -> str:
    """The interpreter of an environment with the Spark that it is for."""
    return str(python_with(f"pyspark=={VERSION}"))


def connector_jars() -> str:
    """The connector and what it needs beside Spark, as Spark wants them named."""

    def make(folder: Path) -> None:
        (folder / "pom.xml").write_text(PROJECT.format(VERSION))
        copied = f"-DoutputDirectory={folder / 'jars'}"
        run("mvn", "-q", "-B", "dependency:copy-dependencies", copied, cwd=folder)

    folder = made_once(f"spark-kafka-{VERSION}", PROJECT, make)
    return ",".join(str(path) for path in sorted((folder / "jars").glob("*.jar")))
