"""kafka-transactions.sh and confluent-kafka's administrator look at transactions, and end them."""

from __future__ import annotations

import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import (
    Consumer,
    IsolationLevel,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic, OffsetSpec

from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath

if TYPE_CHECKING:
    from tests.interop.conftest import Bootstrap

TOOL = "org.apache.kafka.tools.TransactionsCommand"


class Hanging:
    """A transaction that was left open in partition 0 of a topic."""

    def __init__(self, address: str, topic: str) -> None:
        self.address, self.topic, self.transactional_id = address, topic, f"of-{topic}"
        admin = AdminClient({"bootstrap.servers": address})
        admin.create_topics([NewTopic(topic, 1, 1)])[topic].result(15)
        self.producer = Producer(
            {"bootstrap.servers": address, "transactional.id": self.transactional_id}
        )
        self.producer.init_transactions(30)
        self.producer.begin_transaction()
        self.producer.produce(topic, b"left open", partition=0)
        assert self.producer.flush(30) == 0

    def visible(self) -> list[bytes]:
        """Values that a read_committed reader gets before it stops."""
        return visible(self.address, self.topic)


def visible(address: str, topic: str) -> list[bytes]:
    reader = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "reader",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "enable.auto.commit": False,
        }
    )
    try:
        reader.assign([TopicPartition(topic, 0, 0)])
        found: list[bytes] = []
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            message = reader.poll(1)
            if message is None:
                continue
            error: Any = message.error()
            if error is None:
                found.append(message.value())
            elif error.code() == KafkaError._PARTITION_EOF:
                return found
        raise AssertionError("the partition does not end")
    finally:
        reader.close()


@pytest.fixture
def hanging(broker: Bootstrap, topic: str) -> Hanging:
    broker.used_by("")
    return Hanging(broker.address, topic)


class Tool:
    """kafka-transactions.sh of one version; the words of each line."""

    def __init__(self, version: str, address: str) -> None:
        self._command = ["java", "-Xmx128m", "-cp", java_classpath(version), TOOL]
        self._command += ["--bootstrap-server", address]

    def ask(self, *arguments: str) -> list[list[str]]:
        done = subprocess.run(
            [*self._command, *arguments], capture_output=True, text=True, check=False, timeout=90
        )
        assert done.returncode == 0, f"{arguments}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return [line.split() for line in done.stdout.splitlines() if line.strip()]


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_the_java_tool_sees_and_ends_what_hangs(version: str, hanging: Hanging) -> None:
    """list, describe, describe-producers, find-hanging and abort, each on the same transaction."""
    needs("java", "mvn")
    tool = Tool(version, hanging.address)
    name, topic = hanging.transactional_id, hanging.topic

    listed = tool.ask("list")
    (mine,) = [row for row in listed if row[0] == name]
    assert mine[-1] == "Ongoing"
    producer_id = mine[2]

    _heading, described = tool.ask("describe", "--transactional-id", name)
    assert described[1:3] == [name, producer_id]
    assert "Ongoing" in described
    assert described[-1] == f"{topic}-0"

    where = ["--topic", topic, "--partition", "0"]
    _heading, active = tool.ask("describe-producers", *where)
    assert active[0] == producer_id
    # The first offset of its transaction.
    assert active[-1] == "0"

    # A coordinator knows of it: it is open, and hangs not.
    found = tool.ask("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    assert not [row for row in found if row[0] == topic]

    tool.ask("abort", *where, "--start-offset", "0")
    _heading, after = tool.ask("describe-producers", *where)
    assert after[-1] == "None"
    assert hanging.visible() == []


@pytest.mark.interop
@pytest.mark.requirement("TXN-58")
def test_readers_go_on_when_an_administrator_has_ended_it(hanging: Hanging) -> None:
    """Ours, beside a foreign reader: what was left open is found, named and ended."""
    later = Producer({"bootstrap.servers": hanging.address})
    later.produce(hanging.topic, b"later", partition=0)
    assert later.flush(15) == 0
    assert hanging.visible() == []

    command = [sys.executable, "-m", "ottla", "transactions", "abort", f"{hanging.topic}:0"]
    command += ["--first-offset", "0", "--force", "--bootstrap", hanging.address]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert done.returncode == 0, done.stderr
    assert hanging.visible() == [b"later"]


@pytest.mark.requirement("TXN-29")
def test_an_administrator_asks_for_the_last_stable_offset(hanging: Hanging) -> None:
    """list_offsets with both isolation levels: what confluent-kafka's offers of transactions."""
    admin = AdminClient({"bootstrap.servers": hanging.address})
    where = TopicPartition(hanging.topic, 0)

    def latest(level: IsolationLevel) -> int:
        futures = admin.list_offsets({where: OffsetSpec.latest()}, isolation_level=level)
        return int(futures[where].result(15).offset)

    assert latest(IsolationLevel.READ_UNCOMMITTED) == 1
    assert latest(IsolationLevel.READ_COMMITTED) == 0
    hanging.producer.commit_transaction(30)
    # The marker is an offset, too.
    assert latest(IsolationLevel.READ_COMMITTED) == 2
    assert hanging.visible() == [b"left open"]


def test_a_second_instance_fences_the_first(hanging: Hanging) -> None:
    """The first one's open transaction is aborted."""
    second = Producer(
        {"bootstrap.servers": hanging.address, "transactional.id": hanging.transactional_id}
    )
    second.init_transactions(30)

    with pytest.raises(KafkaException) as refused:
        hanging.producer.commit_transaction(30)

    assert refused.value.args[0].code() == KafkaError._FENCED
    assert hanging.visible() == []
