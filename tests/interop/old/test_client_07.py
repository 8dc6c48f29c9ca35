"""prozess, a client of Kafka 0.7 on Node, beside a client of today."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from confluent_kafka import Consumer, Producer

from tests.interop.support.clients import needs
from tests.interop.support.environments import node_program
from tests.support.broker_process import BrokerProcess
from tests.support.ports import free_row

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.interop

SENT = 300
TIMEOUT_S = 60


def _prozess(port: int, sent: int, offset: str, read: int) -> Any:
    """What it has read after sending, and its offset then."""
    needs("node", "npm")
    done = subprocess.run(
        [
            *("node", "--no-deprecation", str(node_program("kafka07.js"))),
            *(str(port), "t", str(sent), offset, str(read)),
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=TIMEOUT_S,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def _sent_today(broker: BrokerProcess, codec: str) -> list[str]:
    values = [f"{codec} {number}" for number in range(SENT)]
    producer = Producer({"bootstrap.servers": broker.address, "compression.type": codec})
    for value in values:
        producer.produce("t", value, key=b"key", headers={"left": "out"})
    assert producer.flush(TIMEOUT_S) == 0
    return values


def _read_today(broker: BrokerProcess, count: int) -> list[str]:
    consumer = Consumer(
        {
            "bootstrap.servers": broker.address,
            "group.id": "g",
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
        }
    )
    consumer.subscribe(["t"])
    found: list[str] = []
    while len(found) < count:
        records = consumer.consume(count - len(found), TIMEOUT_S)
        assert records
        for record in records:
            value = record.value()
            assert record.error() is None
            assert value is not None
            found.append(value.decode())
    consumer.close()
    return found


def _bytes(values: list[str]) -> int:
    return sum(10 + len(value) for value in values)


def test_a_client_of_0_7_and_one_of_today_share_a_topic(tmp_path: Path) -> None:
    """Each reads what both wrote, in the same order; the offset outlives a restart."""
    port = free_row(1)
    broker = BrokerProcess(tmp_path / "data", extra=["--listener-07", str(port)])
    wanted = [f"sent {number}" for number in range(SENT)]
    with broker:
        first = _prozess(port, SENT, "earliest", SENT)
        assert first == {"found": wanted, "offset": str(_bytes(wanted))}
        later = [*_sent_today(broker, "zstd"), *_sent_today(broker, "none")]
        assert _read_today(broker, 3 * SENT) == [*wanted, *later]
    with broker:
        second = _prozess(port, 0, first["offset"], 2 * SENT)
        assert second == {"found": later, "offset": str(_bytes([*wanted, *later]))}
