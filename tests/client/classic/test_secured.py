"""The first APIs where the brokers ask for TLS and a login: by the names of today's settings."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.classic import (
    FetchRequest,
    Producer,
    ProducerData,
    SimpleConsumer,
)
from ottla.client.classic.reaching import NoBrokers
from ottla.wire.errors import AuthenticationFailed
from tests.client.classic.site import StreamReader, classic_site
from tests.support import certificates
from tests.support.sasl_broker import jaas

if TYPE_CHECKING:
    from pathlib import Path


def broker() -> dict[str, str]:
    """The listener's name has no underscore: the site turns those into dots."""
    return {
        "listeners": "CLIENTS://127.0.0.1:0,BROKERS://127.0.0.1:0",
        "listener_security_protocol_map": "CLIENTS:SASL_SSL,BROKERS:PLAINTEXT",
        "inter_broker_listener_name": "BROKERS",
        "sasl_enabled_mechanisms": "PLAIN",
        "listener_name_clients_plain_sasl_jaas_config": jaas("PLAIN", user_alice="alice-secret"),
        "ssl_keystore_location": certificates.store("broker"),
    }


def login(password: str = "alice-secret", protocol: str = "SASL_SSL") -> dict[str, object]:
    """Settings of a client."""
    return {
        "security.protocol": protocol,
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": password,
        "ssl.ca.location": certificates.trust(),
    }


@pytest.mark.parametrize("storage", ["zookeeper", "kafka"])
async def test_groups_and_producers_that_ask_zookeeper_find_the_secured_listener(
    tmp_path: Path, storage: str
) -> None:
    """ZooKeeper lists both listeners; the client takes the one that speaks its protocol."""
    async with classic_site(tmp_path, 1, **broker()) as site:
        await site.topic("t", {0: [1], 1: [1]})

        def send() -> None:
            named = {"zk.connect": site.brokers.place, **login()}
            with Producer(named) as producer:
                assert len(producer.partitions_of("t")) == 2
                producer.send([ProducerData("t", b"k", [b"%d" % number]) for number in range(9)])

        await asyncio.to_thread(send)
        named = {"offsets.storage": storage, **login()}
        connector = site.connector("g", **named)
        streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
        reader = StreamReader(streams["t"][0])
        await site.until(lambda: len(reader.values) == 9)
        await asyncio.to_thread(connector.commit_offsets)
        await asyncio.to_thread(connector.shutdown)

        assert reader.failure is None
        assert sorted(reader.values) == [b"%d" % number for number in range(9)]


async def test_listed_brokers_and_the_low_level_consumer_log_in(tmp_path: Path) -> None:
    """A wrong password is told as such."""
    async with classic_site(tmp_path, 1, **broker()) as site:
        await site.topic("t", {0: [1]})
        host, _, port = site.bootstrap.rpartition(":")

        def use() -> list[bytes | None]:
            with Producer({"broker.list": site.bootstrap, **login()}) as producer:
                producer.send(ProducerData("t", None, [b"a", b"b"]))
            with SimpleConsumer(host, int(port), security=login()) as consumer:
                found = consumer.fetch(FetchRequest("t", 0, 0, 100_000))
                values = [one.message for one in found]
            with (
                SimpleConsumer(host, int(port), security=login("wrong")) as consumer,
                pytest.raises(AuthenticationFailed, match="alice"),
            ):
                consumer.fetch(FetchRequest("t", 0, 0, 100_000))
            return values

        assert await asyncio.to_thread(use) == [b"a", b"b"]


async def test_a_protocol_that_no_listener_speaks_is_told(tmp_path: Path) -> None:
    """The setting may be wrong, or ZooKeeper knows less than the operator."""
    async with classic_site(tmp_path, 1, **broker()) as site:
        named = {"zk.connect": site.brokers.place, **login(protocol="SASL_PLAINTEXT")}
        named.pop("ssl.ca.location")
        with pytest.raises(NoBrokers, match=r"for SASL_PLAINTEXT: set security\.protocol"):
            await asyncio.to_thread(Producer, named)


def test_an_unknown_setting_of_a_login_is_told_by_its_name() -> None:
    """As with today's clients."""
    with pytest.raises(ValueError, match=r"sasl\.user"):
        Producer({"broker.list": "127.0.0.1:1", "sasl.user": "alice"})
