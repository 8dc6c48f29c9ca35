"""Ottla's own clients at work, in a process of their own: a producer, two groups, and one reader.

    python -m tests.cluster.support.client_program ADDRESSES ORDERS

What they do and see goes to a history line by line. Once a second a line of JSON on standard output
says how far each worker is and what the process holds. When standard input ends, writers stop,
readers read to the end, and all is closed.
"""

from __future__ import annotations

import asyncio
import gc
import itertools
import json
import os
import random
import sys
import threading
import time
import tracemalloc
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ottla import Consumer, ConsumerConfig, Producer, ProducerConfig, RebalanceListener
from ottla.protocol.ids import TopicPartition
from tests.checker.history import Call, Event, Kind, Read, Sent, as_line

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import TextIO

    from ottla import ConsumerRecord

WRITERS = 4
RECORDS_MAX = 12
PAUSE_S = 0.2
GROUPS: dict[str, dict[str, Any]] = {
    "classic": {"group_protocol": "classic", "assignors": ("cooperative-sticky",)},
    "newer": {"group_protocol": "consumer"},
}
MEMBERS = 2
# A member stays for about that long, and another comes in its place.
LIFE_S = (15.0, 90.0)
SESSION_MS = 8_000
DELIVERY_MS = 600_000
SETTLE_S = 120.0
PADDING = b"." * 700


class Orders(NamedTuple):
    """The parameters of the program."""

    history: str
    topic: str
    partitions: int
    seed: int


class Site:
    """What all workers share: the history, fresh values, and the progress of each worker."""

    def __init__(self, address: str, orders: Orders, file: TextIO) -> None:
        self.address, self.topic = address, orders.topic
        self.partitions = orders.partitions
        self.chance = random.Random(orders.seed)
        self.values = itertools.count(1)
        self.stopping = asyncio.Event()
        self.settled = asyncio.Event()
        # The offsets after what is acknowledged, and after what each kind of reader has seen.
        self.ends: dict[str, dict[int, int]] = defaultdict(
            lambda: dict.fromkeys(range(orders.partitions), 0)
        )
        self._file = file
        self._indexes = itertools.count()

    def key(self, partition: int) -> str:
        return f"{self.topic}-{partition}"

    def note(self, process: str, kind: Kind, call: Call, **more: Any) -> None:
        event = Event(next(self._indexes), time.monotonic_ns(), process, kind, call, **more)
        self._file.write(as_line(event) + "\n")

    def reached(self, who: str, partition: int, end: int) -> None:
        self.ends[who][partition] = max(self.ends[who][partition], end)

    def is_read_by(self, who: str) -> bool:
        """Whether such a reader has come to the end of what was acknowledged."""
        return all(end <= self.ends[who][number] for number, end in self.ends["acked"].items())

    async def rest(self, seconds: float, until: asyncio.Event) -> None:
        """Wait that long, or until it happens."""
        try:
            async with asyncio.timeout(seconds):
                await until.wait()
        except TimeoutError:
            pass


def tell(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


async def write(site: Site, producer: Producer, name: str, *, together: bool) -> None:
    """One operation after the other: some records to one partition, and their fates."""
    while not site.stopping.is_set():
        number = site.chance.randrange(site.partitions)
        key = site.key(number)
        count = site.chance.randint(1, RECORDS_MAX)
        plan = [Sent(key, next(site.values)) for _ in range(count)]
        values = [b"%d %s" % (one.value, PADDING[site.chance.randrange(700) :]) for one in plan]
        site.note(name, Kind.INVOKE, Call.SEND, sent=tuple(plan))
        kind, offsets = Kind.INFO, [-1] * count
        try:
            if together:
                offsets = await send_together(site, producer, number, values)
            else:
                waiting = [
                    await producer.send(site.topic, value, partition=number) for value in values
                ]
                offsets = [(await one).offset for one in waiting]
            kind = Kind.OK
            site.reached("acked", number, offsets[-1] + 1)
        finally:
            # An answer so late that the broker had forgotten the first one has no offset.
            sent = [
                one._replace(offset=None if offset < 0 else offset)
                for one, offset in zip(plan, offsets, strict=True)
            ]
            site.note(name, kind, Call.SEND, sent=tuple(sent))
        await site.rest(site.chance.uniform(0, PAUSE_S), site.stopping)


async def send_together(
    site: Site, producer: Producer, number: int, values: list[bytes]
) -> list[int]:
    """Each record's offset."""
    sent = await producer.send_batch(site.topic, values, partition=number)
    return [
        part.base_offset + index if part.base_offset >= 0 else -1
        for part in await sent
        for index in range(part.record_count)
    ]


class Life(RebalanceListener):
    """One member of a group, from its first poll until it leaves."""

    def __init__(self, site: Site, group: str, name: str) -> None:
        self._site, self._group, self._name = site, group, name
        self._held: set[int] = set()

    def on_assigned(self, partitions: Sequence[TopicPartition]) -> None:
        # What is new begins where the group has committed.
        self._keep(self._held)
        self._held |= {where.partition for where in partitions}

    def on_revoked(self, partitions: Sequence[TopicPartition]) -> None:
        self._held -= {where.partition for where in partitions}
        self._keep(self._held)

    def on_lost(self, partitions: Sequence[TopicPartition]) -> None:
        tell("lost", name=self._name, count=len(partitions))
        self.on_revoked(partitions)

    def _keep(self, partitions: Iterable[int]) -> None:
        keys = tuple(self._site.key(number) for number in sorted(partitions))
        self._site.note(self._name, Kind.OK, Call.SUBSCRIBE, keys=keys)

    async def live(self, seconds: float, *, by_batches: bool) -> None:
        """Read for about that long, or to the end of everything."""
        site = self._site
        ends_at = time.monotonic() + seconds
        config = ConsumerConfig(
            group_id=f"{site.topic}-{self._group}",
            offset_reset="earliest",
            session_timeout_ms=SESSION_MS,
            heartbeat_interval_ms=1_000,
            auto_commit_interval_ms=1_000,
            **GROUPS[self._group],
        )
        consumer = Consumer(site.address, config)
        await consumer.start()
        try:
            await consumer.subscribe([site.topic], self)
            while not site.settled.is_set() and (
                time.monotonic() < ends_at or site.stopping.is_set()
            ):
                await read(site, consumer, self._name, self._group, by_batches=by_batches)
        finally:
            begun = time.monotonic()
            await consumer.close()
            tell("left", name=self._name, seconds=round(time.monotonic() - begun, 3))


async def read(site: Site, consumer: Consumer, name: str, who: str, *, by_batches: bool) -> None:
    """Poll once, and write down what came."""
    records: list[ConsumerRecord] = []
    if by_batches:
        for batch in await consumer.poll_batches(500):
            records += batch.records()
    else:
        records = await consumer.poll(500)
    if not records:
        return
    site.note(
        name,
        Kind.OK,
        Call.POLL,
        read=tuple(
            Read(site.key(one.partition), one.offset, int((one.value or b"").partition(b" ")[0]))
            for one in records
        ),
    )
    for one in records:
        site.reached(who, one.partition, one.offset + 1)


async def take_part(site: Site, group: str, slot: int) -> None:
    """Life after life in one of the group's places."""
    for number in itertools.count():
        name = f"{group}-{slot}-{number}"
        await Life(site, group, name).live(site.chance.uniform(*LIFE_S), by_batches=slot == 1)
        if site.settled.is_set():
            return


async def read_alone(site: Site) -> None:
    """Everything from the beginning, without a group."""
    places = [TopicPartition(site.topic, number) for number in range(site.partitions)]
    async with Consumer(site.address, ConsumerConfig(offset_reset="earliest")) as consumer:
        consumer.assign(places)
        site.note("alone", Kind.OK, Call.ASSIGN, keys=tuple(map(site.key, range(site.partitions))))
        while not site.settled.is_set():
            await read(site, consumer, "alone", "alone", by_batches=False)


def weigh() -> dict[str, int]:
    """Tasks, memory, descriptors and threads of the process."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return {
        "tasks": len(asyncio.all_tasks()),
        "resident_bytes": pages * os.sysconf("SC_PAGE_SIZE"),
        "traced_bytes": tracemalloc.get_traced_memory()[0],
        "descriptors": len(os.listdir("/proc/self/fd")),
        "threads": threading.active_count(),
    }


async def beat(site: Site) -> None:
    """Once a second, until cancelled."""
    while True:
        await asyncio.sleep(1)
        ends = {who: list(ends.values()) for who, ends in site.ends.items()}
        tell("beat", time=time.monotonic(), ends=ends, **weigh())


async def settle(site: Site) -> None:
    """Wait until every reader has read all; give up on a reader that is stuck, and report it."""
    waiting = {"alone", *GROUPS}
    deadline = time.monotonic() + SETTLE_S
    while waiting and time.monotonic() < deadline:
        await asyncio.sleep(0.2)
        waiting = {who for who in waiting if not site.is_read_by(who)}
    tell("settled", waiting=sorted(waiting))


async def work(site: Site) -> None:
    """Run all workers until standard input ends."""
    loop = asyncio.get_running_loop()
    loop.add_reader(sys.stdin.fileno(), site.stopping.set)
    config = ProducerConfig(delivery_timeout_ms=DELIVERY_MS, linger_ms=2)
    async with asyncio.TaskGroup() as tasks:
        pulse = tasks.create_task(beat(site))
        tasks.create_task(read_alone(site))
        for group, slot in itertools.product(GROUPS, range(MEMBERS)):
            tasks.create_task(take_part(site, group, slot))
        async with Producer(site.address, config) as producer, asyncio.TaskGroup() as writers:
            for number in range(WRITERS):
                name = f"writer-{number}"
                writers.create_task(write(site, producer, name, together=number % 2 == 1))
        loop.remove_reader(sys.stdin.fileno())
        await settle(site)
        site.settled.set()
        pulse.cancel()


async def run(address: str, orders: Orders, file: TextIO) -> None:
    """With what the process holds before and after."""
    tell("begun", **weigh())
    await work(Site(address, orders, file))
    # Connections are closed by the loop's next turns; names are looked up in its threads.
    await asyncio.sleep(0.5)
    await asyncio.get_running_loop().shutdown_default_executor()
    tell("ended", **weigh())


def main(arguments: Sequence[str]) -> None:
    """The command line."""
    tracemalloc.start()
    orders = Orders(**json.loads(arguments[1]))
    with Path(orders.history).open("w") as file:
        asyncio.run(run(arguments[0], orders, file))


if __name__ == "__main__":
    main(sys.argv[1:])
