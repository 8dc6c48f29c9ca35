"""Calls wait for a look-up of their topic that is under way, and give a deleted topic up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from ottla.client.backup.reading import Gone, RawReader
from ottla.client.cluster.cluster import ClusterClient
from ottla.client.cluster.metadata import NEWS_MS
from ottla.client.cluster.routing import Router
from ottla.client.fetching.offsets import list_offsets
from ottla.client.process.environment import real_environment
from ottla.client.settings.config import ClientConfig, Isolation, parse_addresses
from ottla.protocol.apis import ApiKey
from ottla.protocol.errors import ErrorCode
from ottla.protocol.ids import TopicPartition
from ottla.wire.backoff import Backoff
from ottla.wire.errors import RequestRefused
from tests.client.support.toy_broker import Fate, Seen

if TYPE_CHECKING:
    from tests.client.support.toy_broker import ToyCluster

FIRST = TopicPartition("t", 0)
# Well below the time of a call.
PATIENCE_S = 60


def _cluster(toy: ToyCluster) -> ClusterClient:
    config = ClientConfig(retry_backoff=Backoff(20, 50), call_timeout_ms=600_000)
    return ClusterClient(real_environment(), parse_addresses(toy.bootstrap), config)


async def _end(cluster: ClusterClient) -> Any:
    found = await list_offsets(Router(cluster), {FIRST: -1}, Isolation.READ_UNCOMMITTED)
    return found[FIRST]


async def test_calls_for_a_new_topic_share_one_look_up(toy: ToyCluster) -> None:
    """The second call must not take a topic for unknown while the first one asks for it."""
    cluster = _cluster(toy)
    await cluster.refresh()
    toy.add_topic("t")

    found = await asyncio.gather(*(_end(cluster) for _ in range(3)))

    assert found == [(0, -1)] * 3
    assert toy.counts()[ApiKey.METADATA] == 2
    cluster.close()


async def test_a_question_about_other_topics_is_no_look_up(toy: ToyCluster) -> None:
    """Its answer does not have the topic that a call has followed."""
    toy.add_topic("t")
    toy.add_topic("other")
    cluster = _cluster(toy)
    await cluster.refresh()
    cluster.follow(["t"])

    _, found = await asyncio.gather(cluster.describe(["other"]), _end(cluster))

    assert found == (0, -1)
    cluster.close()


async def test_a_look_up_that_fails_is_made_again_by_who_waited(toy: ToyCluster) -> None:
    """The first call is given up; the second one asks itself."""
    cluster = _cluster(toy)
    await cluster.refresh()
    toy.add_topic("t")
    fates = [Fate.SWALLOW]
    toy.judge = lambda seen: fates.pop() if seen.api_key is ApiKey.METADATA and fates else None
    first = asyncio.ensure_future(_end(cluster))
    await asyncio.sleep(0)
    second = asyncio.ensure_future(_end(cluster))
    while fates:
        await asyncio.sleep(0.001)
    first.cancel()

    async with asyncio.timeout(PATIENCE_S):
        assert await second == (0, -1)
    cluster.close()


def _delete(toy: ToyCluster, code: ErrorCode, denials_max: int = 2**31) -> list[ErrorCode]:
    """Let the leader and metadata deny all topics, so many times; the list is of the leader's
    answers."""
    topics, denials = toy.topics, list[ErrorCode]()

    def judge(seen: Seen) -> ErrorCode | None:
        is_over = len(denials) >= denials_max
        toy.topics = {} if seen.api_key is ApiKey.METADATA and not is_over else topics
        if seen.api_key is not ApiKey.LIST_OFFSETS or is_over:
            return None
        denials.append(code)
        return code

    toy.judge = judge
    return denials


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION])
async def test_a_deleted_topic_is_given_up(toy: ToyCluster, code: ErrorCode) -> None:
    """Leader and metadata agree: no caller waits ten minutes for a topic that does not come
    back."""
    toy.add_topic("t")
    cluster = _cluster(toy)
    assert await _end(cluster) == (0, -1)
    denials = _delete(toy, code)
    begun_ms = cluster.environment.clock.now_ms()

    async with asyncio.timeout(PATIENCE_S):
        found = await _end(cluster)

    assert isinstance(found, RequestRefused)
    assert found.code is code
    assert cluster.environment.clock.now_ms() - begun_ms >= NEWS_MS
    assert len(denials) > 2
    cluster.close()


async def test_a_broker_that_does_not_know_its_topics_yet_is_waited_for(toy: ToyCluster) -> None:
    """After a start it denies them for a moment."""
    toy.add_topic("t")
    cluster = _cluster(toy)
    assert await _end(cluster) == (0, -1)
    denials = _delete(toy, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, 3)

    async with asyncio.timeout(PATIENCE_S):
        assert await _end(cluster) == (0, -1)
    assert len(denials) == 3
    cluster.close()


async def test_a_topic_that_was_replaced_is_gone_for_its_reader(toy: ToyCluster) -> None:
    """The name is known again, with another id: asking for the first one is of no use."""
    toy.add_topic("t")
    cluster = _cluster(toy)
    key, code = ApiKey.FETCH, ErrorCode.UNKNOWN_TOPIC_ID
    toy.judge = lambda seen: code if seen.api_key is key else None
    reader = RawReader(Router(cluster), FIRST, bytes(15) + b"\x01")

    async with asyncio.timeout(PATIENCE_S):
        with pytest.raises(Gone):
            await reader.read(0, 1)
    cluster.close()
