"""Transactions of many clients while brokers are killed and frozen, judged by the checker."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

import pytest

from tests.checker.history import Call, Kind, Recorder
from tests.checker.verdict import judge
from tests.cluster.support.pipeline import OFFSETS_TOPIC, OPTIONS, STATE_TOPIC
from tests.cluster.support.pipeline_workers import (
    FIRST,
    PARTITIONS,
    SECOND,
    History,
    Pipeline,
    Reader,
    Worker,
    Writer,
)
from tests.cluster.support.real import SESSION_MS, RealCluster
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

MINUTES = float(os.environ.get("HISTORY_MINUTES", "60"))


class Told(NamedTuple):
    """How much there was to judge."""

    committed: int
    aborted: int
    unknown: int
    records_read: int
    strikes: int


def strike(cluster: RealCluster, chance: random.Random) -> None:
    """One broker is killed or frozen, most often one that leads what matters, and comes back."""
    topic = chance.choice((FIRST, SECOND, STATE_TOPIC, OFFSETS_TOPIC))
    # Its first user makes it.
    cluster.wait_for(f"there is {topic}", lambda: cluster.newest(topic))
    victim = chance.choice([part.leader for part in cluster.newest(topic).values()])
    # Within its session, which no other broker may notice, or long after it.
    away_s = chance.choice((0.0, 1.0, SESSION_MS / 1000 + 2))
    if chance.random() < 0.4:
        cluster.freeze(victim)
        time.sleep(away_s)
        cluster.thaw(victim)
    else:
        cluster.tell(f"kill broker {victim}, which leads in {topic}")
        cluster.brokers[victim].kill()
        time.sleep(away_s)
        cluster.brokers[victim].start()
    for one in (FIRST, SECOND, STATE_TOPIC, OFFSETS_TOPIC):
        cluster.wait_until_whole(one)


def record(folder: Path, seconds: float, seed: int) -> Told:
    """Run all workers and judge their history."""
    chance = random.Random(seed)
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(folder, zookeeper.address, options=OPTIONS) as cluster,
        (folder / "history.jsonl").open("w") as file,
    ):
        for topic in (FIRST, SECOND):
            cluster.create_topic(topic, PARTITIONS)
        recorder = Recorder(file)
        history = History(cluster.bootstrap, recorder)
        readers = [Reader(history, f"reader-{number}", seed) for number in range(2)]
        workers: list[Worker] = [
            *[Writer(history, f"writer-{number}", seed + number) for number in range(3)],
            *[Pipeline(history, f"pipe-{number}", seed, number) for number in range(PARTITIONS)],
        ]
        for worker in [*workers, *readers]:
            worker.start()
        strikes, until = 0, time.monotonic() + seconds
        try:
            while time.monotonic() < until:
                time.sleep(chance.uniform(1.0, 4.0))
                strike(cluster, chance)
                strikes += 1
        finally:
            cluster.thaw_all()
            finish(history, workers, readers)
        assert history.errors == []
        check(recorder, readers)
        return told(recorder, strikes)


def finish(history: History, workers: list[Worker], readers: list[Reader]) -> None:
    """Writers end before readers look for the end."""
    history.stopping.set()
    for worker in workers:
        worker.join(300)
    history.settled.set()
    for reader in readers:
        reader.join(180)
    late = [worker.name for worker in [*workers, *readers] if worker.is_alive()]
    assert late == []


def check(recorder: Recorder, readers: list[Reader]) -> None:
    """The checker's verdict; and nothing was carried over twice or left out."""
    verdict = judge(recorder.events)
    assert verdict.is_good, "\n".join(verdict.told())
    for reader in readers:
        twice = [key for key, count in Counter(reader.carried).items() if count > 1]
        assert twice == [], f"carried over twice: {twice[:10]}"
    committed = {
        f"{one.key}:{one.value}".encode()
        for event in recorder.events
        if event.kind is Kind.OK and event.call is Call.TXN
        for one in event.read
    }
    assert committed <= set(readers[0].carried)


def told(recorder: Recorder, strikes: int) -> Told:
    outcomes = Counter(event.kind for event in recorder.events if event.call is Call.TXN)
    return Told(
        outcomes[Kind.OK],
        outcomes[Kind.FAIL],
        outcomes[Kind.INFO],
        sum(len(event.read) for event in recorder.events if event.call is Call.POLL),
        strikes,
    )


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.requirement("TXN-29", "TXN-30", "TXN-31")
def test_a_short_history_under_kills_has_no_anomaly(tmp_path: Path) -> None:
    """The short form of the next test."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    found = record(tmp_path, 8.0, seed)

    print(found)
    assert found.committed > 20


@pytest.mark.soak
@pytest.mark.timeout(10_800)
def test_a_long_history_under_kills_has_no_anomaly(tmp_path: Path) -> None:
    """HISTORY_MINUTES says how long."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    found = record(tmp_path, MINUTES * 60, seed)

    print(found)
    assert found.committed > 1_000 * MINUTES / 60
