"""Consume-transform-produce under kills: a foreign client in a process of its own, and its judge.

As in production, the program is restarted whenever it has ended. The input is numbered records;
read_committed readers must find exactly these in the output, in their order.
"""

from __future__ import annotations

import random
import signal
import time
import uuid
from collections import Counter
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from ottla.coordinator.hashing import partition_for
from tests.cluster.support.load import QUIET
from tests.interop.support.members import Member

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path
    from types import TracebackType

    from tests.cluster.support.real import RealCluster

SOURCES, TARGETS = 2, 3
# Few partitions, so that those in use move with each kill.
OPTIONS = {
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
    "group.min.session.timeout.ms": "1000",
    "group.initial.rebalance.delay.ms": "0",
}
STATE_TOPIC, OFFSETS_TOPIC = "__transaction_state", "__consumer_offsets"
STUCK_S = 120.0
FENCED_S = 120.0


class Plan(NamedTuple):
    """How much goes through, and how often a process is killed meanwhile."""

    records: int = 100_000
    batch: int = 750
    strikes: tuple[str, ...] = ()
    session_ms: int = 4_000
    transaction_timeout_ms: int = 20_000


class Outcome(NamedTuple):
    """Result of a run, for the report."""

    seconds: float
    transactions: int
    aborts: int
    starts: int
    aborted_records: int
    strikes: list[str]


class Pipeline:
    """One run; use as a context manager, which kills what is left of the program."""

    def __init__(
        self, cluster: RealCluster, command: Sequence[str | Path], plan: Plan, folder: Path
    ) -> None:
        self._cluster, self._command, self._plan, self._folder = cluster, command, plan, folder
        name = uuid.uuid4().hex[:8]
        self.source, self.target = f"source-{name}", f"target-{name}"
        self.group, self.transactional_id = f"group-{name}", f"pipeline-{name}"
        self._stack = ExitStack()
        self._lives: list[Member] = []
        self._down: tuple[float, int] | None = None
        self._struck: list[str] = []
        self._filled = 0
        self._watcher = Consumer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "group.id": self.group,
                "enable.auto.commit": False,
            },
            logger=QUIET,
        )

    def __enter__(self) -> Self:
        self._cluster.create_topic(self.source, SOURCES)
        self._cluster.create_topic(self.target, TARGETS)
        self._fill_next()
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._watcher.close()
        for node_id, broker in self._cluster.brokers.items():
            if not broker.is_running:
                self._cluster.tell(f"start broker {node_id}")
                broker.start()
        for life in self._lives:
            if error is not None:
                print(f"--- {life.name}: {life.events[-3:]}\n{life.said()}")
        self._stack.close()

    def run(self, seed: int) -> Outcome:
        """Until all is carried over; strikes come at random times of it."""
        chance, begun = random.Random(seed), time.monotonic()
        total = self._plan.records
        waiting = list(self._plan.strikes)
        due = chance.randrange(1, self._filled)
        known, moved_at = 0, begun
        while (done := self._progress()) < total:
            if done != known:
                known, moved_at = done, time.monotonic()
            assert time.monotonic() - moved_at < STUCK_S, f"stuck at {done}: {self._struck}"
            self._look_after(chance)
            if waiting and done >= due and self._down is None:
                # What there is to do when the brokers are less.
                begin = self._filled
                self._fill_next()
                due = chance.randrange(begin, self._filled)
                self._strike(waiting.pop(0), chance)
            time.sleep(0.1)
        self._lives[-1].leave(60)
        return self._outcome(begun)

    def _fill_next(self) -> None:
        """One part before each strike, and one for the time after the last."""
        count = -(-self._plan.records // (len(self._plan.strikes) + 1))
        end = min(self._filled + count, self._plan.records)
        fill(self._cluster.bootstrap, self.source, self._filled, end)
        self._filled = end

    def _start(self) -> Member:
        orders = {
            "group": self.group,
            "source": self.source,
            "target": self.target,
            "target_partitions": TARGETS,
            "transactional_id": self.transactional_id,
            "batch": self._plan.batch,
            "session_ms": self._plan.session_ms,
            "transaction_timeout_ms": self._plan.transaction_timeout_ms,
        }
        name = f"{self.transactional_id}-{len(self._lives)}"
        command = [*self._command, self._cluster.bootstrap]
        self._lives.append(self._stack.enter_context(Member(name, command, orders, self._folder)))
        return self._lives[-1]

    def _look_after(self, chance: random.Random) -> None:
        """Bring back who is away: the program at once, a broker in its time."""
        if not self._lives[-1].is_running():
            last = self._lives[-1]
            self._cluster.tell(f"{last.name} has ended: {last.events[-1:]} {last.said()[-300:]}")
            self._start()
        if self._down is not None and time.monotonic() > self._down[0]:
            self._cluster.tell(f"start broker {self._down[1]}")
            self._cluster.brokers[self._down[1]].start()
            self._down = None
            for topic in (self.source, self.target, STATE_TOPIC, OFFSETS_TOPIC):
                self._cluster.wait_until_whole(topic)

    def _strike(self, what: str, chance: random.Random) -> None:
        self._struck.append(what)
        # What it has committed is seen between two transactions.
        time.sleep(chance.random() * 0.4)
        if what == "client":
            self._cluster.tell("kill the client")
            self._lives[-1].kill()
        elif what == "double":
            self._double()
        else:
            victim = {
                "broker": lambda: chance.choice(list(self._cluster.brokers)),
                "coordinator": lambda: self._leader_of(STATE_TOPIC, self.transactional_id),
                "group-coordinator": lambda: self._leader_of(OFFSETS_TOPIC, self.group),
            }[what]()
            self._cluster.tell(f"kill {what} {victim}")
            self._cluster.brokers[victim].kill()
            # Back within its session, which no other broker may notice, or long after it.
            self._down = time.monotonic() + chance.choice((0.0, 1.0, 8.0)), victim

    def _double(self) -> None:
        """A second instance while the first is stopped, which then wakes up and must go."""
        first = self._lives[-1]
        # One that has not asked for its producer id yet would come second.
        self._wait_for_commit(first)
        self._cluster.tell("stop the client, start another, and wake the first")
        first.signal(signal.SIGSTOP)
        second = self._start()
        self._wait_for_commit(second)
        first.signal(signal.SIGCONT)
        deadline = time.monotonic() + FENCED_S
        while first.is_running() and self._progress() < self._filled:
            assert time.monotonic() < deadline, f"not fenced: {first.events[-3:]}"
            time.sleep(0.1)
        first.kill()

    def _wait_for_commit(self, life: Member) -> None:
        """Until it has done something, has ended, or nothing is left to do."""
        deadline = time.monotonic() + STUCK_S
        while not any(event["event"] == "committed" for event in life.events):
            assert time.monotonic() < deadline, f"{life.name} does nothing"
            if not life.is_running() or self._progress() >= self._filled:
                return
            time.sleep(0.1)

    def _leader_of(self, topic: str, name: str) -> int:
        parts = self._cluster.newest(topic)
        return parts[partition_for(name, len(parts))].leader

    def _progress(self) -> int:
        """How many records the group has committed."""
        wanted = [TopicPartition(self.source, number) for number in range(SOURCES)]
        with suppress(KafkaException):
            return sum(max(one.offset, 0) for one in self._watcher.committed(wanted, timeout=60))
        return 0

    def _outcome(self, begun: float) -> Outcome:
        seconds = time.monotonic() - begun
        events = Counter(event["event"] for life in self._lives for event in life.events)
        visible = check(self._cluster.bootstrap, self.target, self._plan.records)
        everything = sum(map(len, read(self._cluster.bootstrap, self.target, "read_uncommitted")))
        return Outcome(
            round(seconds, 1),
            events["committed"],
            events["aborting"],
            len(self._lives),
            everything - visible,
            self._struck,
        )


def fill(address: str, topic: str, begin: int, end: int) -> None:
    """Values are ``partition:number``."""
    producer = Producer(
        {"bootstrap.servers": address, "enable.idempotence": True, "linger.ms": 20}, logger=QUIET
    )
    for number in range(begin, end):
        partition, place = number % SOURCES, number // SOURCES
        producer.produce(topic, b"%d:%d" % (partition, place), partition=partition)
        if number % 10_000 == 0:
            producer.flush(30)
    assert producer.flush(60) == 0


def read(address: str, topic: str, isolation: str) -> list[list[bytes]]:
    """All values of each partition up to where such a reader comes."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "judge",
            "enable.auto.commit": False,
            "isolation.level": isolation,
            "enable.partition.eof": True,
        },
        logger=QUIET,
    )
    found: list[list[bytes]] = [[] for _ in range(TARGETS)]
    open_ends = set(range(TARGETS))
    try:
        consumer.assign([TopicPartition(topic, number, 0) for number in open_ends])
        deadline = time.monotonic() + STUCK_S
        while open_ends:
            assert time.monotonic() < deadline, f"{open_ends} do not end"
            for message in consumer.consume(10_000, 0.5):
                error: Any = message.error()
                if error is None:
                    found[message.partition()].append(message.value())
                elif error.code() == KafkaError._PARTITION_EOF:
                    _low, high = consumer.get_watermark_offsets(
                        TopicPartition(topic, message.partition()), timeout=10
                    )
                    # Below the high watermark there may be nothing left undecided.
                    if message.offset() == high:
                        open_ends.discard(message.partition())
    finally:
        consumer.close()
    return found


def check(address: str, target: str, count: int) -> int:
    """Compare what a read_committed reader sees with what went in; how many records that is."""
    found = read(address, target, "read_committed")
    wrong = []
    for number, values in enumerate(found):
        for source in range(SOURCES):
            mine = [int(v.partition(b":")[2]) for v in values if v.startswith(b"%d:" % source)]
            places = len(range(source, count, SOURCES))
            wanted = list(range(number, places, TARGETS))
            if mine != wanted:
                wrong.append(f"from {source} to {number}: {difference(mine, wanted)}")
    assert not wrong, wrong
    total = sum(map(len, found))
    assert total == count
    return total


def difference(found: list[int], wanted: list[int]) -> str:
    """In a sentence, what is wrong."""
    lost = sorted(set(wanted) - set(found))
    twice = sorted(one for one, times in Counter(found).items() if times > 1)
    return f"{len(lost)} lost {lost[:5]}, {len(twice)} twice {twice[:5]}, of {len(wanted)}"
