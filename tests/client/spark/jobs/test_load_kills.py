"""Loads whose drivers are killed. They take a minute each."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from tests.client.spark.support.sessions import prepare_environment
from tests.client.spark.support.topics import fill

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

RECORDS_PER_PARTITION = 20_000
PATIENCE_S = 600.0


def start(broker: str, topic: str, place: Path) -> subprocess.Popen[bytes]:
    """``ottla spark load``, in a group of processes that can be killed as one."""
    prepare_environment()
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "ottla.client.spark.jobs.load", "-b", broker),
            *("--topics", topic, "--to", str(place), "--master", "local[2]"),
        ],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    """The driver, its Java and its workers, at once."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


@pytest.mark.soak
@pytest.mark.timeout(1_800)
@pytest.mark.requirement("OPS-08", "CON-24")
def test_a_driver_killed_while_it_writes_leaves_no_row_twice(
    spark: SparkSession, broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The scheduler runs the load again every hour."""
    topic, place = new_topic(3), tmp_path / "lake"
    for part in range(3):
        fill(broker, topic, RECORDS_PER_PARTITION, 3, first=part * RECORDS_PER_PARTITION)
        process = start(broker, topic, place)
        deadline = time.monotonic() + PATIENCE_S
        while not (place / "_load").exists() and process.poll() is None:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        # A little later each time: before the first row, among the rows, at the end of them.
        time.sleep(0.3 * part)
        kill(process)
        process = start(broker, topic, place)
        process.communicate(timeout=PATIENCE_S)
        assert process.returncode == 0

    rows = spark.read.parquet(str(place))
    assert rows.count() == 9 * RECORDS_PER_PARTITION
    assert rows.select("partition", "offset").distinct().count() == 9 * RECORDS_PER_PARTITION
