"""The classic clients where ZooKeeper's znodes belong to the brokers, and where it speaks TLS."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.classic import Announcement, Producer, ProducerData
from ottla.client.classic.consumer_settings import ClassicConsumerConfig
from ottla.client.classic.producer_settings import ClassicProducerConfig
from ottla.client.classic.reaching import open_zookeeper
from ottla.coordinator.store.store import NoAuth
from tests.client.classic.site import StreamReader, classic_site
from tests.zookeeper.test_protected_nodes import _schemes
from tests.zookeeper.test_tls import keys, zookeeper

if TYPE_CHECKING:
    from pathlib import Path

# Fixtures.
__all__ = ("keys", "zookeeper")

LOGIN: dict[str, object] = {
    "ottla.zookeeper.digest": "kafka:secret",
    "zookeeper.set.acl": "true",
}


async def test_a_group_and_a_producer_use_a_zookeeper_that_is_closed_to_others(
    tmp_path: Path,
) -> None:
    """With the brokers' login they do; without it they fail, and read nothing."""
    own = {name.replace(".", "_"): str(value) for name, value in LOGIN.items()}
    async with classic_site(tmp_path, 1, **own) as site:
        async with ottla.Admin(site.bootstrap) as admin:
            await admin.create_topic(ottla.NewTopic("t", 2))

        def send() -> None:
            with Producer({"zk.connect": site.brokers.place, **LOGIN}) as producer:
                producer.send([ProducerData("t", b"k", [b"%d" % number]) for number in range(9)])

        await asyncio.to_thread(send)
        connector = site.connector("g", **LOGIN)
        streams = await asyncio.to_thread(connector.create_message_streams, {"t": 1})
        reader = StreamReader(streams["t"][0])
        await site.until(lambda: len(reader.values) == 9)
        await asyncio.to_thread(connector.commit_offsets)
        schemes = await asyncio.to_thread(_schemes, site.brokers.place)
        await asyncio.to_thread(connector.shutdown)
        stranger = site.connector("h")
        with pytest.raises(NoAuth):
            await asyncio.to_thread(stranger.create_message_streams, {"t": 1})
        with pytest.raises(NoAuth):
            await asyncio.to_thread(Announcement, site.brokers.place)

        def announce() -> None:
            Announcement(site.brokers.place, security=LOGIN).close()

        await asyncio.to_thread(announce)
    assert any(path.startswith("/consumers/g/offsets/t/") for path in schemes)
    assert {path: found for path, found in schemes.items() if found != {"digest"}} == {
        "/": {"world"}
    }


async def test_the_session_is_encrypted(keys: Path, zookeeper: str) -> None:
    """That server takes clients with a certificate only."""
    files = {
        "zookeeper.ssl.client.enable": "true",
        "zookeeper.ssl.truststore.location": str(keys / "ca.pem"),
        "zookeeper.ssl.keystore.location": str(keys / "server.pem"),
    }
    config = ClassicConsumerConfig.read({"zk.connect": zookeeper, "groupid": "g", **files})
    store = await open_zookeeper(zookeeper, 60_000, config.store_login)
    session = await store.connect(60_000)

    assert await session.exists("/") is not None
    await session.close()


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"zookeeper.set.acl": "true"}, r"needs ottla\.zookeeper\.digest"),
        ({"ottla.zookeeper.digest": "very-hidden"}, "has the form user:password"),
        ({"zookeeper.ssl.truststore.location": "ca.pem"}, r"need zookeeper\.ssl\.client\.enable"),
        (
            {"zookeeper.ssl.endpoint.identification.algorithm": "x"},
            "is HTTPS, or empty for no check",
        ),
    ],
)
def test_settings_that_cannot_be_meant_are_refused(
    settings: dict[str, object], sentence: str
) -> None:
    """Without the secret in the sentence."""
    with pytest.raises(ValueError, match=sentence) as raised:
        ClassicProducerConfig.read({"zk.connect": "x:1", **settings})
    assert "very-hidden" not in str(raised.value)


def test_secrets_are_not_shown() -> None:
    """A settings object may be logged."""
    files = {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.keystore.password": "key-secret"}
    shown = repr(ClassicProducerConfig.read({"zk.connect": "x:1", **LOGIN, **files}))

    assert "secret" not in shown
