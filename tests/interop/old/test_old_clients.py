"""Clients of Kafka 0.8 to 0.10: they write, read back and commit, in every codec that they have."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.interop.support.clients import needs
from tests.interop.support.environments import go_program, old_kafka_jars, python_with
from tests.support.broker_process import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.interop.conftest import Bootstrap

COUNT = 200
TIMEOUT_S = 120
LIBRDKAFKA = ["0.8.2.2", "0.9.0.1", "0.10.0.1"]
KAFKA_PYTHON = ["0.8.0", "0.8.1", "0.8.2", "0.9", "0.10.0", "0.10.1", "0.10.2"]
SARAMA = ["0.8.2.0", "0.9.0.1", "0.10.0.0", "0.10.2.0"]
CODECS = ["none", "gzip", "snappy", "lz4"]
# LZ4 of format 0 needs xxHash, which kafka-python computes with another package.
_PACKAGES = ("kafka-python==2.0.2", "python-snappy", "lz4", "xxhash")


def _run(*command: str | Path, given: str | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT,
        input=given,
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def _round_trip(python: Path | str, program: str, *arguments: str) -> Any:
    module = f"tests.interop.programs.python.{program}"
    return json.loads(_run(python, "-m", module, *arguments, str(COUNT)).splitlines()[-1])


@pytest.mark.parametrize(
    ("version", "codec"),
    [
        pytest.param(version, codec, marks=() if codec == "gzip" else pytest.mark.interop)
        for version in LIBRDKAFKA
        for codec in CODECS
        # It writes LZ4 from 0.9 on.
        if (version, codec) != ("0.8.2.2", "lz4")
    ],
)
def test_librdkafka_falls_back_to_an_older_kafka(
    broker: Bootstrap, topic: str, version: str, codec: str
) -> None:
    """With ``api.version.request`` off, as its users of that time have it in their settings."""
    found = _round_trip(sys.executable, "old_confluent", broker.address, version, codec, topic)

    assert found == {"same": True, "committed": COUNT // 2}


@pytest.mark.interop
@pytest.mark.parametrize(
    ("version", "codec"),
    [
        (version, codec)
        for version in KAFKA_PYTHON
        for codec in CODECS
        if codec != "lz4" or version not in ("0.8.0", "0.8.1")
    ],
)
def test_kafka_python_speaks_to_an_older_kafka(
    broker: Bootstrap, topic: str, version: str, codec: str
) -> None:
    """0.8.0 keeps no positions, 0.8.1 in the metadata store, later ones in the broker."""
    found = _round_trip(
        python_with(*_PACKAGES), "old_kafka_python", broker.address, version, codec, topic
    )

    committed = None if version == "0.8.0" else COUNT // 2
    assert found == {"same": True, "times": True, "committed": committed}


@pytest.mark.interop
@pytest.mark.parametrize(
    ("version", "codec"),
    [
        (version, codec)
        for version in SARAMA
        for codec in CODECS
        # It writes LZ4 from 0.10 on.
        if codec != "lz4" or version.startswith("0.10")
    ],
)
def test_sarama_speaks_to_an_older_kafka(
    broker: Bootstrap, topic: str, version: str, codec: str
) -> None:
    """Its setting ``Version`` names the broker; it does not ask what the broker supports."""
    needs("go")
    program = go_program("saramaold")
    found = json.loads(_run(program, broker.address, version, codec, topic, str(COUNT)))

    assert found == {"same": True, "committed": COUNT // 2}


@pytest.mark.interop
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["0.8.2.2", "0.9.0.1", "0.10.2.2"])
def test_tools_of_an_older_kafka_write_read_and_look_up(
    broker: Bootstrap, topic: str, version: str, codec: str
) -> None:
    """Apache's own: the console producer, the simple consumer, and the offsets of segments."""
    needs("java", "mvn")

    def tool(name: str, *arguments: str, given: str | None = None) -> str:
        where = ("--broker-list", broker.address, "--topic", topic)
        classes = f"{old_kafka_jars(version)}/*"
        return _run(
            "java", "-Xmx256m", "-cp", classes, f"kafka.tools.{name}", *where, *arguments,
            given=given,
        )  # fmt: skip

    lines = [f"value {n}" for n in range(COUNT)]
    tool("ConsoleProducer", "--compression-codec", codec, given="\n".join(lines) + "\n")
    found: list[str] = []
    for partition in (0, 1):
        read = tool("SimpleConsumerShell", "--partition", str(partition), "--no-wait-at-logend")
        found += [line for line in read.splitlines() if line.startswith("value ")]
    assert sorted(found) == sorted(lines)
    ends = tool("GetOffsetShell", "--time", "-1").split()
    assert sum(int(line.rsplit(":", 1)[1]) for line in ends) == COUNT
    starts = tool("GetOffsetShell", "--time", "-2").split()
    assert sorted(starts) == [f"{topic}:0:0", f"{topic}:1:0"]


@pytest.mark.interop
@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("version", ["0.9.0.1", "0.10.2.2"])
def test_java_clients_of_an_older_kafka_write_and_consume_in_a_group(
    broker: Bootstrap, topic: str, version: str, codec: str, tmp_path: Path
) -> None:
    """The libraries ``KafkaProducer`` and ``KafkaConsumer`` of that time, in Apache's consoles."""
    needs("java", "mvn")
    settings = tmp_path / "consumer.properties"
    settings.write_text(f"group.id={topic}\n")

    def tool(name: str, *arguments: str, given: str | None = None) -> str:
        classes = f"{old_kafka_jars(version)}/*"
        command = ["java", "-Xmx256m", "-cp", classes, f"kafka.tools.{name}", "--topic", topic]
        return _run(*command, *arguments, given=given)

    lines = [f"value {n}" for n in range(COUNT)]
    where = ("--broker-list", broker.address, "--compression-codec", codec)
    tool("ConsoleProducer", *where, given="\n".join(lines) + "\n")
    read = tool(
        "ConsoleConsumer", "--new-consumer", "--bootstrap-server", broker.address,
        "--consumer.config", str(settings), "--from-beginning", "--max-messages", str(COUNT),
    )  # fmt: skip

    assert sorted(read.splitlines()) == sorted(lines)
    ours = Consumer({"bootstrap.servers": broker.address, "group.id": topic})
    committed = ours.committed([TopicPartition(topic, n) for n in (0, 1)], timeout=TIMEOUT_S)
    ours.close()
    assert sum(max(0, one.offset) for one in committed) == COUNT


def test_an_old_and_a_new_member_share_a_group(broker: Bootstrap, topic: str) -> None:
    """Each has one of the two partitions, and no record is read twice."""
    common = {
        "bootstrap.servers": broker.address,
        "group.id": topic,
        "auto.offset.reset": "earliest",
    }
    old = Consumer({**common, "api.version.request": False, "broker.version.fallback": "0.9.0.1"})
    new = Consumer(common)
    admin = AdminClient({"bootstrap.servers": broker.address})
    admin.create_topics([NewTopic(topic, 2, 1)])[topic].result(TIMEOUT_S)
    for member in (old, new):
        member.subscribe([topic])
    deadline = time.monotonic() + TIMEOUT_S
    while any(len(member.assignment()) != 1 for member in (old, new)):
        assert time.monotonic() < deadline, "the group does not settle"
        for member in (old, new):
            member.poll(0.1)
    producer = Producer({"bootstrap.servers": broker.address})
    for number in range(COUNT):
        producer.produce(topic, value=str(number), partition=number % 2)
    producer.flush(TIMEOUT_S)
    read: dict[str, list[int]] = {"old": [], "new": []}
    while sum(map(len, read.values())) < COUNT:
        assert time.monotonic() < deadline, f"only {read} came"
        for name, member in (("old", old), ("new", new)):
            message = member.poll(0.1)
            if message is not None and message.error() is None:
                value = message.value()
                assert value is not None
                read[name].append(int(value))
    old.close()
    new.close()

    assert sorted(map(len, read.values())) == [COUNT // 2] * 2
    assert sorted(read["old"] + read["new"]) == list(range(COUNT))
