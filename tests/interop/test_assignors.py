"""Subscriptions that other clients send in JoinGroup for each assignor, read by ours.

Two unmodified clients join one group through a relay. The first joins twice, the second time with
what it had, so that the sticky forms have something in them.
"""

from __future__ import annotations

import asyncio
import threading
import uuid
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from confluent_kafka import Consumer
from confluent_kafka.admin import AdminClient, NewTopic

from ottla.client.group.assignors.registry import make_assignors
from ottla.client.group.assignors.sticky_data import decode_sticky, encode_sticky
from ottla.protocol.apis import ApiKey
from ottla.protocol.compile import decode
from ottla.protocol.consumer_protocol import read_subscription, write_subscription
from ottla.protocol.headers import decode_request_header
from ottla.protocol.ids import TopicPartition
from ottla.protocol.messages.join_group import JoinGroupRequest
from tests.support.broker_process import BrokerProcess
from tests.support.relays.capture import Relay

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PARTITIONS = 5
PATIENCE_S = 120.0
OF_AIOKAFKA = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}
OF_CONFLUENT = ("range", "roundrobin", "cooperative-sticky")


class Site:
    """A broker behind a relay that keeps what clients ask."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay
        self.address = f"127.0.0.1:{relay.port}"

    def topic(self) -> str:
        """Create a unique topic for a test."""
        name = f"topic-{uuid.uuid4().hex[:8]}"
        admin = AdminClient({"bootstrap.servers": self.address})
        admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(15)
        return name

    def joins(self, group: str) -> list[bytes]:
        """The subscriptions of all JoinGroup requests of a group, in order."""
        found = []
        for one in list(self.relay.captured):
            if one.api_key != ApiKey.JOIN_GROUP:
                continue
            header, position = decode_request_header(memoryview(one.frame))
            body = memoryview(one.frame)[position:]
            request = decode(JoinGroupRequest, header.api_version, body)
            if request.group_id == group:
                found += [protocol.metadata for protocol in request.protocols]
        return found


@pytest.fixture(scope="module")
def behind_relay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """The broker, which sends clients back to the relay."""
    with Relay() as relay:
        options = {
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{relay.port}",
            "group.initial.rebalance.delay.ms": "0",
        }
        folder: Path = tmp_path_factory.mktemp("assignors")
        with BrokerProcess(folder / "data", options=options) as running:
            relay.target_port = running.port
            relay.client = "somebody"
            yield Site(relay)


def check(site: Site, name: str, group: str, topic: str) -> list[bytes]:
    """Every subscription reads and, written again in its version, is the same; with the last two as
    members our assignor gives every partition to one of them."""
    joins = site.joins(group)
    assert len(joins) >= 3
    for data in joins:
        said, version = read_subscription(data)
        assert said.topics == [topic]
        assert write_subscription(said, version) == data
    (assignor,) = make_assignors([name])
    members = {"one": joins[-2], "two": joins[-1]}
    found = assignor.assign(members, {topic: PARTITIONS})
    given = [one for data in found.values() for one in assignor.on_assignment(data, 1)]
    assert len(set(given)) == len(given) <= PARTITIONS
    if name != "cooperative-sticky":
        assert len(given) == PARTITIONS
    return joins


@pytest.mark.parametrize("name", OF_AIOKAFKA)
async def test_aiokafka_is_understood(behind_relay: Site, name: str) -> None:
    """Its sticky data is that of Java."""
    site, group = behind_relay, f"aio-{name}"
    topic = await asyncio.to_thread(site.topic)
    async with AsyncExitStack() as stack:
        members: list[Any] = []
        for _ in range(2):
            member = AIOKafkaConsumer(
                topic,
                bootstrap_servers=site.address,
                group_id=group,
                heartbeat_interval_ms=300,
                partition_assignment_strategy=(OF_AIOKAFKA[name],),
            )
            await member.start()
            stack.push_async_callback(member.stop)
            members.append(member)
            async with asyncio.timeout(PATIENCE_S):
                while sum(len(one.assignment()) for one in members) != PARTITIONS or not all(
                    one.assignment() for one in members
                ):
                    await asyncio.sleep(0.1)

    joins = check(site, name, group, topic)

    if name == "sticky":
        data = [said.user_data for said, _ in map(read_subscription, joins) if said.user_data]
        held = [decode_sticky(one) for one in data]
        everything = [TopicPartition(topic, number) for number in range(PARTITIONS)]
        assert everything in [sorted(partitions) for partitions, _generation in held]
        for one, (partitions, generation) in zip(data, held, strict=True):
            assert encode_sticky(partitions, generation) == one


@pytest.mark.parametrize("name", OF_CONFLUENT)
def test_librdkafka_is_understood(behind_relay: Site, name: str) -> None:
    """With the cooperative assignor it reports its partitions and their generation."""
    site, group = behind_relay, f"rd-{name}"
    topic = site.topic()
    settings = {
        "bootstrap.servers": site.address,
        "group.id": group,
        "heartbeat.interval.ms": 300,
        "partition.assignment.strategy": name,
    }
    members, ended = [], threading.Event()
    try:
        for _ in range(2):
            members.append(Consumer(settings))
            members[-1].subscribe([topic])
            timer = threading.Timer(PATIENCE_S, ended.set)
            timer.start()
            while not ended.is_set() and (
                sum(len(one.assignment()) for one in members) != PARTITIONS
                or not all(one.assignment() for one in members)
            ):
                for one in members:
                    one.poll(0.05)
            timer.cancel()
    finally:
        for one in members:
            one.close()
    assert not ended.is_set()

    joins = check(site, name, group, topic)

    if name == "cooperative-sticky":
        said = [read_subscription(data)[0] for data in joins]
        everything = [list(range(PARTITIONS))]
        assert everything in [[one.partitions for one in each.owned_partitions] for each in said]
        assert max(each.generation_id for each in said) > 0
