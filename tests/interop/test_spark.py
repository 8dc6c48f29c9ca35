"""Spark's own connector for Kafka, unchanged, against our brokers."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from ottla import Producer
from tests.interop.support.clients import needs
from tests.interop.support.environments import PROGRAMS
from tests.support.spark_connector import connector_jars, connector_python

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import Bootstrap

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(1_200)]

STEP_TIMEOUT_S = 300


class Stock:
    """Runs the program against one topic."""

    def __init__(self, broker: Bootstrap, topic: str, folder: Path) -> None:
        needs("java", "mvn")
        self._arguments = [connector_jars(), broker.address, topic, str(folder)]
        self._python = connector_python()

    def run(self, step: str) -> Any:
        """Run one step of the program, which does not use Ottla; return its output."""
        program = PROGRAMS / "spark" / "stock.py"
        environment = {"PYSPARK_PYTHON": self._python, "SPARK_LOCAL_IP": "127.0.0.1"}
        done = subprocess.run(
            [self._python, str(program), *self._arguments, step],
            cwd=program.parent,
            env={**os.environ, **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=STEP_TIMEOUT_S,
        )
        assert done.returncode == 0, done.stderr[-4_000:]
        return json.loads(done.stdout.splitlines()[-1])


async def write_in_transactions(address: str, topic: str, name: str) -> list[str]:
    """Some that are committed and some that are aborted; what a reader has to see of them."""
    expected = []
    async with Producer(
        address, transactional_id=f"{topic}-{name}", allow_auto_create=True
    ) as producer:
        await producer.init_transactions()
        for number in range(20):
            await producer.begin_transaction()
            values = [f"{name} {number} {row}" for row in range(30)]
            for value in values:
                await producer.send(topic, value.encode(), partition=number % 2)
            if number % 3 == 1:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
                expected += values
    return expected


async def test_the_stock_connector_writes_and_reads(
    broker: Bootstrap, topic: str, tmp_path: Path
) -> None:
    """Existing jobs with the stock connector keep working."""
    stock = Stock(broker, topic, tmp_path)
    written = stock.run("write")

    assert stock.run("read") == sorted([f"value {number}", 1] for number in range(written))


async def test_the_stock_connector_streams_committed_records_and_goes_on_from_its_checkpoint(
    broker: Bootstrap, topic: str, tmp_path: Path
) -> None:
    """Gaps of markers and aborted records are no loss of data for it (SPARK-23685, SPARK-24720)."""
    stock = Stock(broker, topic, tmp_path)
    expected = await write_in_transactions(broker.address, topic, "first")
    assert stock.run("stream") == sorted(expected)

    expected += await write_in_transactions(broker.address, topic, "second")
    assert stock.run("stream") == sorted(expected)
    assert stock.run("read") == sorted([value, 0] for value in expected)
