"""Clients above their quotas: throttle times in answers, and connections that are not read from."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from ottla.broker.network.connection import MUTED
from ottla.protocol.compile import encode
from ottla.protocol.errors import ErrorCode
from ottla.protocol.headers import RequestHeader, encode_request_header
from ottla.protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from ottla.protocol.messages.api_versions import ApiVersionsRequest
from ottla.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.broker.support.requests import batch, create, fetch, list_offsets, produce, produced
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from tests.support.in_process import RunningBroker
    from tests.support.raw_client import RawClient

# So slow that no time which a test takes pays a debt.
RATE = 1_000.0
CLIENT = [EntityData(entity_type="client-id", entity_name="slow")]


async def limit(
    client: RawClient, key: str, value: float | None, whom: list[EntityData] = CLIENT
) -> None:
    """Give the client id "slow" a quota, or take it away."""
    op = OpData(key=key, value=value or 0.0, remove=value is None)
    entry = AlterClientQuotasRequestEntryData(entity=whom, ops=[op])
    answer = await client.call(1, AlterClientQuotasRequest(entries=[entry]))
    assert [one.error_code for one in answer.entries] == [0]


def muted_count(running: RunningBroker) -> int:
    """Connections that are not read from."""
    assert running.broker.state.requests is not None
    processors = running.broker.state.requests.network._processors
    return sum(
        bool(connection.blocked & MUTED)
        for processor in processors
        for connection in processor.connections
    )


@pytest.mark.parametrize(("version", "acks"), [(3, 1), (9, 1), (9, -1)])
async def test_a_producer_above_its_quota_is_answered_at_once_and_not_read_from(
    version: int, acks: int
) -> None:
    """The records are stored, the answer says for how long, the connection waits (KIP-219)."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await create(client)
        await limit(client, "producer_byte_rate", RATE)
        request = produce(batch(b"x" * 10_000), acks=acks)
        slow.send(version, request, "slow")
        answer = await slow.answer(version, request)

        assert answer.responses[0].partition_responses[0].error_code == 0
        assert 9_000 <= answer.throttle_time_ms <= 9_700
        assert muted_count(running) == 1
        # The same connection for another client id, which has no quota.
        assert (await produced(client, batch(b"x" * 10_000), version)).error_code == 0
        request = produce(batch(b"y" * 10_000), acks=acks)
        response = await client.call(version, request)
        assert response.throttle_time_ms == 0


async def test_requests_sent_ahead_do_not_overdraw_the_quota() -> None:
    """A producer with many requests on their way is held from the first on that is too many."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await create(client)
        await limit(client, "producer_byte_rate", RATE)
        for _ in range(50):
            slow.send(9, produce(batch(b"x" * 10_000)), "slow")
        await slow.answer(9, produce(b""))
        found = await client.call(9, list_offsets(-1))

        assert found.topics[0].partitions[0].offset == 1


async def test_a_producer_that_wants_no_answer_is_held_as_well() -> None:
    """There is no answer that could tell it; it notices that nothing is taken."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await create(client)
        await limit(client, "producer_byte_rate", RATE)
        for _ in range(3):
            slow.send(9, produce(batch(b"x" * 10_000), acks=0), "slow")
        slow.send(0, ApiVersionsRequest(), "other")
        while not muted_count(running):
            await client.call(0, ApiVersionsRequest())
        found = await client.call(9, list_offsets(-1))

        assert found.topics[0].partitions[0].offset == 1


async def test_a_client_id_that_is_no_text_does_not_leave_its_user_without_quota() -> None:
    """Such a request is refused, whichever way it takes through the broker."""
    user = [EntityData(entity_type="user", entity_name="ANONYMOUS")]
    request = produce(batch(b"x" * 10_000))
    async with running_broker() as running, running.connect() as client:
        await create(client)
        await produced(client, batch(b"x"), 9)
        await limit(client, "producer_byte_rate", RATE, user)
        out = bytearray()
        encode_request_header(out, RequestHeader(0, 9, 1, "slow"))
        frame = bytes(out).replace(b"slow", b"\xff\xfe\xfd\xfc") + encode(request, 9)
        async with running.connect() as sly:
            sly.send_frame(frame)
            with pytest.raises(EOFError):
                await sly.frame()


async def test_topics_that_are_created_by_their_name_count_against_the_quota() -> None:
    """Otherwise a client that may not create more topics asks for their metadata."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await limit(client, "controller_mutation_rate", 0.01)
        topics = [MetadataRequestTopic(name=f"t{number}") for number in range(50)]
        request = MetadataRequest(topics, allow_auto_topic_creation=True)
        slow.send(9, request, "slow")
        answer = await slow.answer(9, request)
        assert answer.throttle_time_ms > 0
        assert {one.error_code for one in answer.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
        async with asyncio.timeout(30):
            while not running.broker.metadata.topic_names():
                await asyncio.sleep(0.01)
        await asyncio.sleep(0.3)
        assert len(running.broker.metadata.topic_names()) == 1


@pytest.mark.parametrize("version", [4, 12])
async def test_a_consumer_above_its_quota_gets_nothing_but_the_time(version: int) -> None:
    """What it got before is over its quota; the next fetch is empty and says how long (KIP-219)."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await create(client)
        for _ in range(3):
            await produced(client, batch(b"x" * 10_000))
        await limit(client, "consumer_byte_rate", RATE)
        slow.send(version, fetch(0), "slow")
        first = await slow.answer(version, fetch(0))
        slow.send(version, fetch(0), "slow")
        second = await slow.answer(version, fetch(0))
        unlimited = await client.call(version, fetch(0))

        part = first.responses[0].partitions[0]
        assert first.throttle_time_ms == 0
        # One batch always comes, however large; the others are for later.
        assert 10_000 <= len(part.records) < 20_000
        assert second.responses == []
        assert 9_000 <= second.throttle_time_ms <= 30_000
        assert muted_count(running) == 1
        assert unlimited.throttle_time_ms == 0
        assert len(unlimited.responses[0].partitions[0].records) > 30_000


async def test_a_fetch_session_survives_a_throttled_answer() -> None:
    """Its epoch goes on: otherwise each hold would cost the client a full request."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await create(client, partitions=20)
        await produced(client, batch(b"x" * 10_000))
        begin = fetch(0, session_id=0, session_epoch=0)
        wanted = begin.topics[0].partitions[0]
        begin.topics[0].partitions = [
            type(wanted)(partition=index, fetch_offset=0, partition_max_bytes=1 << 20)
            for index in range(20)
        ]
        slow.send(12, begin, "slow")
        session_id = (await slow.answer(12, begin)).session_id
        assert session_id > 0
        await limit(client, "consumer_byte_rate", RATE)
        answers = []
        for epoch in (1, 2, 3):
            more = fetch(0, session_id=session_id, session_epoch=epoch)
            more.topics = []
            slow.send(12, more, "slow")
            answers.append(await slow.answer(12, more))
            if epoch == 2:
                assert answers[1].throttle_time_ms > 0
                await limit(client, "consumer_byte_rate", None)
                unmute(running)

        assert [answer.error_code for answer in answers] == [0, 0, 0]
        assert [answer.session_id for answer in answers] == [session_id] * 3
        assert len(answers[2].responses[0].partitions[0].records) > 10_000


def unmute(running: RunningBroker) -> None:
    """As if the time were over."""
    assert running.broker.state.requests is not None
    for processor in running.broker.state.requests.network._processors:
        for connection in list(processor.connections):
            if connection.blocked & MUTED:
                connection._muted_until_ms = 0.0
                connection._on_unmute()


async def test_request_time_above_the_quota_is_told_in_every_answer() -> None:
    """Whatever the API is, also one that has nothing to do with records."""
    async with running_broker() as running, running.connect() as client, running.connect() as slow:
        await create(client)
        # A thousandth of a percent: one millisecond of work is a hundred seconds of quota.
        await limit(client, "request_percentage", 0.001)
        request = list_offsets(-1)
        throttled = 0
        for _ in range(20):
            slow.send(9, request, "slow")
            throttled = (await slow.answer(9, request)).throttle_time_ms
            if throttled:
                break

        assert 0 < throttled <= 1_000
        assert (await client.call(9, request)).throttle_time_ms == 0


async def test_without_quotas_no_request_is_metered() -> None:
    """The flag that requests look at follows the quotas that are set."""
    async with running_broker() as running, running.connect() as client:
        quotas = running.broker.state.requests.dispatcher._services.quotas  # type: ignore[union-attr]
        states = [quotas.is_active]
        for value in (RATE, None):
            await limit(client, "producer_byte_rate", value)
            states.append(quotas.is_active)

        assert states == [False, True, False]
