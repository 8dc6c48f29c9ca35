"""Clients push to a running broker: raw requests, and librdkafka as it is."""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import Producer

from ottla.client.admin import Admin
from ottla.client.cluster.config_requests import ConfigChange, ResourceType
from ottla.protocol.configs import ConfigOperation
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import ZERO_UUID
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from ottla.protocol.messages.push_telemetry import PushTelemetryRequest
from ottla.protocol.records.compression import Codec, compress
from ottla.wire.errors import RequestRefused
from tests.broker.telemetry.test_series import pushed
from tests.client.support.sites import soon
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker

ON = {"ottla.client.telemetry": "true", "telemetry.max.bytes": "4096"}
SUB = ResourceType.CLIENT_METRICS


def page(running: RunningBroker) -> str:
    """The metrics page."""
    found = running.broker.pages.page("/metrics")
    assert found is not None
    return "".join(found.lines)


async def current_page(running: RunningBroker) -> str:
    """The metrics page, while the broker goes on."""
    return page(running)


async def subscribe(running: RunningBroker, **values: str) -> None:
    """Set the subscription ``all``; underscores stand for dots."""
    changes = [
        ConfigChange(name.replace("_", "."), ConfigOperation.SET, value)
        for name, value in values.items()
    ]
    async with Admin(str(running.broker.address)) as admin:
        await admin.alter_configs(SUB, "all", changes)


async def test_a_broker_without_a_receiver_lists_no_api_for_pushes() -> None:
    """Java's clients and librdkafka push to each broker that lists the API."""
    async with running_broker() as running, running.connect() as client:
        request = ApiVersionsRequest(client_software_name="t", client_software_version="1")
        listed = {one.api_key for one in (await client.call(4, request)).api_keys}
        answer = await client.call(0, GetTelemetrySubscriptionsRequest())

    assert not listed & {71, 72}
    assert 74 in listed
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION


async def test_a_client_gets_its_subscription_and_pushes() -> None:
    """The whole exchange of KIP-714, with the errors that tell a client what to do."""
    async with running_broker(ON) as running, running.connect() as client:
        request = ApiVersionsRequest(client_software_name="lib", client_software_version="1")
        listed = {one.api_key for one in (await client.call(4, request)).api_keys}
        await subscribe(running, metrics="*", interval_ms="100", match="client_software_name=lib")
        asked = await client.call(0, GetTelemetrySubscriptionsRequest())
        push = PushTelemetryRequest(
            client_instance_id=asked.client_instance_id,
            subscription_id=asked.subscription_id,
            compression_type=Codec.ZSTD,
            metrics=compress(Codec.ZSTD, pushed(2)),
        )
        codes = [(await client.call(0, push)).error_code]
        text = page(running)
        codes.append((await client.call(0, push)).error_code)
        push.terminating = True
        push.metrics = bytes(4097)
        codes.append((await client.call(0, push)).error_code)
        codes.append((await client.call(0, push)).error_code)
        push.client_instance_id = ZERO_UUID
        codes.append((await client.call(0, push)).error_code)

    assert {71, 72, 74} <= listed
    assert (asked.requested_metrics, asked.push_interval_ms) == (["*"], 100)
    assert (asked.telemetry_max_bytes, asked.delta_temporality) == (4096, True)
    assert list(asked.accepted_compression_types) == [4, 3, 1, 2]
    assert asked.client_instance_id != ZERO_UUID
    assert codes == [
        ErrorCode.NONE,
        ErrorCode.THROTTLING_QUOTA_EXCEEDED,
        ErrorCode.TELEMETRY_TOO_LARGE,
        ErrorCode.INVALID_REQUEST,
        ErrorCode.INVALID_REQUEST,
    ]
    assert "kafka_client_c_total{" in text
    assert 'client_software_name="lib",group_id="g"' in text
    assert "ottla_client_telemetry_clients 1\n" in text


async def test_a_push_for_a_changed_subscription_makes_the_client_ask_again() -> None:
    """The change reaches a client at its next push."""
    async with running_broker(ON) as running, running.connect() as client:
        asked = await client.call(0, GetTelemetrySubscriptionsRequest())
        await subscribe(running, metrics="org.apache.kafka.consumer")
        push = PushTelemetryRequest(
            client_instance_id=asked.client_instance_id, subscription_id=asked.subscription_id
        )
        refused = (await client.call(0, push)).error_code
        again = await client.call(
            0, GetTelemetrySubscriptionsRequest(client_instance_id=asked.client_instance_id)
        )

    assert asked.requested_metrics == []
    assert refused == ErrorCode.UNKNOWN_SUBSCRIPTION_ID
    assert again.requested_metrics == ["org.apache.kafka.consumer"]
    assert again.subscription_id != asked.subscription_id


async def test_subscriptions_are_listed_described_and_deleted() -> None:
    """As ``kafka-client-metrics.sh`` does it: a subscription without settings is none."""
    async with running_broker() as running, Admin(str(running.broker.address)) as admin:
        await subscribe(running, metrics="*")
        listed = await admin.list_metrics_subscriptions()
        entries = await admin.describe_configs(SUB, "all")
        with pytest.raises(RequestRefused, match="attribute=expression"):
            await subscribe(running, match="nonsense")
        await admin.alter_configs(SUB, "all", [ConfigChange("metrics", ConfigOperation.DELETE)])
        after = await admin.list_metrics_subscriptions()

    assert (listed, after) == (["all"], [])
    assert [(one.name, one.value) for one in entries] == [
        ("interval.ms", "300000"),
        ("match", ""),
        ("metrics", "*"),
    ]


async def test_librdkafka_pushes_its_metrics() -> None:
    """The client that most people have, unmodified: its pushes are the judge of ours."""
    async with running_broker(ON | {"telemetry.max.bytes": "1048576"}) as running:
        await subscribe(running, metrics="*", interval_ms="200")
        settings = {"bootstrap.servers": str(running.broker.address), "client.id": "shop"}
        producer = Producer(settings | {"enable.metrics.push": True})
        try:
            producer.produce("pushed", b"x")
            await asyncio.to_thread(producer.flush, 20)
            text = await soon(partial(current_page, running), lambda text: 'id="shop"' in text)
        finally:
            await asyncio.to_thread(producer.close)

    lines = [line for line in text.splitlines() if line.startswith("kafka_client_")]
    assert any(
        line.startswith("kafka_client_producer_connection_creation_total{") for line in lines
    )
    assert all('client_software_name="' in line for line in lines)
