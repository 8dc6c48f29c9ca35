"""A log directory that three versions of Apache Kafka wrote is taken over, with its ZooKeeper.

Kafka 0.8.2 writes message format 0, 0.10 format 1, 0.11 format 2; consumers of their time read all
of it from Ottla, those that live in ZooKeeper too.
"""

from __future__ import annotations

import signal
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.protocol.records.old_messages import iterate_entries, read_any
from tests.interop.support.clients import needs
from tests.interop.support.environments import old_kafka_jars
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_ports
from tests.zookeeper.servers import ZooKeeperServer

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOPIC = "mixed"
COUNT = 300
WAIT_S = 60
# With the codecs that its console producer has.
VERSIONS = {
    "0.8.2.2": ("none", "gzip", "snappy"),
    "0.10.2.2": ("none", "gzip", "lz4"),
    "0.11.0.3": ("none", "snappy"),
}
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-cp")

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]


def _tool(version: str, name: str, *arguments: str, given: str | None = None) -> str:
    done = subprocess.run(
        [*_JAVA, f"{old_kafka_jars(version)}/*", f"kafka.tools.{name}", *arguments],
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * WAIT_S,
    )
    return done.stdout


@contextmanager
def _old_kafka(version: str, folder: Path, zookeeper: str) -> Iterator[str]:
    """The address of a broker of that version on the directory, stopped cleanly at the end."""
    (port,) = free_ports(1)
    settings = {
        "broker.id": "0",
        "port": str(port),
        "host.name": "127.0.0.1",
        "advertised.host.name": "127.0.0.1",
        "log.dirs": str(folder / "data"),
        "zookeeper.connect": zookeeper,
        "log.segment.bytes": "20000",
        "num.partitions": "1",
    }
    path = folder / f"{version}.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    with (folder / f"{version}.log").open("wb") as log:
        command = [*_JAVA, f"{old_kafka_jars(version)}/*", "kafka.Kafka", str(path)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    try:
        _await_port(port)
        yield f"127.0.0.1:{port}"
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(WAIT_S)
        except subprocess.TimeoutExpired:
            process.kill()


def _await_port(port: int) -> None:
    deadline = time.monotonic() + WAIT_S
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), 1):
                return
        except OSError:
            assert time.monotonic() < deadline, "the old broker does not listen"
            time.sleep(0.1)


def _read(address: str, count: int) -> list[tuple[int, int, bytes | None]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "unused"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, int, bytes | None]] = []
    while len(found) < count:
        message = consumer.poll(WAIT_S)
        assert message is not None, f"only {len(found)} of {count} records came"
        if message.error() is None:
            found.append((message.offset(), message.timestamp()[1], message.value()))
    consumer.close()
    return found


@pytest.mark.requirement("FMT-18")
def test_what_three_kafkas_wrote_is_served(tmp_path: Path) -> None:
    """Every record at its offset, with its time, as the files of those Kafkas have it."""
    needs("java", "mvn")
    with ZooKeeperServer() as zookeeper:
        for version, codecs in VERSIONS.items():
            with _old_kafka(version, tmp_path, zookeeper.address) as address:
                for codec in codecs:
                    lines = "".join(f"{version} {codec} {n}\n" for n in range(COUNT))
                    where = ("--broker-list", address, "--topic", TOPIC)
                    _tool(
                        version, "ConsoleProducer", *where, "--compression-codec", codec,
                        given=lines,
                    )  # fmt: skip
        files = sorted((tmp_path / "data" / f"{TOPIC}-0").glob("*.log"))
        content = b"".join(path.read_bytes() for path in files)
        assert {each.magic for each in iterate_entries(content)} == {0, 1, 2}
        written = [(one.offset, one.timestamp, one.value) for one in read_any(content)]
        assert len(written) > COUNT * len(VERSIONS)

        options = {"offsets.topic.replication.factor": "1"}
        extra = ("--zookeeper", zookeeper.address, "--id", "0")
        with BrokerProcess(tmp_path / "data", options=options, extra=extra) as ours:
            assert _read(ours.address, len(written)) == written
            values = sorted(str(value, "utf-8") for _, _, value in written if value is not None)
            settings = tmp_path / "consumer.properties"
            settings.write_text("consumer.timeout.ms=10000\n")
            for version in ("0.8.2.2", "0.10.2.2"):
                read = _tool(
                    version, "ConsoleConsumer", "--zookeeper", zookeeper.address,
                    "--topic", TOPIC, "--from-beginning", "--consumer.config", str(settings),
                )  # fmt: skip
                assert sorted(read.splitlines()) == values
            read = _tool(
                "0.10.2.2", "ConsoleConsumer", "--new-consumer", "--bootstrap-server",
                ours.address, "--topic", TOPIC, "--from-beginning", "--timeout-ms", "15000",
            )  # fmt: skip
            assert sorted(read.splitlines()) == values
