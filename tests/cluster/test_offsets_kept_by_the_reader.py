"""A reader that stores its offset with its results: exactly once without transactions."""

from __future__ import annotations

import random
import sqlite3
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from tests.support.broker_process import ROOT, BrokerProcess

if TYPE_CHECKING:
    from pathlib import Path

COUNT = 3_000

READER = """
import asyncio, sqlite3, sys
import ottla

async def main(address, path, count):
    store = sqlite3.connect(path)
    store.execute("PRAGMA synchronous=OFF")
    where = ottla.TopicPartition("numbers", 0)
    (offset,) = store.execute("SELECT offset FROM place").fetchone()
    async with ottla.Consumer(address) as consumer:
        consumer.assign([where])
        consumer.seek(where, offset)
        while offset < count:
            for record in await consumer.poll(max_records=50):
                with store:
                    store.execute("INSERT INTO results VALUES (?)", (int(bytes(record.value)),))
                    store.execute("UPDATE place SET offset = ?", (record.offset + 1,))
                offset = record.offset + 1

asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3])))
"""


def start_reader(address: str, path: Path) -> subprocess.Popen[bytes]:
    """One life of the reader."""
    command = [sys.executable, "-c", READER, address, str(path), str(COUNT)]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


@pytest.mark.requirement("ARC-13")
def test_a_killed_reader_resumes_without_loss_or_repetition(tmp_path: Path) -> None:
    """Results and offset change in one transaction of its database, so a kill undoes both."""
    path = tmp_path / "results.sqlite"
    with sqlite3.connect(path) as store:
        store.execute("CREATE TABLE results (number INTEGER)")
        store.execute("CREATE TABLE place (offset INTEGER)")
        store.execute("INSERT INTO place VALUES (0)")
    store.close()
    with BrokerProcess(tmp_path / "data") as broker:
        producer = Producer({"bootstrap.servers": broker.address})
        for number in range(COUNT):
            producer.produce("numbers", str(number), partition=0)
        assert producer.flush(60) == 0
        for _ in range(4):
            reader = start_reader(broker.address, path)
            time.sleep(0.6 + random.random())
            reader.kill()
            reader.wait()
        reader = start_reader(broker.address, path)
        assert reader.wait(90) == 0

    found = sqlite3.connect(path)
    numbers = [row[0] for row in found.execute("SELECT number FROM results ORDER BY rowid")]
    found.close()
    assert numbers == list(range(COUNT))
