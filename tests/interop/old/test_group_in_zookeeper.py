"""A group in ZooKeeper with consumers of both kinds: Apache Kafka 0.8.2's and ``ottla.classic``."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from tests.client.classic.site import StreamReader, classic_site
from tests.interop.support.clients import needs
from tests.interop.support.environments import old_kafka_jars

if TYPE_CHECKING:
    from pathlib import Path

    from tests.client.classic.site import ClassicSite

VERSION = "0.8.2.2"
PARTITIONS = 6
SESSION_MS = 3_000
# A dead member's session, a rebalance, and a slow start of a Java machine.
PATIENCE_S = 60.0


class JavaConsumer:
    """Kafka's console consumer of that time, which uses the high-level consumer."""

    def __init__(self, folder: Path, zookeeper: str, name: str) -> None:
        settings = folder / f"{name}.properties"
        settings.write_text(
            f"group.id=g\nconsumer.id={name}\nauto.offset.reset=smallest\n"
            f"zookeeper.session.timeout.ms={SESSION_MS}\nrebalance.backoff.ms=500\n"
            "rebalance.max.retries=30\nauto.commit.interval.ms=500\n"
        )
        classes = f"{old_kafka_jars(VERSION)}/*"
        command = ["java", "-Xmx128m", "-cp", classes, "kafka.tools.ConsoleConsumer"]
        command += ["--zookeeper", zookeeper, "--topic", "t", "--consumer.config", str(settings)]
        with (folder / f"{name}.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log)
        self.values: list[bytes] = []
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.values.append(line.strip())

    def end(self, how: signal.Signals) -> None:
        """End the process, and read what it has written."""
        self._process.send_signal(how)
        self._process.wait(60)
        self._thread.join(10)
        assert self._process.stdout is not None
        self._process.stdout.close()


def owners(site: ClassicSite) -> dict[str, int]:
    """How many partitions each member owns."""
    tree, path = site.brokers.tree, "/consumers/g/owners/t"
    if tree.exists(path) is None:
        return {}
    found: Counter[str] = Counter()
    for name in tree.get_children(path):
        if (node := tree.retry(lambda name=name: _value(site, f"{path}/{name}"))) is not None:
            found[node.rpartition("-")[0]] += 1
    return dict(found)


def _value(site: ClassicSite, path: str) -> str | None:
    if site.brokers.tree.exists(path) is None:
        return None
    value: bytes = site.brokers.tree.get(path)[0]
    return value.decode()


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
    javas: list[JavaConsumer] = []
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
            javas += [await asyncio.to_thread(JavaConsumer, tmp_path, place, one) for one in "bc"]
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
