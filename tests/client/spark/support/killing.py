"""Support for tests that kill: input with open ends, the program to kill, and its output."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pyarrow.parquet as pq

from ottla.client.administration.topic_requests import NewTopic
from ottla.client.spark.jobs.session import home_without_zip
from ottla.client.sync.admin import Admin
from ottla.client.sync.consumer import Consumer
from ottla.client.sync.producer import Producer
from ottla.protocol.ids import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Self

Values = dict[int, list[bytes | None]]

ROOT = Path(__file__).parents[4]
PARTITIONS = 6
TRANSACTION_ROWS = 500
ABORTED_SHARE = 0.2
STOP_WAIT_S = 300
SETTLE_S = 300
LOOK_S = 0.01
# How our files are named in tracebacks.
OUR_CODE = "(?<!tests/)client/spark/"


def fill(servers: str, topic: str, count: int, seed: int) -> None:
    """Transactions of two writers, some of them aborted: what is committed are ``count`` records,
    numbered in each partition."""
    chance = random.Random(seed)
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(topic, PARTITIONS)])
    with (
        Producer(servers, transactional_id=f"{topic}-a") as first,
        Producer(servers, transactional_id=f"{topic}-b") as second,
    ):
        writers = (first, second)
        for writer in writers:
            writer.init_transactions()
        written = 0
        while written < count:
            rows = min(TRANSACTION_ROWS, count - written)
            is_aborted = chance.random() < ABORTED_SHARE
            writer = chance.choice(writers)
            writer.begin_transaction()
            for partition in range(PARTITIONS):
                numbers = range(written + partition, written + rows, PARTITIONS)
                name = "aborted" if is_aborted else "record"
                values = [f"{name} {number}".encode() for number in numbers]
                if values:
                    writer.send_batch(topic, values, partition=partition)
            if is_aborted:
                writer.abort_transaction()
            else:
                writer.commit_transaction()
                written += rows


def expected(count: int) -> Values:
    """The committed values by partition, in order."""
    found: Values = {partition: [] for partition in range(PARTITIONS)}
    for start in range(0, count, TRANSACTION_ROWS):
        for partition in range(PARTITIONS):
            numbers = range(start + partition, min(count, start + TRANSACTION_ROWS), PARTITIONS)
            found[partition] += [f"record {number}".encode() for number in numbers]
    return found


def settle(servers: str, topic: str, partitions: Collection[int]) -> None:
    """Wait until no transaction is open in these: one that was promised to be committed may not
    have reached every partition yet."""
    with (
        Consumer(servers, isolation="read_committed") as strict,
        Consumer(servers, isolation="read_uncommitted") as loose,
    ):
        wanted = [TopicPartition(topic, number) for number in partitions]
        deadline_s = time.monotonic() + SETTLE_S
        while strict.end_offsets(wanted) != loose.end_offsets(wanted):
            assert time.monotonic() < deadline_s, "a transaction stays open"
            time.sleep(LOOK_S)


def in_topic(servers: str, topic: str) -> Values:
    """The committed values of a topic, by partition and in order."""
    found: Values = {}
    with Consumer(servers, isolation="read_committed") as consumer:
        partitions = consumer.partitions_of(topic)
        ends = consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            for batch in consumer.poll_batches(1_000):
                found.setdefault(batch.partition, []).extend(batch.values())
    return found


def in_files(folder: Path) -> Values:
    """The values of the Parquet files that Spark has committed, by partition, as the source has
    ordered them."""
    names = set()
    for log in (folder / "_spark_metadata").iterdir():
        if not log.name.startswith("."):
            names |= {json.loads(line)["path"] for line in log.read_text().splitlines()[1:]}
    names_of = ("partition", "offset", "value")
    rows: list[tuple[int, int, bytes]] = []
    for name in names:
        table = pq.read_table(name.removeprefix("file://"))
        rows += zip(*(table.column(one).to_pylist() for one in names_of), strict=True)
    found: Values = {}
    for partition, _, value in sorted(rows):
        found.setdefault(partition, []).append(value)
    return found


class Job(NamedTuple):
    """The arguments of the program."""

    master: str
    servers: str
    source: str
    target: str
    folder: Path
    limit: int


class Driver:
    """One run of the program; killed, if it has not ended, at the end of the block."""

    def __init__(self, job: Job) -> None:
        command = [sys.executable, "-m", "tests.client.spark.support.copying", *map(str, job)]
        home = job.folder / "spark"
        if not home.exists():
            home.mkdir()
            home_without_zip(home)
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "SPARK_HOME": str(home)}
        self._process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            start_new_session=True,
        )
        self.told: list[str] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def lines(self) -> Iterator[str]:
        """Its lines of output, until it ends."""
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.told.append(line.strip())
            yield line.strip()

    def batches(self, count: int) -> bool:
        """Wait for so many micro-batches; return whether it completed them."""
        for line in self.lines():
            count -= line.startswith("batch")
            if count <= 0:
                return True
        self.check_excuse()
        return False

    def check_excuse(self) -> None:
        """Check that a job which failed by itself did so in Spark's code, on an overloaded machine:
        no frame of ours is in its output."""
        told = "\n".join(self.told)
        if self._process.wait(STOP_WAIT_S) < 0:
            # By a signal that no test has sent: the machine was out of memory.
            return
        assert "failed" in told, f"it ended without a word of why: {told}"
        assert not re.search(OUR_CODE, told), told

    def end(self) -> int:
        """Wait until it ends by itself; its exit code."""
        for _ in self.lines():
            pass
        return self._process.wait(STOP_WAIT_S)

    def kill(self) -> bool:
        """Kill Python and the JVM with SIGKILL, but not the workers, which notice by themselves.

        False if it had ended before.
        """
        is_running = self._process.poll() is None
        if is_running:
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(STOP_WAIT_S)
        return is_running

    def some_of(self, words: str) -> list[int]:
        """Its processes whose command line has these words; there may be none for a moment.

        Not all are its descendants: the children of a killed process live on without a parent.
        """
        found: list[int] = []
        while not found:
            assert self._process.poll() is None, "\n".join(self.told)
            found = _of_session(self._process.pid, words)
            time.sleep(LOOK_S)
        return found


def _of_session(session_id: int, words: str) -> list[int]:
    command = ["ps", "-ww", "-eo", "pid=,sid=,args="]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    rows = [line.split(None, 2) for line in output.splitlines()]
    return [int(row[0]) for row in rows if int(row[1]) == session_id and words in row[-1]]


def pause(chance: random.Random, longest_s: float) -> None:
    """Wait for a random moment within a micro-batch."""
    time.sleep(chance.uniform(0, longest_s))
