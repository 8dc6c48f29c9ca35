"""Kafka's own console tools, run by their main classes: what operators have in their fingers."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

from tests.interop.conftest import Bootstrap
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.slow]

TOOLS = "org.apache.kafka.tools"
CONSOLE_CONSUMER = f"{TOOLS}.consumer.ConsoleConsumer"


class Tools:
    """The tools of one version of Kafka."""

    def __init__(self, kafka_version: str, broker: Bootstrap, folder: Path) -> None:
        self._version = kafka_version
        self._classpath = java_classpath(kafka_version)
        self._broker = broker
        self._folder = folder
        is_old = kafka_version.startswith("3.")
        # In 3.9 the new protocol was a preview.
        self.group_protocols = ["classic"] if is_old else ["classic", "consumer"]
        # The console producer was still a part of the broker's own archive then.
        self.console_producer = (
            "kafka.tools.ConsoleProducer" if is_old else f"{TOOLS}.ConsoleProducer"
        )

    def run(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run a main class against the broker and return its standard output."""
        address = ["--bootstrap-server", self._broker.address]
        return self.run_anywhere(tool, *address, *arguments, stdin=stdin)

    def run_anywhere(self, tool: str, *arguments: str, stdin: str = "") -> str:
        """Run a main class without the usual option for the broker's address."""
        done = subprocess.run(
            ["java", "-Xmx256m", "-cp", self._classpath, tool, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == 0, f"{tool}: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        return done.stdout

    def topics(self, *arguments: str) -> str:
        """kafka-topics.sh."""
        return self.run(f"{TOOLS}.TopicCommand", *arguments)

    def configs(self, *arguments: str) -> str:
        """kafka-configs.sh."""
        return self.run("kafka.admin.ConfigCommand", *arguments)

    def offsets(self, topic: str, time: str) -> str:
        """kafka-get-offsets.sh."""
        return self.run(f"{TOOLS}.GetOffsetShell", "--topic", topic, "--time", time)

    def produce(self, topic: str, lines: str, *arguments: str) -> None:
        """kafka-console-producer.sh."""
        self.run(self.console_producer, "--topic", topic, *arguments, stdin=lines)

    def consume(self, topic: str, *arguments: str) -> str:
        """kafka-console-consumer.sh, partition 0."""
        where = ["--topic", topic, "--partition", "0", "--timeout-ms", "10000"]
        return self.run(CONSOLE_CONSUMER, *where, *arguments)

    def groups(self, *arguments: str) -> list[list[str]]:
        """kafka-consumer-groups.sh; the words of each line that has some."""
        said = self.run(f"{TOOLS}.consumer.group.ConsumerGroupCommand", *arguments)
        return [line.split() for line in said.splitlines() if line.strip()]

    def consumer_performance(self, *arguments: str) -> str:
        """kafka-consumer-perf-test.sh."""
        return self.run(f"{TOOLS}.ConsumerPerformance", *arguments)

    @contextmanager
    def reading(self, topic: str, group: str, protocol: str) -> Iterator[None]:
        """A console consumer that reads as the only member of a group, and then leaves it."""
        words = ["--topic", topic, "--group", group, "--from-beginning"]
        words += ["--bootstrap-server", self._broker.address]
        if protocol == "consumer":
            words += ["--consumer-property", "group.protocol=consumer"]
        with (self._folder / "consumer").open("wb") as output:
            reader = subprocess.Popen(
                ["java", "-Xmx128m", "-cp", self._classpath, CONSOLE_CONSUMER, *words],
                stdout=output,
                stderr=subprocess.STDOUT,
            )
            try:
                yield
            finally:
                # It closes its consumer when it is asked to end.
                reader.terminate()
                reader.wait(20)

    def producer_performance(self, *arguments: str) -> str:
        """kafka-producer-perf-test.sh."""
        address = ["--producer-props", f"bootstrap.servers={self._broker.address}"]
        return self.run_anywhere(f"{TOOLS}.ProducerPerformance", *arguments, *address)

    def of(self, broker: Bootstrap) -> Tools:
        """The same tools for another broker."""
        return Tools(self._version, broker, self._folder)

    def reassign(self, plan: Path, *arguments: str) -> str:
        """kafka-reassign-partitions.sh with the plan in a file."""
        what = ["--reassignment-json-file", str(plan), *arguments]
        return self.run(f"{TOOLS}.reassign.ReassignPartitionsCommand", *what)

    def delete_records(self, topic: str, before: int) -> str:
        """kafka-delete-records.sh."""
        wanted = {"partitions": [{"topic": topic, "partition": 0, "offset": before}], "version": 1}
        path = self._folder / "offsets.json"
        path.write_text(json.dumps(wanted))
        return self.run(f"{TOOLS}.DeleteRecordsCommand", "--offset-json-file", str(path))


class Group:
    """A group as kafka-consumer-groups.sh shows it."""

    def __init__(self, tools: Tools, name: str, topic: str) -> None:
        self._tools, self._name, self._topic = tools, name, topic

    def ask(self, *arguments: str) -> list[list[str]]:
        """One of the tool's verbs, for this group."""
        return self._tools.groups("--group", self._name, *arguments)

    def ask_topic(self, *arguments: str) -> str:
        """Run one of the commands about the group's topic; return its output."""
        return " ".join(
            word for line in self.ask(*arguments, "--topic", self._topic) for word in line
        )

    def described(self, *arguments: str) -> list[list[str]]:
        """The rows of the group itself."""
        rows = self.ask("--describe", *arguments)
        return [row for row in rows if row[0] == self._name]

    def offsets(self) -> list[list[str]]:
        """Current offset, end and lag of each partition, in the partitions' order."""
        rows = [row for row in self.described("--offsets") if row[1] == self._topic]
        return [row[3:6] for row in sorted(rows, key=lambda row: row[2])]

    def wait_for(self, offsets: list[list[str]], timeout_s: float = 40) -> None:
        """Until the group has these positions."""
        deadline = time.monotonic() + timeout_s
        while (found := self.offsets()) != offsets:
            assert time.monotonic() < deadline, found


def test_replicas_are_moved_between_the_data_directories_of_a_broker(
    tools: Tools, topic: str, tmp_path: Path
) -> None:
    """kafka-reassign-partitions.sh with log directories, under a throttle; kafka-log-dirs.sh."""
    directories = [str(tmp_path / name) for name in ("first", "second")]
    extra = ["--data-dir", ",".join(directories)]
    with BrokerProcess(tmp_path / "unused", extra=extra) as broker:
        two = tools.of(Bootstrap(broker.address))
        two.topics("--create", "--topic", topic, "--partitions", "2")
        two.produce(topic, "".join(f"value {n}\n" for n in range(1000)))
        replicas = [
            {"topic": topic, "partition": part, "replicas": [1], "log_dirs": directories[1:]}
            for part in (0, 1)
        ]
        plan = tmp_path / "plan.json"
        plan.write_text(json.dumps({"version": 1, "partitions": replicas}))
        said = two.reassign(plan, "--execute", "--replica-alter-log-dirs-throttle", "100000000")
        assert f"Successfully started moving log directory to {directories[1]}" in said
        deadline = time.monotonic() + 40
        while "is still in progress" in (said := two.reassign(plan, "--verify")):
            assert time.monotonic() < deadline, said

        assert f"Reassignment of replica {topic}-0-1 completed successfully" in said
        assert sorted(path.name for path in tmp_path.glob(f"second/{topic}-?")) == [
            f"{topic}-0",
            f"{topic}-1",
        ]
        told = two.run(f"{TOOLS}.LogDirsCommand", "--describe", "--topic-list", topic)
        assert told.count(f'"{topic}-') == 2
        assert directories[1] in told


def test_levels_of_loggers_are_changed_and_described(tools: Tools) -> None:
    """kafka-configs.sh for the loggers of a broker."""
    which = ["--entity-type", "broker-loggers", "--entity-name", "1"]
    try:
        tools.configs("--alter", *which, "--add-config", "ottla.log=DEBUG")
        assert "ottla.log=DEBUG" in tools.configs("--describe", *which)
    finally:
        tools.configs("--alter", *which, "--delete-config", "ottla.log")
    assert "ottla.log=INFO" in tools.configs("--describe", *which)


@pytest.fixture(params=JAVA_VERSIONS)
def tools(request: pytest.FixtureRequest, broker: Bootstrap, tmp_path: Path) -> Tools:
    """The tools of each version."""
    needs("java", "mvn")
    broker.used_by(f"java_{request.param}")
    return Tools(request.param, broker, tmp_path)


def test_a_topic_is_created_described_enlarged_and_deleted(tools: Tools, topic: str) -> None:
    """kafka-topics.sh with each of its verbs."""
    tools.topics("--create", "--topic", topic, "--partitions", "2", "--config", "retention.ms=1000")
    assert topic in tools.topics("--list").split()

    tools.topics("--alter", "--topic", topic, "--partitions", "3")
    described = tools.topics("--describe", "--topic", topic)
    assert "PartitionCount: 3" in described
    assert "retention.ms=1000" in described
    assert described.count("Leader: 1") == 3

    tools.topics("--delete", "--topic", topic)
    assert topic not in tools.topics("--list").split()


def test_settings_are_changed_and_described(tools: Tools, topic: str) -> None:
    """kafka-configs.sh for a topic and for the broker."""
    which = ["--entity-type", "topics", "--entity-name", topic]
    tools.topics("--create", "--topic", topic, "--partitions", "1")

    tools.configs("--alter", *which, "--add-config", "retention.ms=5000,segment.bytes=1048577")
    described = tools.configs("--describe", *which)
    assert "retention.ms=5000" in described
    assert "segment.bytes=1048577" in described

    tools.configs("--alter", *which, "--delete-config", "retention.ms")
    assert "retention.ms=5000" not in tools.configs("--describe", *which)

    broker = tools.configs("--describe", "--all", "--entity-type", "brokers", "--entity-name", "1")
    assert "log.segment.bytes=1048576" in broker


def test_lines_are_produced_read_counted_and_deleted(tools: Tools, topic: str) -> None:
    """The console producer and consumer, kafka-get-offsets.sh and kafka-delete-records.sh."""
    tools.topics("--create", "--topic", topic, "--partitions", "1")
    lines = "".join(f"k{n}:value {n}\n" for n in range(100))
    keyed = ["parse.key=true", "key.separator=:"]
    options = [word for setting in keyed for word in ("--property", setting)]
    tools.produce(topic, lines, *options, "--compression-codec", "zstd")

    text = tools.consume(
        *[topic, "--offset", "90", "--max-messages", "10"],
        *["--property", "print.key=true", "--property", "print.offset=true"],
    )
    assert text.splitlines()[0].split("\t") == ["Offset:90", "k90", "value 90"]
    assert len(text.splitlines()) == 10

    assert tools.offsets(topic, "-1").split() == [f"{topic}:0:100"]
    assert "low_watermark: 60" in tools.delete_records(topic, 60)
    assert tools.offsets(topic, "-2").split() == [f"{topic}:0:60"]
    assert tools.consume(topic, "--offset", "earliest", "--max-messages", "1") == "value 60\n"


def test_the_performance_tool_reaches_its_end(tools: Tools, topic: str) -> None:
    """kafka-producer-perf-test.sh with an idempotent producer and full batches."""
    tools.topics("--create", "--topic", topic, "--partitions", "1")
    load = ["--topic", topic, "--num-records", "20000", "--record-size", "100"]

    said = tools.producer_performance(*load, "--throughput", "-1")

    assert "20000 records sent" in said
    assert tools.offsets(topic, "-1").split() == [f"{topic}:0:20000"]


@pytest.mark.timeout(300)
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_a_group_is_watched_moved_and_deleted(tools: Tools, topic: str, protocol: str) -> None:
    """kafka-consumer-groups.sh with each of its verbs: first with a member, then without."""
    if protocol not in tools.group_protocols:
        pytest.skip("this version has no such groups")
    name = f"of-{topic}"
    group = Group(tools, name, topic)
    tools.topics("--create", "--topic", topic, "--partitions", "1")
    tools.produce(topic, "".join(f"value {n}\n" for n in range(100)))

    with tools.reading(topic, name, protocol):
        # It commits what it has read after five seconds.
        group.wait_for([["100", "100", "0"]])
        assert [name] in tools.groups("--list")
        assert [name, "Stable"] in tools.groups("--list", "--state", "stable")
        (member,) = group.described("--members", "--verbose")
        assert "console-consumer" in member
        # 3.9 leaves the topic's name out.
        assert {f"{topic}:0", "(0)"} & set(member)
        (state,) = group.described("--state")
        strategy = {"classic": "range", "consumer": "uniform"}[protocol]
        assert state[-3:] == [strategy, "Stable", "1"]
        assert "GroupNotEmptyException" in str(group.ask("--delete"))
        assert "GroupSubscribedToTopicException" in group.ask_topic("--delete-offsets")
        assert "Stable" in group.ask_topic("--reset-offsets", "--to-offset", "5", "--execute")

    assert [name, "Empty"] in tools.groups("--list", "--state")
    assert group.offsets() == [["100", "100", "0"]]
    assert name in group.ask_topic("--reset-offsets", "--to-offset", "5", "--execute")
    assert group.offsets() == [["5", "100", "95"]]
    assert "Successful" in group.ask_topic("--delete-offsets")
    assert group.offsets() == []
    assert "successful" in str(group.ask("--delete"))
    assert [name] not in tools.groups("--list")


def test_a_group_of_one_reads_and_goes_on(tools: Tools, topic: str) -> None:
    """The console consumer commits when it leaves; kafka-consumer-perf-test.sh reads in a group."""
    tools.topics("--create", "--topic", topic, "--partitions", "1")
    tools.produce(topic, "".join(f"value {n}\n" for n in range(100)))
    read = ["--topic", topic, "--group", f"of-{topic}", "--timeout-ms", "20000"]

    first = tools.run(CONSOLE_CONSUMER, *read, "--from-beginning", "--max-messages", "30")
    second = tools.run(CONSOLE_CONSUMER, *read, "--max-messages", "30")
    assert first.split()[1::2] == [str(n) for n in range(30)]
    assert second.split()[1::2] == [str(n) for n in range(30, 60)]

    said = tools.consumer_performance("--topic", topic, "--messages", "100", "--group", "measured")
    assert said.splitlines()[-1].split(", ")[4] == "100"
