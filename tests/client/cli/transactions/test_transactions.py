"""``ottla transactions`` against a real broker."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from ottla.client.admin import Admin
from ottla.client.process.environment import real_environment
from ottla.client.sending.produce_request import PRODUCE
from ottla.client.settings.config import parse_address
from ottla.protocol.errors import ErrorCode
from ottla.protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from ottla.protocol.records.builder import BatchOptions, encode_batch
from ottla.wire.negotiation import connect
from tests.client.cli.command import Ended, Ottla, is_one_sentence

if TYPE_CHECKING:
    from collections.abc import Iterator

EXPLICIT_VERSION = 11
NO_VERIFICATION = {"KAFKA_TRANSACTION_PARTITION_VERIFICATION_ENABLE": "false"}


@pytest.fixture(scope="module")
def trusting() -> Iterator[str]:
    """A broker that takes transactional records without asking their coordinator, as brokers did
    before KIP-890."""
    command = [sys.executable, "-m", "ottla", "start", "--memory", "--port", "0"]
    environment = os.environ | NO_VERIFICATION
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment
    )
    assert process.stdout is not None
    with process, process.stdout as output:
        ready = output.readline().decode()
        assert ready.startswith("ottla: ready at "), ready
        yield ready.removeprefix("ottla: ready at ").strip()
        process.terminate()
        assert process.wait(90) == 0


@contextmanager
def open_transaction(broker: str, name: str, topic: str) -> Iterator[Producer]:
    """A foreign producer that has sent one record and leaves its transaction open."""
    producer = Producer(
        {"bootstrap.servers": broker, "transactional.id": name, "transaction.timeout.ms": 60_000}
    )
    producer.init_transactions(20)
    producer.begin_transaction()
    producer.produce(topic, b"open", partition=0)
    producer.flush(20)
    try:
        yield producer
    finally:
        producer.abort_transaction(20)


def hang(broker: str, topic: str, producer_id: int) -> None:
    """Write a record of a transaction that no coordinator knows."""

    async def send() -> None:
        net, clock, _ = real_environment()
        async with Admin(broker) as admin:
            connection = await connect(net, clock, parse_address(broker), admin.config)
            options = BatchOptions(
                producer_id=producer_id, producer_epoch=3, base_sequence=0, is_transactional=True
            )
            data = PartitionProduceData(
                0, encode_batch([(1_700_000_000_000, None, b"x", ())], options)
            )
            request = ProduceRequest(
                "ghost", -1, 10_000, [TopicProduceData(topic, partition_data=[data])]
            )
            response = await connection.send(PRODUCE, request, version=EXPLICIT_VERSION)
            connection.close()
        (answer,) = response.responses[0].partition_responses
        assert answer.error_code == ErrorCode.NONE

    asyncio.run(send())


def make(ottla: Ottla, broker: str, topic: str) -> None:
    """A topic with one record outside of any transaction."""
    ottla("topics", "create", topic, "-p", "2", "-b", broker)
    assert ottla("produce", topic, "-p", "0", "-b", broker, stdin=b"plain\n").status == 0


def rows(ended: Ended) -> list[list[str]]:
    return [line.split() for line in ended.output.decode().splitlines() if line]


def test_an_open_transaction_is_listed_described_and_blamed(broker: str, ottla: Ottla) -> None:
    """An operator sees which producer holds readers back, since when, and that it will time out."""
    make(ottla, broker, "busy")
    with open_transaction(broker, "slow", "busy"):
        listed = ottla("transactions", "list", "--state", "Ongoing", "-b", broker)
        described = ottla("transactions", "describe", "slow", "--format", "json", "-b", broker)
        text = ottla("transactions", "describe", "slow", "-b", broker)
        blamed = ottla("transactions", "blame", "busy:0", "-b", broker)
        as_json = ottla("transactions", "blame", "busy:0", "--format", "json", "-b", broker)
        hanging = ottla("transactions", "find-hanging", "-b", broker)
        refused = ottla("transactions", "abort", "busy:0", "-b", broker)
    quiet = b"busy:0: nothing holds readers back; they get everything up to 3\n"
    # The verdict is written, and the marker follows.
    while (after := ottla("transactions", "blame", "busy:0", "-b", broker)).output != quiet:
        assert after.status == 0

    assert any(row[0] == "slow" and row[2] == "Ongoing" for row in rows(listed)[1:])
    (view,) = json.loads(described.output)
    assert (view["state"], view["timeout_ms"], view["partitions"]) == (
        "Ongoing",
        60_000,
        ["busy:0"],
    )
    assert "busy:0" in text.output.decode()
    (found,) = json.loads(as_json.output)["open"]
    assert (found["first_offset"], found["standing"]) == (1, "open")
    assert found["transaction"]["transactional_id"] == "slow"
    assert found["first_time_ms"] > 1_700_000_000_000
    shown = blamed.output.decode()
    assert "1, so 1 record up to 2 waits" in shown
    assert "transactional id 'slow'" in shown
    assert (hanging.status, hanging.output) == (0, b"no transaction hangs\n")
    assert refused.status == 1
    assert "does not hang" in refused.errors
    assert is_one_sentence(refused.errors)


@pytest.mark.requirement("TXN-58")
def test_a_hanging_transaction_is_found_blamed_and_ended(trusting: str, ottla: Ottla) -> None:
    """KIP-664, hazard T-25: nothing else would ever let readers on."""
    make(ottla, trusting, "stuck")
    hang(trusting, "stuck", 77_000)
    before = ottla("consume", "stuck", "--read-committed", "-o", "beginning", "-e", "-b", trusting)
    hanging = ottla("transactions", "find-hanging", "stuck", "-b", trusting)
    blamed = ottla("transactions", "blame", "stuck:0", "-b", trusting)
    as_json = ottla("transactions", "blame", "stuck:0", "--format", "json", "-b", trusting)
    aborted = ottla("transactions", "abort", "stuck:0", "--first-offset", "1", "-b", trusting)
    again = ottla("transactions", "abort", "stuck:0", "-b", trusting)
    after = ottla("transactions", "blame", "stuck:0", "-b", trusting)

    assert before.output == b"plain\n"
    assert rows(hanging)[1:] == [["stuck", "0", "1", "77000", "3", "-"]]
    assert "ottla transactions abort stuck:0 --first-offset 1" in blamed.output.decode()
    assert "since             2023-11-14 22:13:20.000Z" in blamed.output.decode()
    (found,) = json.loads(as_json.output)["open"]
    assert (found["standing"], found["transaction"]) == ("hanging", None)
    assert aborted.status == 0, aborted.errors
    assert (
        b"aborted the transaction of producer 77000 in stuck:0 from offset 1 on" in aborted.output
    )
    assert again.errors == "ottla: no transaction is open in stuck:0\n"
    assert b"nothing holds readers back" in after.output


def test_one_of_several_has_to_be_named(trusting: str, ottla: Ottla) -> None:
    """Ending the wrong one cannot be undone."""
    make(ottla, trusting, "several")
    hang(trusting, "several", 78_000)
    hang(trusting, "several", 78_001)

    unnamed = ottla("transactions", "abort", "several:0", "-b", trusting)
    blamed = ottla("transactions", "blame", "several:0", "-b", trusting)
    named = ottla("transactions", "abort", "several:0", "--producer-id", "78000", "-b", trusting)
    left = ottla("transactions", "find-hanging", "several:0", "--format", "json", "-b", trusting)

    assert unnamed.status == 1
    assert "1 (producer 78000), 2 (producer 78001)" in unnamed.errors
    assert "and behind it" in blamed.output.decode()
    assert named.status == 0, named.errors
    assert [one["producer_id"] for one in json.loads(left.output)] == [78_001]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("describe", "nobody"), "no coordinator knows the transactional id 'nobody'"),
        (("blame", "nothere:0"), "topic 'nothere' has no partition 0"),
        (("find-hanging", "nothere"), "topic 'nothere' does not exist"),
    ],
)
def test_what_does_not_exist_is_told_in_a_sentence(
    broker: str, ottla: Ottla, arguments: tuple[str, ...], expected: str
) -> None:
    """No traceback, and what to do next where that is known."""
    ended = ottla("transactions", *arguments, "-b", broker)

    assert ended.status == 1
    assert expected in ended.errors
    assert is_one_sentence(ended.errors)


@pytest.mark.parametrize(
    "arguments", [("blame", "topic"), ("blame", "t:0,1"), ("abort", ":0"), ("list", "--id", "(")]
)
def test_what_cannot_be_meant_is_refused(ottla: Ottla, arguments: tuple[str, ...]) -> None:
    """The command refuses it before it sends a request."""
    ended = ottla("transactions", *arguments)

    assert ended.status == 2
    assert is_one_sentence(ended.errors)
