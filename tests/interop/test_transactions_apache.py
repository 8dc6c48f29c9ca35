"""Our transactional client and commands on Apache Kafka, and Kafka's command on our broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from ottla import (
    Admin,
    Committed,
    Consumer,
    ConsumerConfig,
    Isolation,
    NewTopic,
    Producer,
    ProducerFenced,
    ProducerUnusable,
    RequestRefused,
    TopicPartition,
)
from ottla.client.administration.features import FeatureUpgrade
from tests.client.cli.command import ottla
from tests.client.cli.transactions.test_transactions import NO_VERIFICATION, hang
from tests.interop.support.apache import apache_kafka
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import java_classpath

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.interop, pytest.mark.slow, pytest.mark.timeout(300)]

OUT = [TopicPartition("out", number) for number in range(2)]
COUNT = 30


@pytest.fixture(scope="module", params=JAVA_VERSIONS)
def apache(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """A broker of each version."""
    needs("java", "mvn")
    with apache_kafka(request.param, tmp_path_factory.mktemp("kafka")) as address:
        yield address


async def visible(address: str, *partitions: TopicPartition) -> list[bytes]:
    """Records that readers of committed records get."""
    found: list[bytes] = []
    async with Consumer(address, ConsumerConfig(isolation=Isolation.READ_COMMITTED)) as consumer:
        ends = await consumer.end_offsets(partitions)
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        while any((consumer.position(where) or 0) < end for where, end in ends.items()):
            found += [record.value or b"" for record in await consumer.poll(1_000)]
    return found


async def levels(admin: Admin) -> list[int]:
    """The levels of transaction.version to try, the usual one last; 0 where there is no choice."""
    for feature in await admin.features.describe_features():
        if feature.name == "transaction.version" and feature.level_max >= 2:
            return [1, 2]
    return [0]


async def transact(address: str, name: str) -> None:
    """Transactions of all kinds, by one producer."""
    async with Producer(address, transactional_id=name) as producer:
        await producer.init_transactions()
        for number in range(COUNT):
            await producer.begin_transaction()
            for where in OUT:
                await producer.send("out", b"%s %d" % (name.encode(), number), partition=where[1])
            await producer.send_offsets_to_transaction({OUT[0]: number + 1}, name)
            if number % 5 == 3:
                await producer.flush()
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
        await producer.begin_transaction()
        await producer.abort_transaction()
        await producer.begin_transaction()
        await producer.send("out", b"dropped", partition=0)
        await producer.abort_transaction()
        await producer.begin_transaction()
        await (await producer.send("out", b"left open", partition=0))
        async with Producer(address, transactional_id=name) as successor:
            await successor.init_transactions()
            async with successor.transaction():
                await successor.send("out", b"%s end" % name.encode(), partition=0)
        with pytest.raises(ProducerFenced):
            await producer.commit_transaction()


async def test_our_producer_keeps_its_promises_on_apache_kafka(apache: str) -> None:
    """In every version of the protocol that the broker can be set to, up and down again."""
    async with Admin(apache) as admin:
        await admin.create_topic(NewTopic("out", 2, 1))
        for level in await levels(admin):
            name = f"level-{level}"
            if level:
                change = FeatureUpgrade.SAFE_DOWNGRADE if level == 1 else FeatureUpgrade.UPGRADE
                await admin.features.update_features({"transaction.version": level}, change)
            await transact(apache, name)
            seen = await visible(apache, *OUT)
            wanted = [b"%s %d" % (name.encode(), n) for n in range(COUNT) if n % 5 != 3] * 2
            own = [value for value in seen if value.startswith(name.encode())]
            assert sorted(own) == sorted([*wanted, b"%s end" % name.encode()])
            assert not {b"dropped", b"left open"} & set(seen)
            assert await admin.groups.offsets(name, [OUT[0]]) == {OUT[0]: Committed(COUNT)}


async def test_who_takes_too_long_cannot_commit_on_apache_kafka(apache: str) -> None:
    """The coordinator aborts it, and the producer gets an error."""
    async with Admin(apache) as admin:
        await admin.create_topics([NewTopic("slow", 1, 1)])
        async with Producer(apache, transactional_id="s", transaction_timeout_ms=1_000) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            await (await producer.send("slow", b"x"))
            for _ in range(300):
                view = (await admin.transactions.describe_transactions(["s"]))["s"]
                assert not isinstance(view, RequestRefused)
                if view.state == "CompleteAbort":
                    break
                await asyncio.sleep(0.1)
            with pytest.raises(ProducerUnusable):
                await producer.commit_transaction()
        assert await visible(apache, TopicPartition("slow", 0)) == []


async def test_our_commands_find_and_end_what_hangs_on_apache_kafka(apache: str) -> None:
    """KIP-664 from our side."""
    async with Admin(apache) as admin:
        await admin.create_topics([NewTopic("stuck", 1, 1)])
    await asyncio.to_thread(hang, apache, "stuck", 77_000)

    found = await ottla("transactions", "find-hanging", "stuck", "--format", "json", "-b", apache)
    blamed = await ottla("transactions", "blame", "stuck:0", "-b", apache)
    ended = await ottla("transactions", "abort", "stuck:0", "-b", apache)
    after = await ottla("transactions", "blame", "stuck:0", "-b", apache)

    assert [one["producer_id"] for one in json.loads(found.output)] == [77_000], found.errors
    assert b"hanging" in blamed.output
    assert ended.status == 0, ended.errors
    assert b"nothing holds readers back" in after.output


@pytest.fixture(scope="module")
def trusting() -> Iterator[str]:
    """A broker of ours that does not ask coordinators."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ottla", "start", "--memory", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=os.environ | NO_VERIFICATION,
    )
    assert process.stdout is not None
    with process, process.stdout as output:
        yield output.readline().decode().removeprefix("ottla: ready at ").strip()
        process.terminate()
        assert process.wait(15) == 0


@pytest.mark.parametrize("version", JAVA_VERSIONS)
def test_kafkas_command_finds_and_ends_what_hangs_here(trusting: str, version: str) -> None:
    """kafka-transactions.sh, as operators know it."""
    needs("java", "mvn")
    topic = f"stuck-{version}"

    def tool(*arguments: str) -> str:
        command = ["java", "-Xmx256m", "-cp", java_classpath(version)]
        main = ["org.apache.kafka.tools.TransactionsCommand", "--bootstrap-server", trusting]
        done = subprocess.run(
            [*command, *main, *arguments], capture_output=True, text=True, check=False, timeout=90
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    async def prepare() -> None:
        async with Admin(trusting) as admin:
            await admin.create_topic(NewTopic(topic, 1))
        async with Producer(trusting, transactional_id=topic) as producer:
            await producer.init_transactions()
            async with producer.transaction():
                await producer.send(topic, b"x")

    asyncio.run(prepare())
    hang(trusting, topic, 88_000)
    listed = tool("list")
    described = tool("describe", "--transactional-id", topic)
    producers = tool("describe-producers", "--topic", topic, "--partition", "0")
    # By default it looks for transactions that are older than the longest timeout there can be; the
    # record's timestamp is.
    hanging = tool("find-hanging", "--topic", topic, "--partition", "0")
    tool("abort", "--topic", topic, "--partition", "0", "--start-offset", "2")
    after = tool("find-hanging", "--topic", topic, "--partition", "0")

    assert topic in listed
    assert "CompleteCommit" in described
    assert "88000" in producers
    assert "88000" in hanging
    assert "88000" not in after
