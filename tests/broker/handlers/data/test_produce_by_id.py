"""Produce from version 13 on names topics by their ids (KIP-516)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from ottla.protocol.errors import ErrorCode
from tests.broker.support.followers import Replicated, replicated
from tests.broker.support.requests import TOPIC, batch, create, fetched, produce, topic_id_of
from tests.support.in_process import running_broker

if TYPE_CHECKING:
    from ottla.protocol.messages.produce import ProduceRequest
    from tests.support.raw_client import RawClient

VERSION = 13
BY_ID = "version 13 knows no names"
# A client id of null takes the general path, as does the first request of a version.
PATHS = pytest.mark.parametrize("client_id", ["raw", None])


def by_id(topic_id: bytes, **more: Any) -> ProduceRequest:
    """A request for partition 0 of the topic that has the id."""
    request = produce(batch(b"x"), **more)
    request.topic_data[0].name, request.topic_data[0].topic_id = BY_ID, topic_id
    return request


async def answered(client: RawClient, request: ProduceRequest, client_id: str | None) -> Any:
    """The topic's answer to the second of two such requests."""
    for _ in range(2):
        client.send(VERSION, request, client_id)
        answer = await client.answer(VERSION, request)
    (topic,) = answer.responses
    return topic


@PATHS
@pytest.mark.parametrize("acks", [1, -1])
async def test_a_topic_named_by_its_id_is_appended_to(
    client: RawClient, client_id: str | None, acks: int
) -> None:
    """The answer names it by the id as well."""
    await create(client)
    topic_id = await topic_id_of(client, TOPIC)

    topic = await answered(client, by_id(topic_id, acks=acks), client_id)

    assert bytes(topic.topic_id) == topic_id
    (part,) = topic.partition_responses
    assert (part.error_code, part.base_offset) == (ErrorCode.NONE, 1)


@PATHS
@pytest.mark.parametrize("topic_id", [bytes(16), b"no such topic id"])
@pytest.mark.parametrize("acks", [1, 2])
async def test_an_id_that_no_topic_has_is_said(
    client: RawClient, client_id: str | None, topic_id: bytes, acks: int
) -> None:
    """Retriable: a producer asks for metadata and sends again. Kafka looks at acks later."""
    topic = await answered(client, by_id(topic_id, acks=acks), client_id)

    assert bytes(topic.topic_id) == topic_id
    assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID


@PATHS
async def test_a_topic_that_took_over_the_name_is_not_appended_to(client_id: str | None) -> None:
    """A producer that means the topic before must not write into the one that follows it."""
    async with running_broker() as running, running.connect() as client:
        await create(client)
        topic_id = await topic_id_of(client, TOPIC)
        partition = running.broker.partitions.find(TOPIC, 0)
        assert partition is not None
        partition.log.topic_id = b"another topic id"

        topic = await answered(client, by_id(topic_id), client_id)

        assert topic.partition_responses[0].error_code == ErrorCode.UNKNOWN_TOPIC_ID
        assert (await fetched(client, 0)).high_watermark == 0


async def test_acks_zero_for_an_unknown_id_closes_the_connection(client: RawClient) -> None:
    """It is the only way left to tell the producer."""
    client.send(VERSION, by_id(b"no such topic id", acks=0))

    with pytest.raises(EOFError):
        await client.frame()


async def test_a_partition_that_the_topic_does_not_have_is_said(client: RawClient) -> None:
    """The id is known, so the partition is what is missing."""
    await create(client)
    topic_id = await topic_id_of(client, TOPIC)

    answer = await client.call(VERSION, by_id(topic_id, partition=7))

    (part,) = answer.responses[0].partition_responses
    assert part.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


async def _timed_out(site: Replicated, client: RawClient, client_id: str | None) -> Any:
    request = by_id(site.topic_id)
    request.timeout_ms = 100
    return await answered(client, request, client_id)


@PATHS
async def test_an_answer_that_comes_late_names_the_id(client_id: str | None) -> None:
    """A request that timed out is answered by another function than one that succeeds."""
    async with replicated() as site, site.connect() as client:
        topic = await _timed_out(site, client, client_id)

        assert bytes(topic.topic_id) == site.topic_id
        assert topic.partition_responses[0].error_code == ErrorCode.REQUEST_TIMED_OUT


@PATHS
async def test_a_follower_names_the_leader_of_a_topic_by_id(client_id: str | None) -> None:
    """The leader is looked up by name, which the request does not have (KIP-951)."""
    async with replicated() as site, site.connect(site.first) as client:
        topic = await answered(client, by_id(site.topic_id), client_id)

        (part,) = topic.partition_responses
        assert part.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER
        assert part.current_leader.leader_id == site.leader_id
