"""A broker whose listener encrypts, with clients that may and clients that may not."""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import pytest

import ottla
from ottla.broker.server.broker import CannotStart
from ottla.broker.system.memory_disk import MemoryDisk
from ottla.wire.errors import AuthenticationFailed, BrokerUnreachable
from tests.support import certificates
from tests.support.in_process import running_broker
from tests.support.ports import free_ports

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.support.in_process import RunningBroker


def listener(**more: str) -> dict[str, str]:
    """Settings of a broker with one listener for SSL."""
    return {
        "listeners": "SSL://127.0.0.1:0",
        "security.inter.broker.protocol": "SSL",
        "ssl.keystore.location": certificates.store("broker"),
        "ssl.truststore.location": certificates.trust(),
        "auto.create.topics.enable": "false",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


def secured(**more: str) -> dict[str, object]:
    """Properties of a client that trusts the broker."""
    return {
        "security.protocol": "SSL",
        "ssl.ca.location": certificates.trust(),
        **{name.replace("_", "."): value for name, value in more.items()},
    }


@asynccontextmanager
async def admin(
    running: RunningBroker, properties: dict[str, object]
) -> AsyncIterator[ottla.Admin]:
    """An admin client of the broker."""
    address = running.broker.address
    async with ottla.Admin(f"{address.host}:{address.port}", security=properties) as client:
        yield client


async def test_records_pass_through_an_encrypted_listener() -> None:
    """Small ones and batches of many TLS records, both ways."""
    values = [bytes([number]) * 200_000 for number in range(20)]
    async with running_broker(listener()) as running:
        address = f"{running.broker.address.host}:{running.broker.address.port}"
        async with admin(running, secured()) as client:
            await client.create_topics([ottla.NewTopic("t", 1)])
        async with ottla.Producer(address, security=secured()) as producer:
            for value in values:
                await producer.send("t", value)
            await producer.flush()
        found = []
        async with ottla.Consumer(address, offset_reset="earliest", security=secured()) as consumer:
            consumer.assign([ottla.TopicPartition("t", 0)])
            async for record in consumer:
                found.append(record.value)
                if len(found) == len(values):
                    break
    assert found == values


@pytest.mark.parametrize(
    ("broker", "properties", "sentence"),
    [
        ({}, {"ssl_ca_location": "other"}, "not signed by an authority that is trusted here"),
        ({"ssl_keystore_location": "expired"}, {}, "the broker's certificate has expired"),
        ({"ssl_keystore_location": "elsewhere"}, {}, "certificate is not for 127.0.0.1"),
        ({"ssl_client_auth": "required"}, {}, "wants a certificate of the client"),
        (
            {"ssl_client_auth": "required"},
            {"ssl_keystore_location": "stranger"},
            "has refused the certificate of this client",
        ),
        (
            {"ssl_client_auth": "requested"},
            {"ssl_keystore_location": "retired"},
            "has refused the certificate of this client",
        ),
        (
            {"ssl_enabled_protocols": "TLSv1.3"},
            {"ssl_enabled_protocols": "TLSv1.2"},
            "no TLS version in common",
        ),
    ],
)
async def test_a_client_hears_at_once_why_it_cannot_connect(
    broker: dict[str, str], properties: dict[str, str], sentence: str
) -> None:
    """It is not tried again and again until a call ends with a timeout."""
    for settings in (broker, properties):
        for name, value in settings.items():
            if name.endswith("keystore_location"):
                settings[name] = certificates.store(value)
            elif value == "other":
                settings[name] = certificates.trust("other")
    async with running_broker(listener(**broker)) as running:
        with pytest.raises(AuthenticationFailed, match=sentence) as raised:
            async with admin(running, secured(**properties)) as client:
                await client.list_topics()
    assert not raised.value.retriable


async def test_certificates_of_clients_are_in_the_audit_log() -> None:
    """Who came in by which name, and who was refused and why."""
    disk = MemoryDisk()
    disk.make_directory("/audit")
    settings = {
        "ottla.audit.log": "/audit/lines",
        **listener(ssl_client_auth="required"),
        "ssl.principal.mapping.rules": "RULE:^CN=(.*?),.*$/$1/U",
    }
    async with running_broker(settings, disk=disk) as running:
        trusted = secured(ssl_keystore_location=certificates.store("client"))
        async with admin(running, trusted) as client:
            await client.list_topics()
        with pytest.raises(AuthenticationFailed):
            async with admin(
                running, secured(ssl_keystore_location=certificates.store("stranger"))
            ) as client:
                await client.list_topics()
    kept = disk.open("/audit/lines")
    lines = [json.loads(line) for line in kept.pread(kept.size_bytes, 0).splitlines()]
    told = [(one["event"], one["principal"]) for one in lines if one.get("mechanism") == "SSL"]
    assert ("authentication", "User:ALICE") in told
    assert ("authentication-failure", "User:ANONYMOUS") in told


async def test_a_refusal_outweighs_brokers_that_are_down() -> None:
    """Of several addresses the one that needs another setting is what the user has to hear of."""
    async with running_broker(listener()) as running:
        good, closed = running.broker.address, free_ports(2)
        servers = [f"{good.host}:{port}" for port in (closed[0], good.port, closed[1])]
        untrusting = secured(ssl_ca_location=certificates.trust("other"))
        for _ in range(5):
            with pytest.raises(AuthenticationFailed):
                async with ottla.Admin(",".join(servers), security=untrusting) as client:
                    await client.list_topics()


async def test_a_name_is_not_checked_where_the_algorithm_is_empty() -> None:
    """Kafka's way to use a certificate under another name."""
    settings = listener(ssl_keystore_location=certificates.store("elsewhere"))
    async with (
        running_broker(settings) as running,
        admin(running, secured(ssl_endpoint_identification_algorithm="")) as client,
    ):
        await client.list_topics()


async def test_a_plaintext_client_of_an_encrypted_listener_learns_what_to_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """And the operator sees in the log, once for each address, what speaks there."""
    async with running_broker(listener()) as running:
        for _ in range(2):
            with pytest.raises(AuthenticationFailed, match="it speaks TLS on this port"):
                async with admin(running, {}) as client:
                    await client.list_topics()
        login: dict[str, object] = {
            "security.protocol": "SASL_PLAINTEXT",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "a",
            "sasl.password": "b",
        }
        with pytest.raises(AuthenticationFailed, match=r"set security\.protocol to SASL_SSL"):
            async with admin(running, login) as client:
                await client.list_topics()
        reader, writer = await asyncio.open_connection(*running.broker.address)
        writer.write(b"GET / HTTP/1.1\r\n\r\n")
        await reader.read()
        writer.close()
    told = [one.getMessage() for one in caplog.records if "closed a connection" in one.getMessage()]
    assert sum("Kafka's protocol without TLS" in text for text in told) == 1
    assert sum("speaks HTTP" in text for text in told) == 1


async def test_a_tls_client_of_a_plaintext_listener_learns_what_to_set(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The broker sees the beginning of a handshake as a request of 369 MB."""
    async with running_broker() as running:
        with pytest.raises(BrokerUnreachable, match=r"set security\.protocol to PLAINTEXT"):
            async with admin(running, secured()) as client:
                await client.list_topics()
    assert any("it speaks TLS" in one.getMessage() for one in caplog.records)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"ssl_keystore_location": ""}, "needs a key and certificates"),
        ({"ssl_keystore_location": "/nowhere.pem"}, "/nowhere.pem: no such file"),
        ({"ssl_truststore_location": "", "ssl_client_auth": "required"}, "needs ssl.truststore"),
        ({"ssl_principal_mapping_rules": "RULE:x"}, "ssl.principal.mapping.rules needs"),
    ],
)
async def test_a_broker_without_usable_certificates_says_so_and_does_not_start(
    settings: dict[str, str], sentence: str
) -> None:
    """A listener that wants encryption must not come up without it."""
    with pytest.raises(CannotStart, match=sentence):
        async with running_broker(listener(**settings)):
            pass


async def test_settings_of_one_listener_come_before_those_of_all() -> None:
    """An outer listener may show another certificate than the inner one."""
    settings = {
        **listener(ssl_keystore_location=certificates.store("expired")),
        "listener.name.ssl.ssl.keystore.location": certificates.store("broker"),
    }
    async with running_broker(settings) as running, admin(running, secured()) as client:
        await client.list_topics()


async def test_certificates_are_reloaded_and_bad_ones_leave_the_old_ones(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Renewing a certificate every few weeks must not cost a restart, nor a bad copy an outage."""
    caplog.set_level(logging.INFO)
    path = tmp_path / "broker.pem"
    path.touch(mode=0o600)
    path.write_text(certificates.issued("expired").both)
    async with running_broker(listener(ssl_keystore_location=str(path))) as running:
        with pytest.raises(AuthenticationFailed, match="has expired"):
            async with admin(running, secured()) as client:
                await client.list_topics()
        path.write_text(certificates.issued("broker").both)
        running.broker.parts.tls.refresh()
        async with admin(running, secured()) as client:
            await client.list_topics()
        path.write_text(certificates.issued("broker").key)
        running.broker.parts.tls.refresh()
        running.broker.parts.tls.refresh()
        async with admin(running, secured()) as client:
            await client.list_topics()
    messages = [one.getMessage() for one in caplog.records]
    assert sum("has expired: renew it" in text for text in messages) == 1
    assert sum("has a new certificate" in text for text in messages) == 1
    assert sum("keeps its certificate" in text for text in messages) == 1


async def test_another_key_store_can_be_named_while_the_broker_runs() -> None:
    """As kafka-configs does it: for one listener of one broker. Secrets stay in files."""
    name = "listener.name.ssl.ssl.keystore.location"
    settings = listener(ssl_keystore_location=certificates.store("elsewhere"))
    any_name = secured(ssl_endpoint_identification_algorithm="")
    async with running_broker(settings) as running:
        with pytest.raises(AuthenticationFailed, match="is not for"):
            async with admin(running, secured()) as client:
                await client.list_topics()
        broker = (ottla.ResourceType.BROKER, str(running.broker.node_id))
        async with admin(running, any_name) as client:
            new = ottla.ConfigChange(name, ottla.ConfigOperation.SET, certificates.store("broker"))
            await client.alter_configs(*broker, [new])
            secret = ottla.ConfigChange(
                name.replace("location", "password"), ottla.ConfigOperation.SET, "x"
            )
            with pytest.raises(ottla.RequestRefused, match="is a secret"):
                await client.alter_configs(*broker, [secret])
        async with asyncio.timeout(60):
            while running.broker.parts.settings.sources.text(name) is None:
                await asyncio.sleep(0.01)
        running.broker.parts.tls.refresh()
        async with admin(running, secured()) as client:
            await client.list_topics()


async def test_a_handshake_that_does_not_go_on_holds_up_no_other() -> None:
    """Silent and half-open connections cost a descriptor, and nothing else, for ten seconds."""
    async with running_broker(listener()) as running:
        silent = [await asyncio.open_connection(*running.broker.address) for _ in range(300)]
        async with asyncio.timeout(60), admin(running, secured()) as client:
            await client.list_topics()
        for _, writer in silent:
            writer.close()
