"""How many tasks read a topic, where Spark could run more."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.client.spark.support.topics import fill
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.mark.timeout(600)
@pytest.mark.requirement("OPS-06")
def test_four_partitions_keep_four_of_six_slots_busy(
    broker: str, new_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The parallelism of a reader is the number of partitions: all four tasks run at the same time,
    and the slots beyond have nothing to do."""
    topic = new_topic(4)
    fill(broker, topic, 10, 4)
    command = (sys.executable, "-m", "tests.client.spark.support.slots")

    ran = subprocess.run(
        [*command, broker, topic, str(tmp_path), "4"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=500,
    )

    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told == {"slots": 6, "running": [4, 4, 4, 4], "rows": 40}
