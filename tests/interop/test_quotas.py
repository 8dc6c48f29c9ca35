"""Quotas as clients feel them: how exact they are, and Kafka's own tool for them."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

import ottla
from tests.interop.conftest import Bootstrap
from tests.interop.support.clients import JAVA_VERSIONS, needs
from tests.interop.support.paces import CONSUMERS, PRODUCERS, VALUE_BYTES
from tests.interop.test_java_tools import Tools
from tests.support.broker_process import BrokerProcess

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RATE = 1_000_000
LIMITED = "limited"


@pytest.fixture
def address(tmp_path: Path) -> Iterator[str]:
    """A broker with a quota for one client id, and two topics."""
    with BrokerProcess(tmp_path / "data") as broker:
        with ottla.sync.Admin(broker.address) as admin:
            for topic in ("in", "out"):
                admin.create_topic(ottla.NewTopic(topic, 1))
            admin.quotas.alter_quotas(
                {"client-id": LIMITED}, {"producer_byte_rate": RATE, "consumer_byte_rate": RATE}
            )
        yield broker.address


def fill(address: str, seconds: float) -> None:
    """More than a limited consumer can read in that time."""
    value = bytes(VALUE_BYTES)
    with ottla.sync.Producer(address, compression="none") as producer:
        for _ in range(int(seconds * RATE * 1.3 / VALUE_BYTES)):
            producer.send("out", value, partition=0)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("produce", PRODUCERS)
def test_a_producer_gets_its_quota(
    address: str, produce: Callable[[str, str, str, float], float]
) -> None:
    """Within a tenth, over ten seconds."""
    assert produce(address, "in", LIMITED, 10) == pytest.approx(RATE, rel=0.1)


@pytest.mark.interop
@pytest.mark.slow
@pytest.mark.parametrize("consume", CONSUMERS)
def test_a_consumer_gets_its_quota(
    address: str, consume: Callable[[str, str, str, float], float]
) -> None:
    """Within a tenth, over ten seconds."""
    fill(address, 10)

    assert consume(address, "out", LIMITED, 10) == pytest.approx(RATE, rel=0.1)


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("produce", PRODUCERS)
def test_a_producer_gets_its_quota_for_a_minute_and_another_its_pace(
    address: str, produce: Callable[[str, str, str, float], float]
) -> None:
    """Within a twentieth; the unlimited one keeps 95 % of the pace that it has alone, before or
    after: what else the machine does changes it more than the other client."""
    before = produce(address, "out", "free", 20)
    beside: list[float] = []
    limited = threading.Thread(target=lambda: beside.append(produce(address, "in", LIMITED, 60)))
    limited.start()
    together = produce(address, "out", "free", 20)
    limited.join()
    after = produce(address, "out", "free", 20)
    print(f"limited {beside[0]:,.0f}, free {before:,.0f}, {together:,.0f} beside it, {after:,.0f}")

    assert beside[0] == pytest.approx(RATE, rel=0.05)
    # What the limited client takes of the machine is its quota, and not to be had twice.
    assert together > 0.95 * min(before, after) - RATE


@pytest.mark.soak
@pytest.mark.timeout(900)
@pytest.mark.parametrize("consume", CONSUMERS)
def test_a_consumer_gets_its_quota_for_a_minute(
    address: str, consume: Callable[[str, str, str, float], float]
) -> None:
    """Within a twentieth."""
    fill(address, 60)
    pace = consume(address, "out", LIMITED, 60)
    print(f"limited {pace:,.0f}")

    assert pace == pytest.approx(RATE, rel=0.05)


@pytest.fixture(params=JAVA_VERSIONS)
def tools(request: pytest.FixtureRequest, address: str, tmp_path: Path) -> Tools:
    """Kafka's tools of each version."""
    needs("java", "mvn")
    return Tools(request.param, Bootstrap(address), tmp_path)


@pytest.mark.interop
@pytest.mark.slow
def test_kafkas_tool_sets_shows_and_removes_quotas(tools: Tools, address: str) -> None:
    """kafka-configs.sh for users, their clients, defaults and addresses."""
    user = ("--entity-type", "users", "--entity-name", "CN=a b,O=x/y")
    tools.configs(
        *("--alter", *user),
        *("--add-config", "producer_byte_rate=1024,request_percentage=12.5"),
    )
    described = tools.configs("--describe", *user)
    assert "producer_byte_rate=1024.0" in described
    assert "request_percentage=12.5" in described
    pair = (*user, "--entity-type", "clients", "--entity-default")
    tools.configs("--alter", *pair, "--add-config", "consumer_byte_rate=2048")
    assert "consumer_byte_rate=2048.0" in tools.configs("--describe", *pair)
    ip = ("--entity-type", "ips", "--entity-name", "192.0.2.1")
    tools.configs("--alter", *ip, "--add-config", "connection_creation_rate=5")
    assert "connection_creation_rate=5.0" in tools.configs("--describe", *ip)
    tools.configs("--alter", *user, "--delete-config", "producer_byte_rate")
    with ottla.sync.Admin(address) as admin:
        views = {str(one.entity): one.quotas for one in admin.quotas.describe_quotas()}

    limited = {"producer_byte_rate": float(RATE), "consumer_byte_rate": float(RATE)}
    assert views == {
        str({"user": "CN=a b,O=x/y"}): {"request_percentage": 12.5},
        str({"user": "CN=a b,O=x/y", "client-id": None}): {"consumer_byte_rate": 2048.0},
        str({"client-id": LIMITED}): limited,
        str({"ip": "192.0.2.1"}): {"connection_creation_rate": 5.0},
    }


@pytest.mark.interop
@pytest.mark.slow
def test_kafkas_producer_gets_its_quota(tools: Tools, address: str) -> None:
    """kafka-producer-perf-test.sh, whose client waits by itself for what it is told (KIP-219)."""
    with ottla.sync.Admin(address) as admin:
        admin.quotas.alter_quotas({"client-id": None}, {"producer_byte_rate": RATE})
    said = tools.producer_performance(
        *("--topic", "in", "--num-records", "18000", "--record-size", "1000"),
        *("--throughput", "-1"),
    )
    # Every five seconds: "5012 records sent, 1002.3 records/sec (0.96 MB/sec), ...". The first has
    # the start in it, the last one is of the whole.
    lines = [line for line in said.splitlines() if " records/sec " in line]
    paces = [float(line.split(",")[1].split()[0]) for line in lines[1:-1]]

    assert len(paces) >= 2, said
    assert sum(paces) / len(paces) * 1000 == pytest.approx(RATE, rel=0.1), said
