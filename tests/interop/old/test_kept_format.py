"""A topic that keeps messages of format 1, with clients of Kafka 0.10 and of today.

Old producers fill it, old and new consumers read it, and Apache's DumpLogSegments finds in its
files what they sent.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from ottla.broker.log.storage.names import CLEAN_SHUTDOWN
from ottla.broker.system.real_disk import RealDisk, RealOffload
from ottla.client.consumer import Consumer as OwnConsumer
from ottla.protocol.message_sets.writer import form_of, wrapped
from ottla.protocol.message_sets.writer import message as encoded
from ottla.protocol.records.batch import TimestampType
from ottla.protocol.records.compression import Codec, decompress
from ottla.protocol.records.old_messages import OldMessage, iterate_entries, read_messages
from tests.broker.support.requests import create
from tests.broker.test_compaction import partition_of
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.environments import (
    go_program,
    java_classpath,
    old_kafka_jars,
    python_with,
)
from tests.support.broker_process import ROOT
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

COUNT = 200
TOPIC = "t"
CODECS = ["none", "gzip", "snappy", "lz4"]
DUMPED = re.compile(r"magic: (\d) compresscodec: (\w+) crc: \d+ isvalid: (\w+)")
COMPLAINTS = ("mismatch", "Non-consecutive", "isvalid: false", "Exception", "Found ")
SETTINGS = {"log.retention.check.interval.ms": "100000"}


def _run(*command: str | Path, given: str | None = None) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=ROOT, input=given, capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-3000:]
    return done.stdout


def _sarama(address: str, codec: str) -> None:
    # librdkafka asks any broker from 0.10 on for its versions, and then sends batches.
    needs("go")
    found = _run(go_program("saramaold"), address, "0.10.2.0", codec, TOPIC, str(COUNT))
    assert json.loads(found.splitlines()[-1]) == {"same": True, "committed": COUNT // 2}


def _kafka_python(address: str, codec: str) -> None:
    python = python_with("kafka-python==2.0.2", "python-snappy", "lz4", "xxhash")
    module = "tests.interop.programs.python.old_kafka_python"
    found = _run(python, "-m", module, address, "0.10.2", codec, TOPIC, str(COUNT))
    assert json.loads(found.splitlines()[-1]) == {
        "same": True, "times": True, "committed": COUNT // 2,
    }  # fmt: skip


def _java(address: str, codec: str) -> None:
    command = ["java", "-Xmx256m", "-cp", f"{old_kafka_jars('0.10.2.2')}/*"]
    lines = [f"value {n}" for n in range(COUNT)]
    _run(
        *command, "kafka.tools.ConsoleProducer", "--topic", TOPIC, "--broker-list", address,
        "--compression-codec", codec, given="\n".join(lines) + "\n",
    )  # fmt: skip
    read = _run(
        *command, "kafka.tools.ConsoleConsumer", "--new-consumer", "--topic", TOPIC,
        "--bootstrap-server", address, "--from-beginning", "--max-messages", str(COUNT),
    )  # fmt: skip
    assert sorted(read.splitlines()) == sorted(lines)


def _newest_librdkafka(address: str) -> list[tuple[int, bytes]]:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "g"})
    consumer.assign([TopicPartition(TOPIC, 0, 0)])
    found: list[tuple[int, bytes]] = []
    while len(found) < COUNT:
        for message in consumer.consume(COUNT, timeout=60):
            assert message.error() is None
            offset, value = message.offset(), message.value()
            assert offset is not None
            assert value is not None
            found.append((offset, value))
    consumer.close()
    return found


def _newest_java(address: str) -> list[str]:
    read = _run(
        *("java", "-Xmx256m", "-cp", java_classpath(JAVA_VERSIONS[-1])),
        *("org.apache.kafka.tools.consumer.ConsoleConsumer", "--topic", TOPIC),
        *("--bootstrap-server", address, "--from-beginning", "--max-messages", str(COUNT)),
    )
    return read.splitlines()


async def _own(address: str) -> list[tuple[int, bytes]]:
    found: list[tuple[int, bytes]] = []
    async with OwnConsumer(address, group_id="own", offset_reset="earliest") as consumer:
        await consumer.subscribe([TOPIC])
        while len(found) < COUNT:
            for one in await consumer.poll(10_000):
                assert one.value is not None
                found.append((one.offset, bytes(one.value)))
    return found


def _dump(folder: Path) -> str:
    (name,) = (folder / f"{TOPIC}-0").glob("*.log")
    return _run(
        *("java", "-Xmx256m", "-cp", java_classpath(JAVA_VERSIONS[0])),
        *("kafka.tools.DumpLogSegments", "--print-data-log", "--files", name),
    )


def _reencoded(data: bytes) -> int:
    """Write each message of an old client anew: the same bytes. Returns how many there are."""
    count = 0
    for entry in iterate_entries(data):
        assert isinstance(entry, OldMessage)
        records = list(read_messages(entry))
        form = form_of(1, Codec.NONE, TimestampType.CREATE_TIME)
        if entry.is_compressed:
            assert entry.value is not None
            inner = bytes(decompress(entry.codec, entry.value))
            assert wrapped(form, records, records[0].offset) == inner
        else:
            (one,) = records
            assert encoded(form, one.offset, one.timestamp, one.key, one.value) == entry.view
        count += len(records)
    return count


@pytest.mark.parametrize("codec", CODECS)
@pytest.mark.parametrize("produce", [_sarama, _kafka_python, _java])
async def test_old_clients_fill_a_topic_that_all_clients_read(
    tmp_path: Path, produce: Any, codec: str
) -> None:
    """Also after a crash; the tool sees format 1 in the codec of the producer, and no fault."""
    needs("java", "mvn")
    settings = {**SETTINGS, "log.dirs": str(tmp_path)}
    async with running_broker(settings, RealDisk(RealOffload())) as running:
        async with running.connect() as client:
            await create(client, TOPIC, 1, ottla_keep_message_format="true")
        address = str(running.broker.address)
        await asyncio.to_thread(produce, address, codec)
        await partition_of(running).log.flush()
        dumped = await asyncio.to_thread(_dump, tmp_path)
        rows = DUMPED.findall(dumped)
        assert rows
        assert {(row[0], row[1].lower(), row[2]) for row in rows} == {("1", codec, "true")}
        assert not [complaint for complaint in COMPLAINTS if complaint in dumped]
        (log,) = (tmp_path / f"{TOPIC}-0").glob("*.log")
        assert _reencoded(log.read_bytes()) == COUNT
        before = await asyncio.to_thread(_newest_librdkafka, address)
        assert [offset for offset, _ in before] == list(range(COUNT))
        assert await _own(address) == before
        java = await asyncio.to_thread(_newest_java, address)
        assert [line.encode() for line in java] == [value for _, value in before]
    (tmp_path / CLEAN_SHUTDOWN).unlink()
    for path in (tmp_path / f"{TOPIC}-0").glob("*index"):
        path.unlink()
    async with running_broker(settings, RealDisk(RealOffload())) as running:
        assert await asyncio.to_thread(_newest_librdkafka, str(running.broker.address)) == before
