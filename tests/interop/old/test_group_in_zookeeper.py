"""A group in ZooKeeper with consumers of both kinds: Apache Kafka 0.8.2's and ``ottla.classic``."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from kazoo.exceptions import NoNodeError

from tests.client.classic.site import StreamReader, classic_site
from tests.interop.support.clients import needs
from tests.interop.support.environments import old_kafka_jars
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.classic.site import ClassicSite

VERSION = "0.8.2.2"
PARTITIONS = 6
SESSION_MS = 3_000
# A dead member's session, a rebalance, and a slow start of a Java machine.
PATIENCE_S = 60.0


class GroupProcess:
    """A consumer in a process of its own, which writes each message on a line."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, cwd=ROOT
            )
        self.values: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.values.append(line.strip())

    def tell(self, number: signal.Signals) -> None:
        """Send a signal, and nothing else."""
        self._process.send_signal(number)

    def end(self, how: signal.Signals) -> None:
        """End the process, and read what it has written."""
        self._process.send_signal(how)
        self._process.wait(60)
        self._thread.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


def java_consumer(folder: Path, zookeeper: str, name: str) -> GroupProcess:
    """Kafka's console consumer of that time, which uses the high-level consumer."""
    settings = folder / f"{name}.properties"
    settings.write_text(
        f"group.id=g\nconsumer.id={name}\nauto.offset.reset=smallest\n"
        f"zookeeper.session.timeout.ms={SESSION_MS}\nrebalance.backoff.ms=500\n"
        "rebalance.max.retries=60\nauto.commit.interval.ms=500\n"
    )
    classes = f"{old_kafka_jars(VERSION)}/*"
    command = ["java", "-Xmx128m", "-cp", classes, "kafka.tools.ConsoleConsumer"]
    command += ["--zookeeper", zookeeper, "--topic", "t", "--consumer.config", str(settings)]
    return GroupProcess(command, folder / f"{name}.log")


def our_consumer(folder: Path, zookeeper: str, name: str) -> GroupProcess:
    """A connector of ``ottla.classic``."""
    module = "tests.interop.programs.python.classic_member"
    command = [sys.executable, "-m", module, zookeeper, name, str(SESSION_MS)]
    return GroupProcess(command, folder / f"{name}.log")


def owners(site: ClassicSite) -> dict[str, int]:
    """How many partitions each member owns."""
    tree, path = site.brokers.tree, "/consumers/g/owners/t"
    found: Counter[str] = Counter()
    try:
        for name in tree.get_children(path):
            found[tree.get(f"{path}/{name}")[0].decode().rpartition("-")[0]] += 1
    except NoNodeError:
        # An owner has let go in between.
        return {}
    return dict(found)


def members_of(site: ClassicSite) -> set[str]:
    """The names of the members that are registered."""
    try:
        return set(site.brokers.tree.get_children("/consumers/g/ids"))
    except NoNodeError:
        return set()


async def flow(site: ClassicSite, first: int, count: int) -> list[bytes]:
    """Send different messages to all partitions."""
    values = [b"%d" % number for number in range(first, first + count)]
    for partition in range(PARTITIONS):
        await site.send("t", values[partition::PARTITIONS], partition)
    return values


@pytest.mark.interop
@pytest.mark.timeout(300)
async def test_consumers_of_both_kinds_share_a_group(tmp_path: Path) -> None:
    """They divide the partitions alike, wait for each other, and take over from each other."""
    needs("java", "mvn")
    javas: list[GroupProcess] = []
    async with classic_site(tmp_path, 1, 2) as site:
        try:
            await site.topic("t", {number: [number % 2 + 1] for number in range(PARTITIONS)})
            ours = site.connector(
                consumer_id="a-ours",
                zookeeper_session_timeout_ms=SESSION_MS,
                auto_commit_interval_ms=500,
                rebalance_backoff_ms=500,
            )
            streams = await asyncio.to_thread(ours.create_message_streams, {"t": 1})
            reader = StreamReader(streams["t"][0])
            sent = await flow(site, 0, 600)
            await site.until(lambda: len(reader.messages) == 600)
            place = site.brokers.place
            javas += [await asyncio.to_thread(java_consumer, tmp_path, place, one) for one in "bc"]
            # A name of theirs has the group before it.
            three = {"a-ours": 2, "g_b": 2, "g_c": 2}
            await site.until(lambda: owners(site) == three, PATIENCE_S)
            sent += await flow(site, 1_000, 600)

            def found() -> list[bytes]:
                return reader.values + [value for one in javas for value in one.values]

            await site.until(lambda: len(found()) >= len(sent), PATIENCE_S)
            shared = [len(one.values) for one in javas]
            clean = sorted(found()) == sorted(sent)
            # One of theirs dies: its session ends, and the others take over.
            await asyncio.to_thread(javas[1].end, signal.SIGKILL)
            await site.until(lambda: owners(site) == {"a-ours": 3, "g_b": 3}, PATIENCE_S)
            sent += await flow(site, 2_000, 600)
            await site.until(lambda: set(found()) >= set(sent), PATIENCE_S)
            # Ours leaves: theirs has everything.
            await asyncio.to_thread(ours.shutdown)
            await site.until(lambda: owners(site) == {"g_b": 6}, PATIENCE_S)
            before = len(javas[0].values)
            sent += await flow(site, 3_000, 60)
            await site.until(lambda: len(javas[0].values) >= before + 60, PATIENCE_S)
            # Theirs leaves: a new one of ours goes on where it has stopped.
            await asyncio.to_thread(javas[0].end, signal.SIGTERM)
            last = site.connector(zookeeper_session_timeout_ms=SESSION_MS)
            streams = await asyncio.to_thread(last.create_message_streams, {"t": 1})
            after = StreamReader(streams["t"][0])
            late = await flow(site, 4_000, 60)
            await site.until(lambda: len(after.messages) >= 60, PATIENCE_S)
        finally:
            for one in javas:
                await asyncio.to_thread(one.end, signal.SIGKILL)

    assert shared == [200, 200]
    assert clean
    assert set(found()) == set(sent)
    assert sorted(after.values) == sorted(late)


class Crowd:
    """The processes of a group that comes and goes."""

    def __init__(self, site: ClassicSite, folder: Path) -> None:
        self.live: dict[str, GroupProcess] = {}
        self.gone: list[GroupProcess] = []
        # Seconds from each change until all partitions had live owners again.
        self.waits: list[float] = []
        self._site = site
        self._folder = folder

    async def join(self, number: int) -> None:
        """Even numbers are ours; a name of theirs has the group before it."""
        name, place = f"m{number}", self._site.brokers.place
        make, prefix = (java_consumer, "g_") if number % 2 else (our_consumer, "")
        self.live[prefix + name] = await asyncio.to_thread(make, self._folder, place, name)
        # The start of a Java machine does not count as a wait.
        await self._site.until(lambda: members_of(self._site) >= self.live.keys(), PATIENCE_S)

    async def freeze(self, name: str) -> None:
        """Longer than its session lives."""
        self.live[name].tell(signal.SIGSTOP)
        await asyncio.sleep(2 * SESSION_MS / 1_000)
        self.live[name].tell(signal.SIGCONT)

    async def end(self, name: str, how: signal.Signals) -> None:
        """Kill it, or let it leave."""
        await asyncio.to_thread(self.live[name].end, how)
        self.gone.append(self.live.pop(name))

    async def settle(self) -> None:
        """Wait until live members own all partitions, in equal shares."""
        loop = asyncio.get_running_loop()
        begun = loop.time()
        await self._site.until(self._is_settled, PATIENCE_S)
        self.waits.append(loop.time() - begun)

    def _is_settled(self) -> bool:
        owned = owners(self._site)
        shares = sorted(owned.values())
        return (
            members_of(self._site) == self.live.keys() >= owned.keys()
            and len(owned) == min(len(self.live), PARTITIONS)
            and sum(shares) == PARTITIONS
            and shares[-1] - shares[0] <= 1
        )

    def found(self) -> set[bytes]:
        """All messages that any process has written."""
        return {value for one in (*self.live.values(), *self.gone) for value in one.values}


@pytest.mark.interop
@pytest.mark.timeout(600)
async def test_members_of_both_kinds_join_leave_die_and_freeze(tmp_path: Path) -> None:
    """After each change all partitions are owned by live members within ten seconds, and in the
    end no message is missing."""
    needs("java", "mvn")
    chance = random.Random(7)
    async with classic_site(tmp_path, 1, 2) as site:
        await site.topic("t", {number: [number % 2 + 1] for number in range(PARTITIONS)})
        crowd = Crowd(site, tmp_path)
        sent: list[bytes] = []
        try:
            for number in range(4):
                await crowd.join(number)
            await crowd.settle()
            for turn in range(8):
                sent += await flow(site, 1_000 * turn, 120)
                name = chance.choice(sorted(crowd.live))
                action = ("kill", "join", "freeze", "leave")[turn % 4]
                if action == "join":
                    await crowd.join(10 + turn)
                elif action == "freeze":
                    await crowd.freeze(name)
                else:
                    await crowd.end(name, signal.SIGKILL if action == "kill" else signal.SIGTERM)
                await crowd.settle()
            sent += await flow(site, 90_000, 120)
            await site.until(lambda: crowd.found() >= set(sent), PATIENCE_S)
        finally:
            for one in crowd.live.values():
                await asyncio.to_thread(one.end, signal.SIGKILL)

    assert len(crowd.waits) == 9
    # Sessions of three seconds, on a machine that is busy with other things: the median counts.
    assert sorted(crowd.waits)[4] < 10.0
