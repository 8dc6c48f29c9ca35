"""Brokers start from the files and environments that operators have from Kafka."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla import NewTopic
from ottla.sync import Admin
from tests.support.broker_process import ROOT, BrokerProcess
from tests.support.ports import HOST, free_ports
from tests.zookeeper.shared import fresh_place

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

# What both files set alike, in Kafka 3.9 and in 4.x.
COMMON = {
    "num.network.threads": "3",
    "num.io.threads": "8",
    "socket.send.buffer.bytes": "102400",
    "socket.receive.buffer.bytes": "102400",
    "socket.request.max.bytes": "104857600",
    "num.partitions": "1",
    "num.recovery.threads.per.data.dir": "1",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
    "log.retention.hours": "168",
    "log.retention.check.interval.ms": "300000",
}
KRAFT = {
    **COMMON,
    "process.roles": "broker,controller",
    "node.id": "1",
    "inter.broker.listener.name": "PLAINTEXT",
    "controller.listener.names": "CONTROLLER",
    "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,SSL:SSL,"
    "SASL_PLAINTEXT:SASL_PLAINTEXT,SASL_SSL:SASL_SSL",
    "log.segment.bytes": "1073741824",
}
OF_3_9 = {
    **COMMON,
    "broker.id": "0",
    "zookeeper.connection.timeout.ms": "18000",
    "group.initial.rebalance.delay.ms": "0",
}
VOTERS = {"controller.quorum.voters": "1@localhost:{controller}"}
OF_4 = {
    "controller.quorum.bootstrap.servers": "localhost:{controller}",
    "share.coordinator.state.topic.replication.factor": "1",
    "share.coordinator.state.topic.min.isr": "1",
}


class FileBroker(BrokerProcess):
    """A broker whose settings come from a file and the environment alone."""

    def __init__(self, data: Path, port: int, arguments: list[str]) -> None:
        super().__init__(data, port=port)
        self._arguments = arguments

    def command(self) -> list[str]:
        return [sys.executable, "-m", "ottla", "start", *self._arguments]


def write(folder: Path, settings: Mapping[str, str]) -> str:
    """A file of these settings; returns its path."""
    path = folder / "server.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()), "utf-8")
    return str(path)


def assert_serves(broker: BrokerProcess) -> None:
    """Check that a client finds the broker and can make a topic."""
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic("orders", 2, 1)])
        assert "orders" in [topic.name for topic in admin.list_topics()]


def test_the_file_of_kafka_3_9_starts_a_broker(tmp_path: Path) -> None:
    """The stock file of ZooKeeper mode; it names no listener, so the port is an option here."""
    data = tmp_path / "kafka-logs"
    settings = {**OF_3_9, "log.dirs": str(data), "zookeeper.connect": fresh_place()}
    (port,) = free_ports(1)
    arguments = ["--config", write(tmp_path, settings), "--port", str(port)]

    with FileBroker(data, port, arguments) as broker:
        assert_serves(broker)
        assert "no effect" not in broker.stderr()


@pytest.mark.parametrize("quorum", [VOTERS, OF_4], ids=["3.9", "4.x"])
def test_the_files_of_kraft_start_a_broker(tmp_path: Path, quorum: dict[str, str]) -> None:
    """The stock files of one combined process: what has no effect is said once each."""
    data = tmp_path / "kraft-combined-logs"
    port, controller = free_ports(2)
    settings = {
        **KRAFT,
        **{name: value.format(controller=controller) for name, value in quorum.items()},
        "listeners": f"PLAINTEXT://:{port},CONTROLLER://:{controller}",
        "advertised.listeners": f"PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}",
        "log.dirs": str(data),
    }

    with FileBroker(data, port, ["--config", write(tmp_path, settings)]) as broker:
        assert_serves(broker)
        for name in ("process.roles", *quorum):
            assert broker.stderr().count(f"{name} has no effect here") == 1


@pytest.mark.parametrize("prefix", ["KAFKA_", "KAFKA_CFG_"], ids=["confluent", "bitnami"])
def test_the_environment_of_an_image_starts_a_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, prefix: str
) -> None:
    """Variables of a compose file; where listeners are not set, the advertised ports are used."""
    data = tmp_path / "data"
    port, other, controller = free_ports(3)
    settings = {
        "NODE_ID": "1",
        "PROCESS_ROLES": "controller,broker",
        "CONTROLLER_QUORUM_VOTERS": f"1@broker:{controller}",
        "CONTROLLER_LISTENER_NAMES": "CONTROLLER",
        "LISTENER_SECURITY_PROTOCOL_MAP": "CONTROLLER:PLAINTEXT,INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        "INTER_BROKER_LISTENER_NAME": "INSIDE",
        "ADVERTISED_LISTENERS": f"OUTSIDE://localhost:{port},INSIDE://127.0.0.1:{other}",
        "LOG_DIRS": str(data),
        "OFFSETS_TOPIC_REPLICATION_FACTOR": "1",
        "CONFLUENT_LICENSE_TOPIC_REPLICATION_FACTOR": "1",
        "METRIC_REPORTERS": "io.confluent.metrics.reporter.ConfluentMetricsReporter",
    }
    for name, value in settings.items():
        monkeypatch.setenv(prefix + name, value)
    monkeypatch.setenv("CLUSTER_ID", "MkU3OEVBNTcwNTJENDM2Qk")
    monkeypatch.setenv("KAFKA_KRAFT_CLUSTER_ID", "MkU3OEVBNTcwNTJENDM2Qk")
    monkeypatch.setenv("ALLOW_PLAINTEXT_LISTENER", "yes")
    monkeypatch.setenv("KAFKA_JMX_PORT", "9101")
    monkeypatch.setenv("OTTLA_HOST", HOST)

    with FileBroker(data, port, []) as broker:
        assert_serves(broker)
        told = broker.stderr()
        assert told.count("confluent.license.topic.replication.factor has no effect here") == 1
        assert told.count("metric.reporters has no effect here") == 1


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"process.roles": "broker"}, "process.roles is broker"),
        ({"controller.quorum.voters": "1@a:9093,2@b:9093,3@c:9093"}, "names 3 voters"),
    ],
)
def test_a_member_of_a_kraft_cluster_does_not_start_alone(
    tmp_path: Path, changed: dict[str, str], words: str
) -> None:
    """It ends with one sentence that names what to use, and leaves no data directory behind."""
    data = tmp_path / "data"
    path = write(tmp_path, {**KRAFT, **changed, "log.dirs": str(data)})
    done = subprocess.run(
        [sys.executable, "-m", "ottla", "start", "--config", path],
        capture_output=True,
        text=True,
        timeout=60,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        check=False,
    )

    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert words in line
    assert "--zookeeper" in line
    assert not data.exists()
