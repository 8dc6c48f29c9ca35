"""The data source in a session of Spark."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# The first test of the session starts Spark.
pytestmark = pytest.mark.timeout(1_800)


def test_the_columns_are_those_of_sparks_connector(spark: SparkSession) -> None:
    """A program that changes the name of the source should not need other changes."""
    frame = spark.read.format("ottla").option("includeHeaders", "true").load()

    assert [(one.name, one.dataType.simpleString(), one.nullable) for one in frame.schema] == [
        ("key", "binary", True),
        ("value", "binary", True),
        ("topic", "string", True),
        ("partition", "int", True),
        ("offset", "bigint", True),
        ("timestamp", "timestamp", True),
        ("timestampType", "int", True),
        ("headers", "array<struct<key:string,value:binary>>", True),
    ]


@pytest.mark.parametrize("missing", ["pyspark", "pyarrow"])
def test_what_is_missing_is_said_in_one_sentence(missing: str) -> None:
    """With the command that brings it."""
    told = failure_of(f"import sys; sys.modules[{missing!r}] = None")

    assert told == (
        f"ImportError: this needs {missing}, which is not installed: install Ottla with the extra "
        "`spark` (in its source tree: pip install '.[spark]')"
    )


def test_an_older_pyspark_is_refused_in_one_sentence() -> None:
    """4.0 and 4.1 have Python sources too, but without what a stream needs."""
    told = failure_of("import pyspark; pyspark.__version__ = '4.1.2'")

    assert told.startswith("ImportError: PySpark 4.1.2 is too old for the data source ottla")
    assert "pip install 'pyspark>=4.2,<5'" in told


def failure_of(preparation: str) -> str:
    """The last line that a program gets which then imports the data source."""
    program = f"{preparation}\nfrom ottla.client.spark import OttlaDataSource"
    command = [sys.executable, "-c", program]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    return ended.stderr.strip().splitlines()[-1]
