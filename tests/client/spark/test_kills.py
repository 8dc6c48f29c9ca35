"""Exactly once under kills: the copies of a topic have every record, once and in order."""

from __future__ import annotations

import os
import random
import signal
from typing import TYPE_CHECKING, NamedTuple

import pytest

from ottla import Cluster
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.sync.admin import Admin
from tests.client.spark.support.killing import (
    PARTITIONS,
    Driver,
    Job,
    expected,
    fill,
    in_files,
    in_topic,
    pause,
    settle,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

LOCAL = "local[2,20]"
SEED = 20_261_121
# About as long as a micro-batch takes.
LONGEST_S = 0.8
# So many runs may fail for Spark's own reasons.
RUNS_MAX = 4


class Copies(NamedTuple):
    """The records of both copies, by partition."""

    topic: object
    files: object


def job_of(servers: str, folder: Path, name: str, *, limit: int, master: str = LOCAL) -> Job:
    """The topics of one test."""
    with Admin(servers) as admin:
        admin.create_topics([NewTopic(f"{name}-out", PARTITIONS)])
    return Job(master, servers, f"{name}-in", f"{name}-out", folder, limit)


def copies_of(job: Job) -> Copies:
    """The copies at the end."""
    settle(job.servers, job.target, range(PARTITIONS))
    return Copies(in_topic(job.servers, job.target), in_files(job.folder / "parquet"))


def exact(count: int) -> Copies:
    """The expected copies."""
    return Copies(expected(count), expected(count))


def run_to_the_end(job: Job) -> None:
    """Run the job until it ends by itself, without kills."""
    for _ in range(RUNS_MAX):
        with Driver(job) as driver:
            if driver.end() == 0:
                return
            driver.check_excuse()
    pytest.fail(f"none of {RUNS_MAX} runs came to the end: {driver.told}")


def killed_drivers(job: Job, count: int, kills: int, batches_max: int) -> Copies:
    """Kill so many runs at random moments, and let one run to the end."""
    chance = random.Random(SEED)
    fill(job.servers, job.source, count, SEED)
    killed = 0
    for _ in range(kills + RUNS_MAX):
        with Driver(job) as driver:
            if driver.batches(chance.randint(1, batches_max)):
                pause(chance, LONGEST_S)
                killed += driver.kill()
        if killed == kills:
            break
    assert killed == kills, driver.told
    run_to_the_end(job)
    return copies_of(job)


@pytest.mark.slow
@pytest.mark.timeout(1_800)
def test_a_killed_driver_loses_and_repeats_nothing(broker: str, tmp_path: Path) -> None:
    """The promise of the sink, in the form that a person tries first."""
    job = job_of(broker, tmp_path, "killed", limit=400)
    assert killed_drivers(job, 2_000, kills=1, batches_max=2) == exact(2_000)


@pytest.mark.soak
@pytest.mark.timeout(3_600)
def test_twenty_killed_drivers_lose_and_repeat_nothing(broker: str, tmp_path: Path) -> None:
    """The same with more records and kills."""
    job = job_of(broker, tmp_path, "soaked", limit=2_000)
    assert killed_drivers(job, 200_000, kills=20, batches_max=4) == exact(200_000)


def killed_while_running(
    job: Job, count: int, kills: int, kill: Callable[[Driver, random.Random], None]
) -> Copies:
    """Run once, while processes around the run are killed."""
    chance = random.Random(SEED)
    fill(job.servers, job.source, count, SEED)
    with Driver(job) as driver:
        for _ in range(kills):
            assert driver.batches(2)
            pause(chance, LONGEST_S)
            kill(driver, chance)
        assert driver.end() == 0, driver.told[-3:]
    return copies_of(job)


def kill_one(words: str) -> Callable[[Driver, random.Random], None]:
    """Kill one process of the program whose command line has these words."""

    def kill(driver: Driver, chance: random.Random) -> None:
        os.kill(chance.choice(driver.some_of(words)), signal.SIGKILL)

    return kill


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_killed_python_workers_are_replaced(broker: str, tmp_path: Path) -> None:
    """Their tasks are tried again, and fence what they have begun."""
    job = job_of(broker, tmp_path, "workers", limit=1_000)
    kill = kill_one("pyspark.daemon pyspark.worker")
    assert killed_while_running(job, 40_000, kills=10, kill=kill) == exact(40_000)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_killed_executors_are_replaced(broker: str, tmp_path: Path) -> None:
    """Executors that are processes of their own, as on a cluster."""
    job = job_of(broker, tmp_path, "executors", limit=1_000, master="local-cluster[2,1,1024]")
    kill = kill_one("CoarseGrainedExecutorBackend")
    assert killed_while_running(job, 30_000, kills=4, kill=kill) == exact(30_000)


@pytest.mark.soak
@pytest.mark.timeout(1_800)
def test_a_query_survives_killed_brokers(tmp_path: Path) -> None:
    """Leaders and coordinators move and other brokers end transactions; the query continues."""
    with Cluster(brokers=3, subprocess=True) as cluster:
        job = job_of(cluster.bootstrap_servers, tmp_path, "brokers", limit=1_000)

        def kill(_: Driver, chance: random.Random) -> None:
            broker_id = chance.randint(1, 3)
            cluster.faults.kill(broker_id)
            cluster.faults.restart(broker_id)

        assert killed_while_running(job, 40_000, kills=6, kill=kill) == exact(40_000)
