"""Brokers log in to each other, and what an operator sees contains no password."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from ottla.broker.server.first_users import parse_first_user
from ottla.broker.server.in_process import BrokersInProcess
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.broker.system.real_disk import RealOffload, RealProcess
from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.cluster.config_requests import ResourceType
from ottla.client.consumer import Consumer
from ottla.client.producer import Producer
from ottla.client.settings.config import ClientConfig
from ottla.protocol.ports import Ports
from ottla.wire.clock import RealClock
from ottla.wire.real import RealNet, RealRandom
from tests.support.sasl_broker import jaas

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

MARKER = "m4rker-of-a-password"
SETTINGS = {
    "listeners": "SASL_PLAINTEXT://127.0.0.1:0",
    "log.dirs": "/data",
    "security.inter.broker.protocol": "SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256",
    "listener.name.sasl_plaintext.plain.sasl.jaas.config": jaas("PLAIN", user_alice=MARKER),
    "listener.name.sasl_plaintext.scram-sha-256.sasl.jaas.config": jaas(
        "SCRAM-SHA-256", username="broker", password=MARKER
    ),
    "sasl.jaas.config": jaas("SCRAM-SHA-512", username="x", password=MARKER),
    "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-256",
    "group.initial.rebalance.delay.ms": "0",
    "offsets.topic.num.partitions": "1",
}
CLIENT = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.username": "alice",
    "sasl.password": MARKER,
}


@pytest.fixture
async def cluster() -> AsyncIterator[BrokersInProcess]:
    """Three brokers that know each other by a SCRAM user."""
    ports = Ports(
        clock=RealClock(),
        random=RealRandom(),
        net=RealNet(),
        disk=MemoryDisk(),
        offload=RealOffload(),
        process=RealProcess(),
    )
    brokers = BrokersInProcess(ports, SETTINGS, 3)
    brokers.first_users = [parse_first_user(f"SCRAM-SHA-256=[name=broker,password={MARKER}]")]
    await brokers.start()
    try:
        yield brokers
    finally:
        await brokers.stop()


async def test_brokers_replicate_over_a_listener_with_sasl(
    cluster: BrokersInProcess, caplog: pytest.LogCaptureFixture
) -> None:
    """Controller, fetchers and coordinators all log in; no password is written anywhere."""
    caplog.set_level(logging.DEBUG)
    where = ",".join(str(broker.address) for broker in cluster.brokers)
    config = ClientConfig.from_properties(CLIENT)
    async with Admin(where, config) as admin:
        await admin.create_topics([NewTopic("t", 1, 3)])
        described = [
            repr(await admin.describe_configs(ResourceType.BROKER, str(number)))
            for number in (1, 2, 3)
        ]
    async with Producer(where, security=CLIENT, acks="all") as producer:
        sent = await (await producer.send("t", b"replicated"))
    async with Consumer(where, security=CLIENT, group_id="g", offset_reset="earliest") as consumer:
        await consumer.subscribe(["t"])
        async for record in consumer:
            assert record.value == b"replicated"
            break

    assert sent.offset == 0
    principals = {
        session.authenticated.user
        for broker in cluster.brokers
        for session in broker.parts.logins._sessions.values()
    }
    assert "broker" in principals
    assert not any(broker.parts.logins.failure_count for broker in cluster.brokers)
    of_brokers = [repr(one.config.sasl) for one in cluster.brokers]
    shown = [*described, *of_brokers, caplog.text, repr(config)]
    assert not any(MARKER in text for text in shown)
