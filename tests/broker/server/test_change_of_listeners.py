"""Brokers amid a change of ``inter.broker.listener.name``: each comes by its own way."""

from __future__ import annotations

from types import MappingProxyType

import pytest

from ottla.broker.server.in_process import BrokersInProcess
from ottla.client.admin import Admin
from ottla.client.administration.topic_requests import NewTopic
from ottla.client.producer import Producer
from ottla.coordinator.configs.broker_configs import (
    ConfigError,
    broker_config,
    parse_broker_config,
)
from ottla.coordinator.configs.configs import ConfigSources
from tests.support.cluster import real_ports

BOTH = {
    "listeners": "OLD://127.0.0.1:0,NEW://127.0.0.1:0",
    "advertised.listeners": "OLD://127.0.0.1:0,NEW://127.0.0.1:0",
    "listener.security.protocol.map": "OLD:PLAINTEXT,NEW:PLAINTEXT",
    "inter.broker.listener.name": "OLD",
    "ottla.inter.broker.listeners": "OLD,NEW",
    "log.dirs": "/data",
    "min.insync.replicas": "3",
}


async def test_brokers_of_both_settings_replicate_to_each_other() -> None:
    """The controller and the followers reach the changed broker by the old listener, and it
    reaches them by the new one. Refused, they could not even elect a controller, and a rolling
    change would be an outage."""
    cluster = BrokersInProcess(real_ports(), BOTH, 3)
    changed = {**cluster._configs[1].static, "inter.broker.listener.name": "NEW"}
    cluster._configs[1] = broker_config(ConfigSources(static=MappingProxyType(changed)))
    await cluster.start()
    try:
        address = str(cluster.brokers[0].addresses["OLD"])
        async with Admin(address) as admin:
            await admin.create_topic(NewTopic("t", 3, 3))
        # Each of them leads one partition, and all three have to write.
        async with Producer(address, acks="all", delivery_timeout_ms=60_000) as producer:
            for partition in range(3):
                await (await producer.send("t", b"x", partition=partition))
    finally:
        await cluster.stop()


def test_a_listener_that_is_not_there_is_refused() -> None:
    """A slip would keep brokers apart in the middle of the change."""
    with pytest.raises(ConfigError, match="SECURE is none of the listeners"):
        parse_broker_config({**BOTH, "ottla.inter.broker.listeners": "OLD,SECURE"})
