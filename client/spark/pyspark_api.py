"""Imports what is used of PySpark; a missing or old installation is one sentence."""

from __future__ import annotations

from ottla.client.process.optional_imports import library

NEEDED = (4, 2)

_installed = library("pyspark", "spark")
if tuple(int(part) for part in _installed.__version__.split(".")[:2]) < NEEDED:
    raise ImportError(
        f"PySpark {_installed.__version__} is too old for the data source ottla, which needs 4.2 "
        "or later (before, a Python source cannot limit a micro-batch): "
        "pip install 'pyspark>=4.2,<5'"
    )
# Spark needs pyarrow in the workers, and reports its absence only with a traceback.
library("pyarrow", "spark")

from pyspark import TaskContext  # noqa: E402
from pyspark.sql.datasource import (  # noqa: E402
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    InputPartition,
    WriterCommitMessage,
)
from pyspark.sql.streaming.datasource import (  # noqa: E402
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType  # noqa: E402

__all__ = [
    "DataSource",
    "DataSourceArrowWriter",
    "DataSourceReader",
    "DataSourceStreamArrowWriter",
    "DataSourceStreamReader",
    "InputPartition",
    "ReadAllAvailable",
    "ReadLimit",
    "ReadMaxRows",
    "ReadMinRows",
    "StructType",
    "SupportsTriggerAvailableNow",
    "TaskContext",
    "WriterCommitMessage",
]
