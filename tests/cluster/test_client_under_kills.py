"""Ottla's own producer and consumers while brokers are killed, frozen and stopped, judged by the
checker: no record lost or duplicated, no client stuck, nothing left over."""

from __future__ import annotations

import operator
import os
import random
import statistics
import sys
import time
from collections import Counter
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from tests.checker.history import Call, Kind, read_lines
from tests.checker.verdict import judge
from tests.cluster.support.client_program import GROUPS
from tests.cluster.support.client_program import SESSION_MS as MEMBER_SESSION_MS
from tests.cluster.support.pipeline import OFFSETS_TOPIC, OPTIONS
from tests.cluster.support.real import SESSION_MS, RealCluster
from tests.interop.support.members import Member
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from pathlib import Path

    from tests.checker.history import Event

MINUTES = float(os.environ.get("KILL_MINUTES", "30"))
TOPIC = "under-kills"
PARTITIONS = 4
# A member that leaves while its coordinator dies is waited for that long.
SESSIONS = {
    "group.consumer.min.session.timeout.ms": "5000",
    "group.consumer.session.timeout.ms": str(MEMBER_SESSION_MS),
}
STUCK_S = 120.0
READERS = ("alone", *GROUPS)
MIB = 1024 * 1024
# Between the second and the last fifth of a run; what is in flight varies by less.
GROWN_BYTES_MAX = 4 * MIB
RESIDENT_BYTES_MAX = 48 * MIB
TASKS_MAX = 80
LEAVING_S_MAX = 60.0


class Told(NamedTuple):
    """Result of a run, for the report."""

    acknowledged: int
    read: dict[str, int]
    read_again: dict[str, int]
    strikes: dict[str, int]
    lives: int
    lost_partitions: int
    longest_leaving_s: float
    slowest_catching_up_s: float
    tasks: tuple[int, int, int]
    traced_mib: tuple[float, float]
    resident_mib: tuple[float, float]


class Watch:
    """The state of the program, read from its output."""

    def __init__(self, program: Member) -> None:
        self.program = program
        self.slowest_s = 0.0

    def of(self, event: str) -> list[dict[str, Any]]:
        return [one for one in list(self.program.events) if one["event"] == event]

    def wait_for_progress(self) -> str:
        """Until what was acknowledged after now, for every partition, has been read by all; says
        how long each took."""
        begun = time.monotonic()
        known = self._latest()["acked"]
        wanted: list[int] | None = None
        took: dict[str, float] = {}
        while len(took) <= len(READERS):
            assert self.program.is_running(), self.program.said()
            ends, now = self._latest(), time.monotonic() - begun
            if wanted is None and all(map(operator.gt, ends["acked"], known)):
                wanted = ends["acked"]
                took["acked"] = now
            if wanted is not None:
                for who in READERS:
                    if all(map(operator.ge, ends[who], wanted)):
                        took.setdefault(who, now)
            assert now < STUCK_S, f"stuck at {known}: {took} {wanted} {ends}"
            time.sleep(0.2)
        self.slowest_s = max(self.slowest_s, *took.values())
        return ", ".join(f"{who} after {seconds:.1f} s" for who, seconds in took.items())

    def _latest(self) -> dict[str, list[int]]:
        beats = self.of("beat")
        found = beats[-1]["ends"] if beats else {}
        return {who: found.get(who, [0] * PARTITIONS) for who in ("acked", *READERS)}


def strike(cluster: RealCluster, chance: random.Random) -> str:
    """One broker goes away, most often one that leads what matters, and comes back."""
    topic = chance.choice((TOPIC, TOPIC, OFFSETS_TOPIC))
    # Its first user makes it.
    cluster.wait_for(f"there is {topic}", lambda: cluster.newest(topic))
    victim = chance.choice([part.leader for part in cluster.newest(topic).values()])
    # Within its session, which no other broker may notice, or long after it.
    away_s = chance.choice((0.0, 1.0, 3.0, SESSION_MS / 1000 + 3))
    what = chance.choice(("kill", "kill", "freeze", "freeze", "stop"))
    if what == "freeze":
        cluster.freeze(victim)
        time.sleep(away_s)
        cluster.thaw(victim)
    else:
        cluster.tell(f"{what} broker {victim}, which leads in {topic}, for {away_s} s")
        broker = cluster.brokers[victim]
        broker.kill() if what == "kill" else broker.stop()
        time.sleep(away_s)
        broker.start()
    for one in (TOPIC, OFFSETS_TOPIC):
        cluster.wait_until_whole(one)
    return what


def run(folder: Path, seconds: float, seed: int) -> Told:
    """Let the program work, and judge what it saw."""
    chance = random.Random(seed)
    history = folder / "history.jsonl"
    orders = {"history": str(history), "topic": TOPIC, "partitions": PARTITIONS, "seed": seed}
    strikes: Counter[str] = Counter()
    with (
        ZooKeeperServer() as zookeeper,
        RealCluster(folder, zookeeper.address, options={**OPTIONS, **SESSIONS}) as cluster,
    ):
        cluster.create_topic(TOPIC, PARTITIONS)
        command = [sys.executable, "-m", "tests.cluster.support.client_program", cluster.bootstrap]
        with Member("clients", command, orders, folder) as program:
            watch = Watch(program)
            watch.wait_for_progress()
            until = time.monotonic() + seconds
            try:
                while time.monotonic() < until:
                    time.sleep(chance.uniform(0.5, 4.0))
                    strikes[strike(cluster, chance)] += 1
                    cluster.tell(watch.wait_for_progress())
            finally:
                cluster.thaw_all()
                print(program.said()[-1500:])
            program.leave(300)
    check_holdings(watch)
    return told(watch, history, strikes)


def check_holdings(watch: Watch) -> None:
    """The process has at the end what it had at the beginning, and no more from fifth to fifth."""
    (begun,), (ended,), beats = watch.of("begun"), watch.of("ended"), watch.of("beat")
    assert watch.of("settled")[0]["waiting"] == []
    for what in ("tasks", "descriptors", "threads"):
        assert ended[what] <= begun[what], f"{what}: {begun[what]} before, {ended[what]} after"
    assert max(one["tasks"] for one in beats) <= TASKS_MAX
    assert growth(beats, "traced_bytes") < GROWN_BYTES_MAX
    assert growth(beats, "resident_bytes") < RESIDENT_BYTES_MAX
    assert max(one["seconds"] for one in watch.of("left")) < LEAVING_S_MAX


def growth(beats: list[dict[str, Any]], what: str) -> float:
    first, last = fifths(beats, what)
    return last - first


def fifths(beats: list[dict[str, Any]], what: str) -> tuple[float, float]:
    """The median of the second fifth, when everything has been used once, and of the last."""
    part = max(len(beats) // 5, 1)
    return (
        statistics.median(one[what] for one in beats[part : 2 * part] or beats),
        statistics.median(one[what] for one in beats[-part:]),
    )


def in_mib(both: tuple[float, float]) -> tuple[float, float]:
    return round(both[0] / MIB, 2), round(both[1] / MIB, 2)


def told(watch: Watch, history: Path, strikes: Counter[str]) -> Told:
    """Judge the history; each group by itself must have read everything."""
    with history.open() as file:
        events = list(read_lines(file))
    verdict = judge(events)
    assert verdict.is_good, "\n".join(verdict.told())
    acknowledged = {
        one.value
        for event in events
        if event.call is Call.SEND and event.kind is Kind.OK
        for one in event.sent
    }
    assert not any(event.kind is Kind.INFO for event in events)
    read = {who: values_of(events, who) for who in READERS}
    for who, values in read.items():
        missing = sorted(acknowledged - values.keys())
        assert missing == [], f"{who} has not read {len(missing)} values: {missing[:10]}"
    beats = watch.of("beat")
    return Told(
        len(acknowledged),
        {who: sum(values.values()) for who, values in read.items()},
        {who: sum(values.values()) - len(values) for who, values in read.items()},
        dict(strikes),
        len(watch.of("left")),
        sum(one["count"] for one in watch.of("lost")),
        max(one["seconds"] for one in watch.of("left")),
        round(watch.slowest_s, 1),
        (
            watch.of("begun")[0]["tasks"],
            max(one["tasks"] for one in beats),
            watch.of("ended")[0]["tasks"],
        ),
        in_mib(fifths(beats, "traced_bytes")),
        in_mib(fifths(beats, "resident_bytes")),
    )


def values_of(events: list[Event], who: str) -> Counter[int]:
    """How often each value was handed to a reader of that kind."""
    return Counter(
        one.value
        for event in events
        if event.call is Call.POLL and event.process.startswith(who)
        for one in event.read
    )


@pytest.mark.soak
@pytest.mark.timeout(7_200)
def test_clients_lose_repeat_and_leak_nothing_while_brokers_die(tmp_path: Path) -> None:
    """A client is trusted for what it does while brokers fail. KILL_MINUTES says how long."""
    seed = random.randrange(10**6)
    print(f"seed {seed}")

    found = run(tmp_path, MINUTES * 60, seed)

    print(found)
    assert found.acknowledged > 1_000 * MINUTES
    assert found.read_again["alone"] == 0
