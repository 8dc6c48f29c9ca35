"""Python's clients over a heavily compacted, partly transactional topic, from any offset.

Readers that stopped for ever in a hole or at an empty batch are the commonest complaint about
compaction in every client's tracker."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys

import pytest

from tests.broker.support.requests import create
from tests.broker.test_compaction import fill, partition_of, read_from
from tests.support.in_process import running_broker

AIOKAFKA = """
import asyncio, json, sys
from aiokafka import AIOKafkaConsumer, TopicPartition
async def main(address, starts, end):
    partition, tables = TopicPartition("t", 0), []
    consumer = AIOKafkaConsumer(bootstrap_servers=address, isolation_level="read_committed",
        max_partition_fetch_bytes=400, fetch_max_wait_ms=20)
    await consumer.start()
    consumer.assign([partition])
    for start in starts:
        consumer.seek(partition, start)
        table = {}
        while await consumer.position(partition) < end:
            for batch in (await consumer.getmany(timeout_ms=50)).values():
                table.update({one.key.decode(): one.value.decode() for one in batch})
        tables.append(table)
    await consumer.stop()
    print(json.dumps(tables))
asyncio.run(main(sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])))
"""
KAFKA_PYTHON = """
import json, sys
from kafka import KafkaConsumer, TopicPartition
address, starts, end = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
partition, tables = TopicPartition("t", 0), []
consumer = KafkaConsumer(bootstrap_servers=address, isolation_level="read_committed",
    max_partition_fetch_bytes=400, fetch_max_wait_ms=20)
consumer.assign([partition])
for start in starts:
    consumer.seek(partition, start)
    table = {}
    while consumer.position(partition) < end:
        for batch in consumer.poll(timeout_ms=50).values():
            table.update({one.key.decode(): one.value.decode() for one in batch})
    tables.append(table)
consumer.close()
print(json.dumps(tables))
"""
CONFLUENT = """
import json, sys
from confluent_kafka import Consumer, KafkaError, TopicPartition
address, starts, end = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
tables = []
for start in starts:
    consumer = Consumer({"bootstrap.servers": address, "group.id": "none",
        "enable.auto.commit": False, "enable.partition.eof": True, "fetch.wait.max.ms": 20,
        "isolation.level": "read_committed", "fetch.message.max.bytes": 400,
        "auto.offset.reset": "error"})
    consumer.assign([TopicPartition("t", 0, start)])
    table = {}
    while True:
        one = consumer.poll(1)
        if one is None:
            continue
        if one.error():
            assert one.error().code() == KafkaError._PARTITION_EOF, one.error()
            break
        table[one.key().decode()] = one.value().decode()
    consumer.close()
    tables.append(table)
print(json.dumps(tables))
"""
PROGRAMS = {"aiokafka": AIOKAFKA, "kafka": KAFKA_PYTHON, "confluent_kafka": CONFLUENT}
PATIENCE_S = 120


def run(program: str, *arguments: str) -> list[dict[str, str]]:
    done = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    tables: list[dict[str, str]] = json.loads(done.stdout)
    return tables


@pytest.mark.timeout(400)
@pytest.mark.parametrize("library", sorted(PROGRAMS))
async def test_a_client_that_begins_anywhere_reaches_the_end(library: str) -> None:
    """It ends with the newest value of every key, and without what was aborted."""
    pytest.importorskip(library)
    async with running_broker() as running, running.connect() as client:
        await create(client, "t", 1, cleanup_policy="compact", segment_bytes="3000")
        one = partition_of(running)
        await fill(client, one, 24)
        end = one.log.log_end_offset
        assert await running.broker.parts.cleaning.clean(one)
        starts = [0, 1, 50, 77, 120, end - 9, end - 1]
        expected = [await read_from(client, start, end) for start in starts]

        tables = await asyncio.to_thread(
            run, PROGRAMS[library], str(running.broker.address), json.dumps(starts), str(end)
        )

        assert tables == [
            {key.decode(): (value or b"").decode() for key, value in table.items()}
            for table in expected
        ]
